"""Each checker of security accepts what the rules allow, and detects its anomaly."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen.checkers import SECURITY_CHECKERS
from jepsen.checkers.security.known_metadata import KnownMetadata
from jepsen.history import History, Operation
from jepsen.values import (
    Access,
    AclChange,
    CredentialChange,
    IssuedToken,
    LoggedIn,
    LogIn,
    OwnToken,
    Right,
    SeenCredentials,
)
from metadata.image import AccessControlEntry
from metadata.protocol import AclOperation, AclPermission, PatternType, ResourceType, ScramMechanism

SHA_256 = ScramMechanism.SCRAM_SHA_256
LIFETIME_MS = 3_000
ADDRESS = "10.0.0.9"


def entry(
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    permission: AclPermission = AclPermission.ALLOW,
    operation: AclOperation = AclOperation.READ,
    principal: str = "User:alice",
    host: str = "*",
) -> AccessControlEntry:
    return AccessControlEntry(ResourceType.TOPIC, name, pattern, principal, host, operation, permission)


ALLOWED = entry()
DENIED = entry("ord", PatternType.PREFIXED, AclPermission.DENY)


class Story:
    """A history whose operations each take one second, unless they have other times."""

    def __init__(self) -> None:
        self.at = 0.0
        self.history = History(lambda: self.at)
        self.marks = 0
        self.iterations = 0

    def did(self, function: str, value: object, result: object = None, *, ended: bool = True) -> Operation:
        operation = self.history.invoke("client", function, value)
        self.at += 1
        if ended:
            self.history.ok(operation, result)
        else:
            self.history.info(operation, "no response")
        return operation

    def knows_all(self, listed: int | None = None) -> None:
        """The broker learns of everything until now. It lists the iterations of alice's password, or others."""
        self.marks += 1
        self.did("mark", self.marks)
        iterations = self.iterations if listed is None else listed
        seen = (("alice", SHA_256, iterations),) if iterations else ()
        self.did("see-credentials", "n1", SeenCredentials(self.marks, seen))

    def changes(self, *added: AccessControlEntry, is_added: bool = True, ended: bool = True) -> None:
        for each in added:
            self.did("change-acl", AclChange(each, is_added), ended=ended)

    def asks(
        self,
        *,
        allowed: bool,
        operation: AclOperation = AclOperation.READ,
        user: str = "alice",
        connection: str = "c1",
        effect: str = "",
        is_forwarded: bool = False,
    ) -> None:
        right = Right(operation, ResourceType.TOPIC, "orders")
        self.did("access", Access(connection, "n1", user, ADDRESS, (right,), is_forwarded, effect), allowed)

    def sets(self, password: str | None, iterations: int = 4096) -> None:
        self.did("change-credential", CredentialChange("alice", SHA_256, password, iterations))
        self.iterations = 0 if password is None else iterations

    def logs_in(
        self,
        password: str,
        *,
        refused: bool = False,
        iterations: int = 4096,
        lifetime_ms: int = LIFETIME_MS,
        previous_user: str = "",
        token_id: str = "",
        lifetime_ms_max: int = LIFETIME_MS,
    ) -> None:
        value = LogIn("c1", "n1", "alice", SHA_256, password, lifetime_ms_max, previous_user, token_id)
        operation = self.history.invoke("client", "log-in", value)
        self.at += 1
        if refused:
            self.history.fail(operation, "refused")
        else:
            self.history.ok(operation, LoggedIn(iterations, lifetime_ms))

    def logs_in_for_ever(self) -> None:
        """A session without an end, so that only authorization decides."""
        self.sets("secret")
        self.logs_in("secret", lifetime_ms=0, lifetime_ms_max=0)

    def broken(self) -> list[str]:
        return [anomaly.promise for checker in SECURITY_CHECKERS for anomaly in checker.check(self.history)]


def allowed_by_entry(story: Story) -> None:
    story.logs_in_for_ever()
    story.changes(ALLOWED)
    story.knows_all()
    story.asks(allowed=True)


def refused_without_entries(story: Story) -> None:
    story.logs_in_for_ever()
    story.asks(allowed=False)


def late_broker(story: Story) -> None:
    """A broker that has not read the mark decides by the old entries or by the new ones."""
    allowed_by_entry(story)
    story.changes(DENIED)
    story.asks(allowed=True)
    story.asks(allowed=False)


def unacknowledged_change(story: Story) -> None:
    allowed_by_entry(story)
    story.changes(ALLOWED, is_added=False, ended=False)
    story.knows_all()
    story.asks(allowed=True)
    story.asks(allowed=False)


def described_by_reader(story: Story) -> None:
    allowed_by_entry(story)
    story.asks(allowed=True, operation=AclOperation.DESCRIBE)


def entries_of_other_hosts(story: Story) -> None:
    allowed_by_entry(story)
    story.changes(entry(permission=AclPermission.DENY, host="192.0.2.1"))
    story.knows_all()
    story.asks(allowed=True)


def password_changes(story: Story) -> None:
    story.sets("first")
    story.knows_all()
    story.logs_in("first")
    story.sets("second", 5000)
    story.logs_in("first")
    story.logs_in("second", iterations=5000)
    story.knows_all()
    story.logs_in("first", refused=True)
    story.sets(None)
    story.knows_all()
    story.logs_in("second", refused=True)


def token(story: Story) -> None:
    story.did("create-token", OwnToken("alice"), IssuedToken("User:alice", "t1", "hmac"))
    story.logs_in("hmac", token_id="t1", lifetime_ms=1000)
    story.logs_in("hmac", token_id="t1", refused=True)


def forwarded_twice(story: Story) -> None:
    """The first attempt has created the topic, and the response is that of the second one."""
    story.logs_in_for_ever()
    allowing = entry(operation=AclOperation.CREATE)
    story.changes(allowing)
    story.knows_all()
    value = Access(
        "c1", "n1", "alice", ADDRESS, (Right(AclOperation.CREATE, ResourceType.TOPIC, "orders"),), True, "orders"
    )
    operation = story.history.invoke("client", "access", value)
    story.changes(allowing, is_added=False)
    story.history.ok(operation, result=False)
    story.did("list-topics", None, {"orders": None})


RIGHT: list[Callable[[Story], None]] = [
    allowed_by_entry,
    refused_without_entries,
    late_broker,
    unacknowledged_change,
    described_by_reader,
    entries_of_other_hosts,
    password_changes,
    token,
    forwarded_twice,
]


@pytest.mark.parametrize("tell", RIGHT, ids=lambda tell: tell.__name__)
def test_history_without_anomalies(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert story.broken() == []


def denied_prefix(story: Story) -> None:
    allowed_by_entry(story)
    story.changes(DENIED)
    story.knows_all()
    story.asks(allowed=True)


def of_another_user(story: Story) -> None:
    story.logs_in_for_ever()
    story.changes(entry(principal="User:bob"))
    story.asks(allowed=True)


def forwarded_by_old_entries(story: Story) -> None:
    """The controller knows each change that is acknowledged, whether or not the broker does."""
    allowed_by_entry(story)
    story.changes(DENIED)
    story.asks(allowed=True, is_forwarded=True)


def stale_refusal(story: Story) -> None:
    story.logs_in_for_ever()
    story.changes(ALLOWED)
    story.knows_all()
    story.asks(allowed=False)


def refused_record_is_there(story: Story) -> None:
    story.logs_in_for_ever()
    story.asks(allowed=False, effect="value")
    story.did("final-read", ("orders", 0), [(0, "value")])


def denied_topic_is_there(story: Story) -> None:
    story.logs_in_for_ever()
    story.asks(allowed=False, effect="orders", operation=AclOperation.CREATE, is_forwarded=True)
    story.did("list-topics", None, {"orders": None})


def lost_entry(story: Story) -> None:
    story.changes(ALLOWED)
    story.knows_all()
    story.did("see-acls", "n1", ())


def unknown_entry(story: Story) -> None:
    story.did("see-acls", "n1", (ALLOWED,))


def wrong_password(story: Story) -> None:
    story.sets("right")
    story.logs_in("wrong")


def removed_user(story: Story) -> None:
    story.sets("secret")
    story.sets(None)
    story.knows_all()
    story.logs_in("secret")


def token_of_another(story: Story) -> None:
    story.did("create-token", OwnToken("bob"), IssuedToken("User:bob", "t1", "hmac"))
    story.logs_in("hmac", token_id="t1")


def right_password_refused(story: Story) -> None:
    story.sets("secret")
    story.knows_all()
    story.logs_in("secret", refused=True)


def changed_user(story: Story) -> None:
    story.sets("secret")
    story.logs_in("secret", previous_user="bob")


def expired_session(story: Story) -> None:
    story.sets("secret")
    story.logs_in("secret")
    story.at += LIFETIME_MS / 1000 + 0.001
    story.asks(allowed=False)


def unauthenticated(story: Story) -> None:
    story.asks(allowed=False, user="", connection="c2")


def long_session(story: Story) -> None:
    story.sets("secret")
    story.logs_in("secret", lifetime_ms=LIFETIME_MS + 1)


def endless_session(story: Story) -> None:
    story.sets("secret")
    story.logs_in("secret", lifetime_ms=0)


def fewer_iterations_asked(story: Story) -> None:
    story.sets("secret", 5000)
    story.logs_in("secret", iterations=4096)


def fewer_iterations_listed(story: Story) -> None:
    story.sets("secret", 5000)
    story.knows_all(listed=4096)


def too_few_iterations_accepted(story: Story) -> None:
    story.sets("secret", 4095)


def token_of_the_broker(story: Story) -> None:
    story.did("create-token", OwnToken("alice"), IssuedToken("User:node", "t1", "hmac"))


WRONG: list[tuple[Callable[[Story], None], str]] = [
    (denied_prefix, "DeniedRequestsAreRefused"),
    (of_another_user, "DeniedRequestsAreRefused"),
    (forwarded_by_old_entries, "DeniedRequestsAreRefused"),
    (stale_refusal, "AllowedRequestsAreServed"),
    (refused_record_is_there, "RefusedRequestsHaveNoEffect"),
    (denied_topic_is_there, "RefusedRequestsHaveNoEffect"),
    (lost_entry, "SeenAclsAreCurrent"),
    (unknown_entry, "SeenAclsAreCurrent"),
    (wrong_password, "WrongPasswordsNeverLogIn"),
    (removed_user, "WrongPasswordsNeverLogIn"),
    (token_of_another, "WrongPasswordsNeverLogIn"),
    (right_password_refused, "RightPasswordsLogIn"),
    (changed_user, "ConnectionsKeepTheirUsers"),
    (expired_session, "OnlySessionsAreServed"),
    (unauthenticated, "OnlySessionsAreServed"),
    (long_session, "OnlySessionsAreServed"),
    (endless_session, "OnlySessionsAreServed"),
    (fewer_iterations_asked, "CredentialsKeepTheirIterations"),
    (fewer_iterations_listed, "CredentialsKeepTheirIterations"),
    (too_few_iterations_accepted, "CredentialsKeepTheirIterations"),
    (token_of_the_broker, "TokensAreOfTheirOwners"),
]


@pytest.mark.parametrize(("tell", "promise"), WRONG, ids=[tell.__name__ for tell, _ in WRONG])
def test_anomaly_is_detected(tell: Callable[[Story], None], promise: str) -> None:
    story = Story()
    tell(story)
    assert set(story.broken()) == {promise}


@given(st.integers(min_value=0, max_value=1 << 32))
def test_values_of_an_entry_at_a_broker_are_among_the_possible_ones(seed: int) -> None:
    """Changes take effect at any time between invocation and response, and a broker learns of them late, in order."""
    rng, now = Random(seed), 0.0
    history = History(lambda: now)
    committed: list[tuple[float, bool]] = [(-1.0, False)]
    commits: list[tuple[float, int]] = []
    for mark in range(1, 8):
        operation = history.invoke("admin", "change-acl", AclChange(ALLOWED, is_added := rng.random() < 0.5))
        effect = now + rng.random()
        is_answered, is_effective = rng.random() < 0.7, rng.random() < 0.5
        now += 1
        if is_answered:
            history.ok(operation, None)
        else:
            history.info(operation, "no response")
        if is_answered or is_effective:
            committed.append((effect, is_added))
        history.invoke("marks", "mark", mark)
        commits.append((now + rng.random(), mark))
        now += 1
    end, known_until = now, 0.0
    for _ in range(10):
        # The broker knows all that was committed until then, and asks itself after that.
        known_until = rng.uniform(known_until, end)
        now = max(known_until, now)
        read = history.invoke("reader", "see-credentials", "n1")
        history.ok(read, SeenCredentials(max([0, *(mark for at, mark in commits if at <= known_until)]), ()))
        now += 1
        known_later = rng.uniform(known_until, end)
        value = next(value for at, value in reversed(committed) if at <= known_later)
        metadata = KnownMetadata(history)
        assert value in metadata.entries[ALLOWED].between(metadata.since("n1", now), now)
