"""Promises about passwords, sessions and delegation tokens."""

from collections import defaultdict
from collections.abc import Iterator

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.security.known_metadata import Credential, KnownMetadata, completed, window
from jepsen.history import History, Operation, Outcome
from jepsen.values import LogIn
from metadata.protocol.scram import ITERATIONS_MIN


class WrongPasswordsNeverLogIn:
    """A client logs in only with a password that the user may have had, as far as the broker may have known."""

    def check(self, history: History) -> Iterator[Anomaly]:
        metadata, tokens = KnownMetadata(history), _tokens(history)
        for operation in history.of("log-in", outcome=Outcome.OK):
            login: LogIn = operation.value
            if login.token_id:
                is_right = tokens.get(login.token_id) == (login.user, login.password)
            else:
                is_right = any(each.password == login.password for each in _credentials(metadata, operation) if each)
            if not is_right:
                yield Anomaly(type(self).__name__, "logged in with a wrong password", (operation,))


class RightPasswordsLogIn:
    """A client is not refused with the only password that the user may have had.

    Tokens are left out: the clocks of nodes, which may be wrong, decide when a token expires.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        metadata = KnownMetadata(history)
        for operation in completed(history, "log-in"):
            login: LogIn = operation.value
            is_refused = operation.outcome is Outcome.FAIL and not login.token_id
            if is_refused and login.previous_user in ("", login.user):
                possible = _credentials(metadata, operation)
                if all(each is not None and each.password == login.password for each in possible):
                    yield Anomaly(type(self).__name__, "refused with the right password", (operation,))


class ConnectionsKeepTheirUsers:
    """A client that authenticates again over the same connection cannot become another user (KIP-368)."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("log-in", outcome=Outcome.OK):
            login: LogIn = operation.value
            if login.previous_user not in ("", login.user):
                what = f"the client of {login.previous_user} has become {login.user}"
                yield Anomaly(type(self).__name__, what, (operation,))


class OnlySessionsAreServed:
    """A connection is served only after a log-in, and until its session ends, which is in time."""

    def check(self, history: History) -> Iterator[Anomaly]:
        logins = defaultdict[str, list[Operation]](list)
        for operation in history.of("log-in", outcome=Outcome.OK):
            logins[operation.value.connection].append(operation)
            if not _is_in_bounds(operation):
                what = f"a session of {operation.result.lifetime_ms} ms, which must have an end in time"
                yield Anomaly(type(self).__name__, what, (operation,))
        for access in history.of("access", outcome=Outcome.OK):
            before = [each for each in logins[access.value.connection] if _ended(each) <= access.invoked_at]
            if not before:
                yield Anomaly(type(self).__name__, "served without a log-in", (access,))
            elif (until := _session_end(before[-1])) is not None and access.invoked_at > until:
                what = f"served {access.invoked_at - until:.3f} s after the end of the session"
                yield Anomaly(type(self).__name__, what, (before[-1], access))


class CredentialsKeepTheirIterations:
    """Brokers list each credential with the iterations with which the administrator has set it, and ask clients for so
    many. Credentials with fewer iterations than 4096 are refused.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        metadata = KnownMetadata(history)
        for operation in history.of("change-credential", outcome=Outcome.OK):
            if operation.value.password is not None and operation.value.iterations < ITERATIONS_MIN:
                yield Anomaly(type(self).__name__, "too few iterations were accepted", (operation,))
        for operation in history.of("log-in", outcome=Outcome.OK):
            login: LogIn = operation.value
            possible = [each for each in _credentials(metadata, operation) if each and each.password == login.password]
            if possible and operation.result.iterations not in [each.iterations for each in possible]:
                yield Anomaly(type(self).__name__, f"set with {possible[0].iterations} iterations", (operation,))
        for operation in history.of("see-credentials", outcome=Outcome.OK):
            yield from self._check_read(metadata, operation)

    def _check_read(self, metadata: KnownMetadata, operation: Operation) -> Iterator[Anomaly]:
        since, until = window(metadata, operation, operation.value)
        seen = {(user, mechanism): iterations for user, mechanism, iterations in operation.result.iterations}
        for key, values in metadata.credentials.items():
            possible = {None if each is None else each.iterations for each in values.between(since, until)}
            if seen.get(key) not in possible:
                what = f"{key} has {seen.get(key)} iterations, and {possible} are possible"
                yield Anomaly(type(self).__name__, what, (operation,))


class TokensAreOfTheirOwners:
    """A client that asks for a delegation token of its own gets one of its principal, although brokers forward it."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("create-token", outcome=Outcome.OK):
            if operation.result.owner != f"User:{operation.value.user}":
                yield Anomaly(type(self).__name__, f"the token belongs to {operation.result.owner}", (operation,))


def _credentials(metadata: KnownMetadata, operation: Operation) -> set[Credential | None]:
    """The credentials of a log-in's user that the broker may have known."""
    login: LogIn = operation.value
    since, until = window(metadata, operation, login.broker)
    return metadata.credentials[login.user, login.mechanism].between(since, until)


def _tokens(history: History) -> dict[str, tuple[str, str]]:
    """The owner and the password of each delegation token by its id."""
    issued = (operation.result for operation in history.of("create-token", outcome=Outcome.OK))
    return {each.token_id: (each.owner.removeprefix("User:"), each.password) for each in issued}


def _ended(operation: Operation) -> float:
    assert operation.completed_at is not None, "it succeeded"
    return operation.completed_at


def _is_in_bounds(operation: Operation) -> bool:
    """True if a session that must end does. That of a token whose time is over, by the node's clock, lasts 0 ms."""
    login: LogIn = operation.value
    if not login.lifetime_ms_max:
        return True
    return operation.result.lifetime_ms <= login.lifetime_ms_max and bool(
        operation.result.lifetime_ms or login.token_id
    )


def _session_end(login: Operation) -> float | None:
    """The end of the session at the latest; None if it has none."""
    lifetime_ms: int = login.result.lifetime_ms
    return _ended(login) + lifetime_ms / 1000 if login.value.lifetime_ms_max else None
