"""PLAIN: right and wrong passwords, with Kafka's messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.exchange import Authenticated, SaslFailure
from broker.security.sasl.plain import PlainClient, PlainServer

SERVER = PlainServer({"alice": "secret", "größe": "ß", "locked": ""})


@pytest.mark.parametrize(("name", "password"), [("alice", "secret"), ("größe", "ß")])
def test_right_passwords(name: str, password: str) -> None:
    client = PlainClient(name, password)
    assert SERVER.evaluate(client.first()) == (b"", Authenticated(name))
    assert client.answer(b"") is None  # type: ignore[func-returns-value]


INVALID = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (b"\0alice\0wrong", INVALID),
        (b"\0bob\0secret", INVALID),
        (b"\0\xff\0secret", INVALID),
        (b"\0locked\0\xff", INVALID),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0locked\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_refused_messages(message: bytes, failure: str) -> None:
    with pytest.raises(SaslFailure) as caught:
        SERVER.evaluate(message)
    assert str(caught.value) == failure


def test_the_name_may_be_repeated_as_authorization_id() -> None:
    assert SERVER.evaluate(b"alice\0alice\0secret")[1] == Authenticated("alice")


@given(st.binary(max_size=40))
def test_no_message_has_another_outcome_than_a_failure(message: bytes) -> None:
    with pytest.raises(SaslFailure):
        SERVER.evaluate(message)
