"""PLAIN (RFC 4616): the client sends its name and its password. The connection has to be encrypted."""

import hmac
from collections.abc import Mapping
from typing import Final

from broker.security.sasl.exchange import Authenticated, SaslFailure

PLAIN: Final = "PLAIN"
_PARTS: Final = 3


class PlainClient:
    """Sends a name and a password."""

    mechanism = PLAIN

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> None:
        """The server has accepted the password. Kafka's servers send nothing with it."""
        return


class PlainServer:
    """Compares with the passwords of users, which the JAAS config of the server lists as `user_<name>`."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, message: bytes) -> tuple[bytes, Authenticated | None]:
        """See `ServerExchange`. The messages are those of Kafka; the same one follows an unknown name."""
        parts = message.split(b"\0", _PARTS)
        if len(parts) != _PARTS:
            raise SaslFailure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, username, password = parts
        if not username:
            raise SaslFailure("Authentication failed: username not specified")
        if not password:
            raise SaslFailure("Authentication failed: password not specified")
        try:
            user = username.decode()
        except UnicodeDecodeError:
            raise SaslFailure("Authentication failed: Invalid username or password") from None
        expected = self._passwords.get(user)
        # The comparison takes the same time for an unknown name.
        is_equal = hmac.compare_digest((expected or "").encode(), password)
        if not is_equal or not expected:
            raise SaslFailure("Authentication failed: Invalid username or password")
        if authorization_id not in (b"", username):
            raise SaslFailure(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return b"", Authenticated(user)
