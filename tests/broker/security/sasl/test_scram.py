"""SCRAM: the example of RFC 7677, both sides against each other, and messages that must be refused."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.exchange import Authenticated, InvalidCredentials, SaslFailure
from broker.security.sasl.scram import ScramClient, ScramServer, TokenCredential, unknown_credential
from metadata.protocol import ScramMechanism
from metadata.protocol.scram import ScramCredential, credential_of, salted_password

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
# The messages of RFC 7677, section 3.
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SALT = bytes.fromhex("5b6d99689d12358eec a04b141236fa81".replace(" ", ""))


def credential(mechanism: ScramMechanism, password: str, iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, SALT, iterations), SALT, iterations)


PENCIL = credential(SHA_256, "pencil")


def server(mechanism: ScramMechanism = SHA_256, known: ScramCredential = PENCIL, nonce: str = "server") -> ScramServer:
    return ScramServer(
        mechanism,
        nonce,
        {"user": known, "a=b,c": known, "größe": known}.get,
        {"token-1": TokenCredential("alice", 5_000, known)}.get,
        unknown=lambda name: unknown_credential(mechanism, b"secret", name),
    )


def exchange(client: ScramClient, other: ScramServer) -> Authenticated:
    challenge, identity = other.evaluate(client.first())
    assert identity is None
    proof = client.answer(challenge)
    assert proof is not None
    final, authenticated = other.evaluate(proof)
    assert client.answer(final) is None
    assert authenticated is not None
    return authenticated


def test_rfc_7677_client() -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    assert client.answer(SERVER_FIRST) == CLIENT_FINAL
    assert client.answer(SERVER_FINAL) is None


def test_rfc_7677_server() -> None:
    exchange = server(nonce=SERVER_NONCE)
    assert exchange.evaluate(CLIENT_FIRST) == (SERVER_FIRST, None)
    assert exchange.evaluate(CLIENT_FINAL) == (SERVER_FINAL, Authenticated("user"))


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("name", ["user", "a=b,c", "größe"])
def test_both_sides_agree(mechanism: ScramMechanism, name: str) -> None:
    known = credential(mechanism, "geheimß", 8192)
    client = ScramClient(mechanism, name, "geheimß", "client")
    assert exchange(client, server(mechanism, known)) == Authenticated(name)


def test_a_delegation_token_authenticates_its_owner() -> None:
    client = ScramClient(SHA_256, "token-1", "pencil", "client", by_token=True)
    assert exchange(client, server()) == Authenticated("alice", 5_000, by_token=True)


@pytest.mark.parametrize("by_token", [False, True])
@pytest.mark.parametrize(("name", "password"), [("user", "pen"), ("missing", "pencil"), ("token-2", "pencil")])
def test_wrong_names_and_passwords_fail_at_the_proof(name: str, password: str, *, by_token: bool) -> None:
    client, other = ScramClient(SHA_256, name, password, "client", by_token=by_token), server()
    challenge, _ = other.evaluate(client.first())
    proof = client.answer(challenge)
    assert proof is not None
    with pytest.raises(InvalidCredentials):
        other.evaluate(proof)


def test_the_challenge_does_not_tell_an_unknown_name_from_a_known_one() -> None:
    challenges = [server().evaluate(f"n,,n={name},r=x".encode())[0] for name in ("user", "missing", "missing", "other")]
    assert challenges[1] == challenges[2] != challenges[3]
    assert all(challenge.startswith(b"r=xserver,s=") and challenge.endswith(b",i=4096") for challenge in challenges)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=,r=x",
        b"n,,n=user,r=",
        b"n,,n=us\0er,r=x",
        b"n,,n=\xff,r=x",
        b"n,a=other,n=user,r=x",
        b"n,,n=user,r=" + b"x" * 10_000,
    ],
)
def test_malformed_first_messages_are_refused(first: bytes) -> None:
    with pytest.raises(SaslFailure):
        server().evaluate(first)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=biwsbiws"),
        (b"c=biws", b"c=b"),
        (b"hNlF$k0", b"hNlF$k1"),
        (b"p=dHzb", b"p=dHzc"),
        (b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b"p=dHzb"),
        (b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b""),
    ],
)
def test_a_changed_final_message_is_refused(old: bytes, new: bytes) -> None:
    exchange = server(nonce=SERVER_NONCE)
    exchange.evaluate(CLIENT_FIRST)
    assert old in CLIENT_FINAL
    with pytest.raises(InvalidCredentials):
        exchange.evaluate(CLIENT_FINAL.replace(old, new))


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=c2FsdA==,i=4096",
        b"r=client,s=c2FsdA==,i=4096",
        b"r=clientserver,s=c2FsdA==,i=4095",
        b"r=clientserver,s=c2FsdA==,i=1000001",
        b"r=clientserver,s=c2FsdA==,i=99999999999999999999",
        b"r=clientserver,s=%,i=4096",
        b"e=other-error",
        b"\xff",
    ],
)
def test_a_client_refuses_challenges(challenge: bytes) -> None:
    with pytest.raises(SaslFailure):
        ScramClient(SHA_256, "user", "pencil", "client").answer(challenge)


@pytest.mark.parametrize(
    "final", [b"v=" + b64encode(bytes(32)), b"v=", b"e=invalid-proof", b"", SERVER_FIRST], ids=range(5)
)
def test_a_client_refuses_a_server_that_does_not_know_the_password(final: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.answer(SERVER_FIRST)
    with pytest.raises(SaslFailure):
        client.answer(final)


def test_secrets_are_not_in_the_representation() -> None:
    assert repr(PENCIL) == "ScramCredential(iterations=4096)"


@given(st.lists(st.binary(max_size=80) | st.sampled_from([CLIENT_FIRST, CLIENT_FINAL]), max_size=4))
def test_no_message_has_another_outcome_than_an_answer_or_a_failure(messages: list[bytes]) -> None:
    exchange = server()
    for message in messages:
        try:
            _, authenticated = exchange.evaluate(message)
        except SaslFailure:
            continue
        assert authenticated is None


@given(st.lists(st.binary(max_size=80) | st.sampled_from([SERVER_FIRST, SERVER_FINAL]), max_size=4))
def test_no_challenge_has_another_outcome_than_an_answer_or_a_failure(challenges: list[bytes]) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    for challenge in challenges:
        try:
            client.answer(challenge)
        except SaslFailure:
            continue
