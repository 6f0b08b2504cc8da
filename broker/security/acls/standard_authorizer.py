"""Decides by the access control entries in the metadata, as Kafka's StandardAuthorizer does."""

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from broker.security.acls.acl_index import AclIndex, covers
from broker.server.session import Session
from metadata.image import WILDCARD, WILDCARD_PRINCIPAL, AccessControlEntry, MetadataDelta, MetadataImage
from metadata.protocol import AclOperation, AclPermission, ErrorCode, KafkaError, PatternType, ResourceType

# Decisions that are kept, of some 400 bytes each. When there are more, all are made again.
DECISIONS_MAX: Final = 16_384
# Names of topics have at most 249 characters. Decisions about longer names, of groups for example, are not kept.
_KEPT_NAME_MAX: Final = 256

# These operations imply others where they are allowed, and deny only themselves.
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
# The name that Kafka asks about to find out whether a client may use any resource of a type.
_ANY_NAME: Final = "hardcode"

_Question: TypeAlias = tuple[str, str, AclOperation, ResourceType, str]


class StandardAuthorizer:
    """See `broker.server.authorizer.Authorizer`. A publisher of the metadata.

    `super_users` are principals that may do everything. `allows_without_acls` is the decision about resources for which
    there are no entries at all. Before the metadata are loaded, only super users are served.
    """

    uses_acls: Final = True

    def __init__(self, super_users: Collection[str] = (), *, allows_without_acls: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allows_without_acls = allows_without_acls
        self._index = AclIndex()
        self._decisions: dict[_Question, bool] = {}
        self._is_loaded = False
        self._listeners: list[Callable[[], None]] = []

    def when_changed(self, callback: Callable[[], None]) -> None:
        """See `Authorizer`."""
        self._listeners.append(callback)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Decide by the changed entries from now on."""
        self._is_loaded = True
        if not delta.acls.changed:
            return
        for entry in delta.acls.removed():
            self._index.remove(entry)
        for entry in delta.acls.added():
            self._index.add(entry)
        self._decisions.clear()
        for changed in self._listeners:
            changed()

    def allows(
        self, session: Session, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """See `Authorizer`. Raises KafkaError NOT_CONTROLLER, which clients retry, while the entries are not loaded."""
        principal = session.principal
        if principal in self._super_users:
            return True
        question = (principal, session.client_host, operation, resource_type, resource_name)
        decision = self._decisions.get(question)
        if decision is None:
            self._check_loaded()
            decision = self._decide(*question)
            if len(resource_name) <= _KEPT_NAME_MAX:
                if len(self._decisions) >= DECISIONS_MAX:
                    self._decisions.clear()
                self._decisions[question] = decision
        return decision

    def allows_any(self, session: Session, operation: AclOperation, resource_type: ResourceType) -> bool:
        """See `Authorizer`. As in Kafka, an operation is not implied by another one here."""
        if self.allows(session, operation, resource_type, _ANY_NAME):
            return True
        principals = _principals(session.principal)
        entries = [
            entry
            for entry in self._index.all_entries(resource_type, principals, session.client_host)
            if covers(entry, operation)
        ]
        denied = {_pattern(entry) for entry in entries if entry.permission is AclPermission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(entry.permission is AclPermission.ALLOW and not _is_denied(entry, denied) for entry in entries)

    def _check_loaded(self) -> None:
        if not self._is_loaded:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node has not loaded the access control entries yet.")

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        patterns = self._index.patterns(resource_type, resource_name)
        if not patterns:
            return self._allows_without_acls
        implied_by = _IMPLIED_BY.get(operation, ())
        is_allowed = False
        for entry in self._index.entries(resource_type, _principals(principal), patterns, host):
            if entry.permission is AclPermission.DENY:
                if covers(entry, operation):
                    return False
            elif covers(entry, operation) or entry.operation in implied_by:
                is_allowed = True
        return is_allowed


def _principals(principal: str) -> tuple[str, ...]:
    """The principals whose entries apply to the client."""
    return (principal, WILDCARD_PRINCIPAL) if principal != WILDCARD_PRINCIPAL else (principal,)


def _pattern(entry: AccessControlEntry) -> tuple[PatternType, str]:
    return entry.pattern_type, entry.resource_name


def _is_denied(entry: AccessControlEntry, denied: set[tuple[PatternType, str]]) -> bool:
    """True if all resources of an entry are denied by others; a literal WILDCARD is not denied by prefixes."""
    name = entry.resource_name
    if entry.pattern_type is PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if (PatternType.LITERAL, name) in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
