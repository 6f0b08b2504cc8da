"""One authentication: messages between a client and a server, until the server knows who the client is.

An exchange is made for one authentication of one connection, and again for each re-authentication (KIP-368). It does no
input or output, and never waits: what it looks up is in memory.
"""

from typing import Final, Protocol

from kraft import lazy_attrs

# Longer messages are refused before a mechanism reads them. Tokens of OAUTHBEARER are the largest ones; Kafka accepts
# 512 KiB (`sasl.server.max.receive.size`).
SASL_MESSAGE_BYTES_MAX: Final = 512 * 1024


class SaslFailure(Exception):
    """The authentication has failed. The message may be sent to the other side, and names no secret."""


class InvalidCredentials(SaslFailure):
    """The client gets to know no more than that its credentials are invalid. The message is for the server's log."""


class InvalidToken(Exception):
    """A server does not accept a token. The message is for its log, and does not show the token.

    `status` and `scope` are for the client: "invalid_token", or "insufficient_scope" with the scope that is missing.
    """

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


@lazy_attrs.frozen
class Authenticated:
    """The result of an exchange: the identity of a client.

    `user` is the name of the principal, "alice" for "User:alice". `expires_at_ms` is the wall-clock time at which the
    credentials expire, in milliseconds since 1970; None if they do not. `by_token` is true if the client has
    authenticated with a delegation token.
    """

    user: str
    expires_at_ms: int | None = None
    by_token: bool = False


class ClientExchange(Protocol):
    """The client's side. The client sends the first message."""

    mechanism: str

    def first(self) -> bytes:
        """The message that begins the exchange."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The answer to a message of the server; None if the exchange is over, and the server is authentic.

        Raises SaslFailure.
        """
        ...


class ServerExchange(Protocol):
    """The server's side."""

    def evaluate(self, message: bytes) -> tuple[bytes, Authenticated | None]:
        """The answer to a message of the client, and who the client is once the exchange is complete.

        Raises SaslFailure, after which the exchange is over.
        """
        ...
