"""The mechanism OAUTHBEARER: messages as Kafka parses them, refusals, and hostile bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl import Authenticated, SaslFailure
from broker.security.sasl.oauthbearer import (
    BearerMessage,
    InvalidToken,
    OAuthBearerClient,
    OAuthBearerServer,
    parse_message,
)


def accept(token: str) -> Authenticated:
    return Authenticated(token.removeprefix("token-of-"), 1_000)


def refuse(token: str) -> Authenticated:
    raise InvalidToken("the token has no scope read", "insufficient_scope", "[read]")


def test_a_valid_token_authenticates_in_one_message() -> None:
    client, server = OAuthBearerClient("token-of-alice"), OAuthBearerServer(accept)
    answer, authenticated = server.evaluate(client.first())
    assert (answer, authenticated) == (b"", Authenticated("alice", 1_000))
    assert client.answer(answer) is None


def test_a_refused_token_ends_with_the_json_error_and_its_acknowledgement() -> None:
    client, server = OAuthBearerClient("x"), OAuthBearerServer(refuse)
    challenge, authenticated = server.evaluate(client.first())
    assert authenticated is None
    assert json.loads(challenge) == {"status": "insufficient_scope", "scope": "[read]"}
    assert client.answer(challenge) == b"\x01"
    with pytest.raises(SaslFailure, match="insufficient_scope") as raised:
        server.evaluate(b"\x01")
    assert str(raised.value.__cause__) == "the token has no scope read"
    with pytest.raises(SaslFailure, match="goes on"):
        client.answer(b"")


def test_another_token_after_a_refused_one_is_not_read() -> None:
    server = OAuthBearerServer(refuse)
    server.evaluate(OAuthBearerClient("x").first())
    with pytest.raises(SaslFailure, match="insufficient_scope"):
        server.evaluate(OAuthBearerClient("token-of-alice").first())


def test_a_message_is_written_as_kafka_writes_it() -> None:
    client = OAuthBearerClient("abc.def", {"traceId": "1 2"})
    assert client.first() == b"n,,\x01auth=Bearer abc.def\x01traceId=1 2\x01\x01"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"n,,\x01auth=Bearer abc\x01\x01", BearerMessage("abc")),
        (b"n,a=user@x,\x01auth=bEaReR  a.b-c_~+/==\x01\x01", BearerMessage("a.b-c_~+/==", "user@x")),
        (b"n,a=a=2Cb=3D,\x01auth=Bearer abc\x01\x01", BearerMessage("abc", "a,b=")),
        (
            b"n,,\x01one=1\x01auth=Bearer abc\x01two=a=b c\x01\x01",
            BearerMessage("abc", "", {"one": "1", "two": "a=b c"}),
        ),
    ],
)
def test_messages_that_kafka_accepts_are_read(message: bytes, expected: BearerMessage) -> None:
    assert parse_message(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer abc\x01\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,a=,\x01auth=Bearer abc\x01\x01",
        b"n,a==,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer a=b\x01\x01",
        b"n,,\x01token=abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01key1=x\x01\x01",
        b"n,,\x01auth=Bearer abc\x01key=\x01\x01",
        b"n,,\x01auth=Bearer abc\x01key=\x7f\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_messages_that_kafka_refuses_are_refused(message: bytes) -> None:
    with pytest.raises(SaslFailure, match="OAUTHBEARER client first message"):
        OAuthBearerServer(accept).evaluate(message)


def test_an_authorization_id_has_to_be_the_name_in_the_token() -> None:
    server = OAuthBearerServer(accept)
    with pytest.raises(SaslFailure, match=r"authorization id \(bob\) that is different"):
        server.evaluate(BearerMessage("token-of-alice", "bob").encode())
    assert server.evaluate(BearerMessage("token-of-alice", "alice").encode())[1] == Authenticated("alice", 1_000)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": "\x01"}, {"": "x"}])
def test_extensions_that_the_message_cannot_carry_are_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="xtension"):
        OAuthBearerClient("x", extensions).first()


def test_a_token_is_not_in_the_repr_of_a_message() -> None:
    assert "secret" not in repr(BearerMessage("secret", "alice", {"key": "secret"}))


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(alphabet="n,a=\x01 Beaiouth23CD.-~\x7f\x00é", max_size=100).map(str.encode),
        st.builds(lambda middle: b"n,,\x01auth=Bearer " + middle + b"\x01\x01", st.binary(max_size=50)),
    )
)
def test_hostile_messages_are_read_or_refused(message: bytes) -> None:
    try:
        found = parse_message(message)
    except SaslFailure:
        return
    assert parse_message(found.encode()) == found


@pytest.mark.parametrize("part", [b"a" * 500_000, b"auth=Bearer " + b"=" * 500_000, b"n,a=" + b"=2C" * 170_000])
def test_long_messages_take_linear_time(part: bytes) -> None:
    with pytest.raises(SaslFailure):
        parse_message(b"n,,\x01" + part + b"\x01x\x01\x01")
