"""Promises about authorization. Access control entries decide as in Kafka's StandardAuthorizer, see `_Possible`."""

from collections.abc import Iterator, Mapping
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Final

import attrs

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.security.known_metadata import KnownMetadata, completed, window
from jepsen.history import History, Operation, Outcome
from jepsen.values import SETTLED_SECONDS, Access, Right
from metadata.image import AccessControlEntry
from metadata.protocol import AclOperation, AclPermission, PatternType

# An entry that allows one of these allows DESCRIBE, too.
_DESCRIBING: Final = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)


class DeniedRequestsAreRefused:
    """A client's request is refused if no state of the access control entries allows it that the node that authorizes
    it may have known.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        metadata = KnownMetadata(history)
        for operation in completed(history, "access"):
            if operation.outcome is Outcome.OK and operation.result:
                possible = _possible(metadata, operation)
                if not possible.may_allow:
                    what = f"served although {possible.reason}"
                    yield Anomaly(type(self).__name__, what, (operation,))


class AllowedRequestsAreServed:
    """A client's request is not refused if every state of the access control entries allows it that the node that
    authorizes it may have known.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        metadata = KnownMetadata(history)
        for operation in completed(history, "access"):
            if operation.outcome is Outcome.OK and not operation.result:
                possible = _possible(metadata, operation)
                if not possible.may_deny:
                    what = f"refused although {possible.reason}"
                    yield Anomaly(type(self).__name__, what, (operation,))


class RefusedRequestsHaveNoEffect:
    """A record or a topic exists only if one of the requests for it was, or may have been, authorized."""

    def check(self, history: History) -> Iterator[Anomaly]:
        metadata = KnownMetadata(history)
        attempts: dict[str, list[Operation]] = {}
        for operation in history.of("access"):
            if operation.value.effect:
                attempts.setdefault(operation.value.effect, []).append(operation)
        for read in history.of("final-read", outcome=Outcome.OK):
            for _, value in read.result:
                yield from self._check(metadata, value, attempts.get(value, []))
        for listing in history.of("list-topics", outcome=Outcome.OK):
            for name in listing.result:
                if name in attempts:
                    yield from self._check(metadata, name, attempts[name])

    def _check(self, metadata: KnownMetadata, effect: str, attempts: list[Operation]) -> Iterator[Anomaly]:
        if not any(_may_have_effect(metadata, each) for each in attempts):
            yield Anomaly(type(self).__name__, f"{effect} is there", tuple(attempts))


class SeenAclsAreCurrent:
    """A broker that lists the access control entries returns those of a state that it may have known."""

    def check(self, history: History) -> Iterator[Anomaly]:
        metadata = KnownMetadata(history)
        for operation in history.of("see-acls", outcome=Outcome.OK):
            since, until = window(metadata, operation, operation.value)
            seen = set(operation.result)
            for entry in seen.difference(metadata.entries):
                yield Anomaly(type(self).__name__, f"no request has added this entry: {entry}", (operation,))
            for entry, values in metadata.entries.items():
                if (entry in seen) not in values.between(since, until):
                    what = f"{'with' if entry in seen else 'without'} this entry: {entry}"
                    yield Anomaly(type(self).__name__, what, (operation,))


@attrs.frozen
class _Possible:
    """The decisions that are possible about a request; `reason` is the state of the entries that apply."""

    may_allow: bool
    may_deny: bool
    reason: str


def _possible(metadata: KnownMetadata, operation: Operation) -> _Possible:
    access: Access = operation.value
    since, until = window(metadata, operation, access.broker)
    # The active controller knows all that was committed before.
    since = operation.invoked_at if access.is_forwarded else since
    return _decisions(metadata, access, since, until)


def _may_have_effect(metadata: KnownMetadata, operation: Operation) -> bool:
    if operation.outcome is Outcome.OK:
        # A broker may have forwarded a refused request twice, and only the second time it was refused.
        return operation.result or (operation.value.is_forwarded and _possible(metadata, operation).may_allow)
    since = metadata.since(operation.value.broker, operation.invoked_at)
    return _decisions(metadata, operation.value, since, operation.invoked_at + SETTLED_SECONDS).may_allow


def _decisions(metadata: KnownMetadata, access: Access, since: float, until: float) -> _Possible:
    """A request is allowed if any of its rights is. Entries are taken as independent of each other."""
    each = [_decisions_about(metadata, access, right, since, until) for right in access.rights]
    return _Possible(
        any(right.may_allow for right in each),
        all(right.may_deny for right in each),
        "; ".join(right.reason for right in each),
    )


def _decisions_about(metadata: KnownMetadata, access: Access, right: Right, since: float, until: float) -> _Possible:
    """An entry that denies decides; otherwise one has to allow."""
    states: dict[AccessControlEntry, set[bool]] = {}
    for entry, values in metadata.entries.items():
        if _applies(entry, f"User:{access.user}", access.address, right):
            states[entry] = values.between(since, until)
    denying = {entry: state for entry, state in states.items() if entry.permission is AclPermission.DENY}
    allowing = {entry: state for entry, state in states.items() if entry.permission is AclPermission.ALLOW}
    return _Possible(
        not _is_certain(denying) and any(True in state for state in allowing.values()),
        any(True in state for state in denying.values()) or not _is_certain(allowing),
        f"{right.operation.name} on {right.resource_type.name} {right.name}: " + _described(states),
    )


def _is_certain(states: Mapping[AccessControlEntry, set[bool]]) -> bool:
    return any(state == {True} for state in states.values())


def _described(states: Mapping[AccessControlEntry, set[bool]]) -> str:
    words = {(False, True): "perhaps", (True,): "certainly", (False,): "not"}
    return ", ".join(f"{words[tuple(sorted(state))]} {entry}" for entry, state in states.items()) or "no entry applies"


def _applies(entry: AccessControlEntry, principal: str, address: str, right: Right) -> bool:
    return (
        entry.resource_type is right.resource_type
        and entry.principal in (principal, "User:*")
        and _is_about(entry, right.operation)
        and _matches(entry, right.name)
        and _is_from(entry.host, address)
    )


def _is_about(entry: AccessControlEntry, operation: AclOperation) -> bool:
    if entry.operation in (operation, AclOperation.ALL):
        return True
    is_implied = operation is AclOperation.DESCRIBE and entry.operation in _DESCRIBING
    return is_implied and entry.permission is AclPermission.ALLOW


def _matches(entry: AccessControlEntry, name: str) -> bool:
    if entry.pattern_type is PatternType.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in (name, "*")


@cache
def _is_from(host: str, address: str) -> bool:
    return host == "*" or ip_address(address) in ip_network(host)
