"""Delegation tokens (KIP-48): who may create, renew and expire them, their times, and the bounds on them."""

import hashlib
import hmac
from typing import Final

import attrs
import pytest

from metadata.configuration.definition import Password
from metadata.controller import SUPPORTED_FEATURES, CreatedToken, DelegationTokenConfig, NewDelegationToken
from metadata.controller import delegation_tokens as module
from metadata.controller.delegation_tokens import RENEWERS_MAX, DelegationTokensControl
from metadata.image import DelegationToken
from metadata.protocol import KafkaError
from metadata.protocol.delegation_tokens import token_hmac
from tests.support.metadata import Cluster

SECRET: Final = "a secret of the cluster"
DAY_MS: Final = 86_400_000
NOW_MS: Final = 1_700_000_000_000
CONFIG: Final = DelegationTokenConfig(secret_key=Password(SECRET), max_lifetime_ms=7 * DAY_MS, expiry_time_ms=DAY_MS)


class Tokens:
    """A cluster with its control of tokens, and the time."""

    def __init__(self, config: DelegationTokenConfig = CONFIG) -> None:
        self.cluster = Cluster()
        self.control = DelegationTokensControl(config)
        self.now_ms = NOW_MS
        self.created = 0

    def create(self, owner: str = "User:alice", **others: object) -> CreatedToken:
        self.created += 1
        wanted = attrs.evolve(NewDelegationToken(owner, owner), **others)
        decision = self.control.create(self.cluster.image, wanted, f"token-{self.created}", self.now_ms)
        return self.cluster.decide(decision)

    def renew(self, principal: str, hmac: bytes, period_ms: int = -1) -> int:
        return self.cluster.decide(self.control.renew(self.cluster.image, principal, hmac, period_ms, self.now_ms))

    def expire(self, principal: str, hmac: bytes, period_ms: int) -> int:
        return self.cluster.decide(self.control.expire(self.cluster.image, principal, hmac, period_ms, self.now_ms))

    @property
    def by_id(self) -> dict[str, DelegationToken]:
        return dict(self.cluster.image.delegation_tokens.by_id.items())

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.cluster.image.delegation_tokens.counts.items())


def test_a_token_is_created_with_kafkas_hmac_and_times() -> None:
    tokens = Tokens()
    created = tokens.create(requester="User:admin", renewers=["User:bob", "User:bob"])
    token = DelegationToken(
        "token-1", "User:alice", "User:admin", ("User:bob",), NOW_MS, NOW_MS + 7 * DAY_MS, NOW_MS + DAY_MS
    )
    assert created == CreatedToken(token, hmac.new(SECRET.encode(), b"token-1", hashlib.sha512).digest())
    assert tokens.by_id == {"token-1": token}


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expires_ms"),
    [
        (-1, 7 * DAY_MS, DAY_MS),
        (0, 7 * DAY_MS, DAY_MS),
        (2 * DAY_MS, 2 * DAY_MS, DAY_MS),
        (5, 5, 5),
        (2**63 - 1, 7 * DAY_MS, DAY_MS),
    ],
)
def test_a_lifetime_may_be_shorter_than_the_configured_one(lifetime_ms: int, max_ms: int, expires_ms: int) -> None:
    token = Tokens().create(max_lifetime_ms=lifetime_ms).token
    assert (token.max_ms - NOW_MS, token.expires_ms - NOW_MS) == (max_ms, expires_ms)


def test_owner_and_renewers_renew_within_the_longest_lifetime() -> None:
    tokens = Tokens()
    hmac = tokens.create(renewers=["User:bob"], max_lifetime_ms=2 * DAY_MS).hmac
    tokens.now_ms += DAY_MS // 2
    assert tokens.renew("User:alice", hmac) == tokens.now_ms + DAY_MS
    assert tokens.renew("User:bob", hmac, 1000) == tokens.now_ms + 1000
    assert tokens.renew("User:bob", hmac, 5 * DAY_MS) == tokens.now_ms + DAY_MS
    tokens.now_ms += DAY_MS
    assert tokens.renew("User:alice", hmac) == NOW_MS + 2 * DAY_MS
    assert tokens.by_id["token-1"].expires_ms == NOW_MS + 2 * DAY_MS


def test_a_token_expires_sooner_or_at_once() -> None:
    tokens = Tokens()
    hmac = tokens.create().hmac
    assert tokens.expire("User:alice", hmac, 1000) == NOW_MS + 1000
    assert tokens.expire("User:alice", hmac, 2**63 - 1) == NOW_MS + 7 * DAY_MS
    assert tokens.expire("User:alice", hmac, -1) == NOW_MS
    assert (tokens.by_id, tokens.counts) == ({}, {})


def _refusal(error: pytest.ExceptionInfo[KafkaError]) -> str:
    return error.value.code.name


def test_strangers_may_neither_renew_nor_expire() -> None:
    tokens = Tokens()
    hmac = tokens.create(requester="User:admin", renewers=["User:bob"]).hmac
    for principal in ("User:mallory", "User:admin", "Group:alice", "alice"):
        with pytest.raises(KafkaError) as renewed:
            tokens.renew(principal, hmac)
        with pytest.raises(KafkaError) as expired:
            tokens.expire(principal, hmac, -1)
        assert _refusal(renewed) == _refusal(expired) == "DELEGATION_TOKEN_OWNER_MISMATCH"


@pytest.mark.parametrize("other", [b"", b"\x00" * 64, token_hmac("another secret", "token-1")])
def test_other_hmacs_find_no_token(other: bytes) -> None:
    tokens = Tokens()
    tokens.create()
    with pytest.raises(KafkaError) as refused:
        tokens.renew("User:alice", other)
    assert _refusal(refused) == "DELEGATION_TOKEN_NOT_FOUND"


def test_an_expired_token_is_only_removed() -> None:
    tokens = Tokens()
    hmac = tokens.create().hmac
    tokens.now_ms += DAY_MS + 1
    for call in (lambda: tokens.renew("User:alice", hmac), lambda: tokens.expire("User:alice", hmac, 5)):
        with pytest.raises(KafkaError) as refused:
            call()
        assert _refusal(refused) == "DELEGATION_TOKEN_EXPIRED"
    tokens.expire("User:alice", hmac, -1)
    assert tokens.by_id == {}


def test_expired_tokens_are_removed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMOVED_AT_ONCE", 2)
    tokens = Tokens()
    for _ in range(3):
        tokens.create()
    kept = tokens.create(owner="User:bob").hmac
    tokens.now_ms += DAY_MS
    assert not tokens.cluster.decide(tokens.control.remove_expired(tokens.cluster.image, tokens.now_ms))
    tokens.renew("User:bob", kept)
    tokens.now_ms += 1
    assert tokens.cluster.decide(tokens.control.remove_expired(tokens.cluster.image, tokens.now_ms))
    assert not tokens.cluster.decide(tokens.control.remove_expired(tokens.cluster.image, tokens.now_ms))
    assert (list(tokens.by_id), tokens.counts) == (["token-4"], {"User:bob": 1})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"renewers": ["Group:g"]}, "INVALID_PRINCIPAL_TYPE"),
        ({"owner": "Group:g"}, "INVALID_PRINCIPAL_TYPE"),
        ({"renewers": ["bob"]}, "INVALID_PRINCIPAL_TYPE"),
        ({"renewers": [f"User:{place}" for place in range(RENEWERS_MAX + 1)]}, "INVALID_REQUEST"),
        ({"renewers": ["User:" + "x" * 1000]}, "INVALID_REQUEST"),
        ({"owner": "User:" + "x" * 1000}, "INVALID_REQUEST"),
    ],
)
def test_principals_are_checked(changes: dict[str, object], code: str) -> None:
    with pytest.raises(KafkaError) as refused:
        Tokens().create(**changes)  # type: ignore[arg-type]
    assert _refusal(refused) == code


def test_the_tokens_of_an_owner_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OWNED_TOKENS_MAX", 2)
    tokens = Tokens()
    first = tokens.create().hmac
    tokens.create()
    with pytest.raises(KafkaError) as refused:
        tokens.create()
    assert _refusal(refused) == "POLICY_VIOLATION"
    tokens.create(owner="User:bob")
    tokens.expire("User:alice", first, -1)
    tokens.create()
    assert tokens.counts == {"User:alice": 2, "User:bob": 1}


@pytest.mark.parametrize("secret_key", [None, Password("")])
def test_without_a_secret_key_there_are_no_tokens(secret_key: Password | None) -> None:
    tokens = Tokens(attrs.evolve(CONFIG, secret_key=secret_key))
    for call in (tokens.create, lambda: tokens.renew("User:a", b"x"), lambda: tokens.expire("User:a", b"x", -1)):
        with pytest.raises(KafkaError) as refused:
            call()
        assert _refusal(refused) == "DELEGATION_TOKEN_AUTH_DISABLED"


def test_no_tokens_before_metadata_version_3_6() -> None:
    tokens = Tokens()
    features = {**tokens.cluster.image.features, "metadata.version": 13}
    tokens.cluster.image = attrs.evolve(tokens.cluster.image, features=features)
    with pytest.raises(KafkaError, match=r"metadata\.version does not support delegation tokens"):
        tokens.create()


def test_no_tokens_while_a_node_of_an_earlier_release_is_registered() -> None:
    tokens = Tokens()
    tokens.cluster.join(1)
    broker = attrs.evolve(tokens.cluster.image.cluster.brokers[1], features=SUPPORTED_FEATURES)
    cluster = attrs.evolve(tokens.cluster.image.cluster, brokers={1: broker})
    tokens.cluster.image = attrs.evolve(tokens.cluster.image, cluster=cluster)
    with pytest.raises(KafkaError, match="Broker 1 is of a release that does not know delegation tokens"):
        tokens.create()


def test_no_secret_is_in_a_representation() -> None:
    tokens = Tokens()
    created = tokens.create()
    assert SECRET not in repr(CONFIG)
    assert repr(created.hmac) not in repr(created)
