"""Clients authenticate with delegation tokens by SCRAM, as their owners (KIP-48)."""

from base64 import b64encode

import attrs
import pytest

from broker.security.delegation_tokens import TokenCredentials
from broker.security.sasl import Authenticated, SaslFailure
from broker.security.sasl.scram import ScramClient, ScramServer, unknown_credential
from metadata.image import DelegationToken, DelegationTokensDelta, DelegationTokensImage
from metadata.protocol import ScramMechanism
from metadata.protocol.delegation_tokens import token_hmac

SECRET = "the secret of the cluster"
TOKEN = DelegationToken("id-1", "User:alice", "User:alice", (), 0, 10_000, 5_000)
MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


class Node:
    """The credentials of a node with some tokens."""

    def __init__(self, *tokens: DelegationToken) -> None:
        self.image = DelegationTokensImage()
        self.now_ms = 1_000
        self.credentials = TokenCredentials(SECRET, lambda: self.image, lambda: self.now_ms)
        for token in tokens:
            self.put(token)

    def put(self, token: DelegationToken) -> None:
        delta = DelegationTokensDelta(self.image)
        delta.replay(token.record())
        self.image = delta.apply()

    def authenticate(
        self, mechanism: ScramMechanism, token_id: str, password: str, *, by_token: bool = True
    ) -> Authenticated | None:
        client = ScramClient(mechanism, token_id, password, "client", by_token=by_token)
        server = ScramServer(
            mechanism,
            "server",
            lambda name: None,
            lambda name: self.credentials.find(mechanism, name),
            unknown=lambda name: unknown_credential(mechanism, b"secret", name),
        )
        challenge, _ = server.evaluate(client.first())
        proof = client.answer(challenge)
        assert proof is not None
        answer, authenticated = server.evaluate(proof)
        assert client.answer(answer) is None
        return authenticated


def password_of(token_id: str, secret: str = SECRET) -> str:
    return b64encode(token_hmac(secret, token_id)).decode()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_token_authenticates_as_its_owner_until_it_expires(mechanism: ScramMechanism) -> None:
    node = Node(TOKEN)
    expected = Authenticated("alice", 5_000, by_token=True)
    assert node.authenticate(mechanism, "id-1", password_of("id-1")) == expected
    assert node.authenticate(mechanism, "id-1", password_of("id-1")) == expected


def test_a_renewed_token_lasts_longer() -> None:
    node = Node(TOKEN)
    node.put(attrs.evolve(TOKEN, expires_ms=20_000))
    authenticated = node.authenticate(MECHANISMS[0], "id-1", password_of("id-1"))
    assert authenticated == Authenticated("alice", 10_000, by_token=True)


@pytest.mark.parametrize(
    ("token_id", "password", "by_token"),
    [
        ("id-1", password_of("id-1", "another secret"), True),
        ("id-1", password_of("id-2"), True),
        ("id-2", password_of("id-2"), True),
        ("id-1", password_of("id-1"), False),
        ("alice", password_of("id-1"), True),
    ],
)
def test_other_names_and_passwords_are_refused(token_id: str, password: str, by_token: bool) -> None:
    with pytest.raises(SaslFailure):
        Node(TOKEN).authenticate(MECHANISMS[0], token_id, password, by_token=by_token)


def test_expired_and_removed_tokens_are_refused() -> None:
    node = Node(TOKEN)
    node.authenticate(MECHANISMS[0], "id-1", password_of("id-1"))
    node.now_ms = 5_001
    with pytest.raises(SaslFailure):
        node.authenticate(MECHANISMS[0], "id-1", password_of("id-1"))
    node.now_ms = 1_000
    node.image = DelegationTokensImage()
    with pytest.raises(SaslFailure):
        node.authenticate(MECHANISMS[0], "id-1", password_of("id-1"))
