"""SASL on clients' connections: the mechanisms that a listener offers, and how far each client has come.

A client names a mechanism (SaslHandshake), and sends its messages (SaslAuthenticate, or frames without headers after
version 0 of the handshake). It may do so again before its session expires (KIP-368), with the same mechanism and as the
same user.
"""

from collections.abc import Callable, Mapping
from typing import Final, NoReturn, Protocol

import attrs

from broker.net.authentication_counts import AuthenticationCounts
from broker.net.connection import Connection
from broker.security.sasl.exchange import Authenticated, InvalidCredentials, InvalidToken, SaslFailure, ServerExchange
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.env import Tracer

# As in Kafka: a client cannot keep a node busy with authentication.
_REAUTHENTICATION_INTERVAL_S: Final = 1.0


@lazy_attrs.frozen
class ServerMechanism:
    """A mechanism of a listener. `start` begins an exchange.

    A session ends `reauth_ms_max` after the authentication, if that is above 0 (`connections.max.reauth.ms`).
    """

    start: Callable[[], ServerExchange] = attrs.field(repr=False)
    reauth_ms_max: int = 0


@lazy_attrs.frozen
class SaslListener:
    """The mechanisms of a listener, by name, and how it treats its clients.

    The response to a failed authentication is sent after `failure_delay_ms`, then the connection is closed. Messages
    of more than `message_bytes_max` fail.
    """

    mechanisms: Mapping[str, ServerMechanism]
    failure_delay_ms: int
    message_bytes_max: int


class SaslListeners(Protocol):
    """The SASL listeners of a node; see `broker.node.sasl_listeners`."""

    @property
    def authentications(self) -> AuthenticationCounts:
        """The outcomes of authentications."""
        ...

    def of(self, listener: str) -> SaslListener | None:
        """The mechanisms in force on a listener; None if it has no SASL."""
        ...

    def opened(self, connection: Connection) -> None:
        """A connection has begun that has to authenticate within some time."""
        ...


class SaslSession:
    """One client's authentication. It changes by the client's messages only.

    `mechanism` is the one that the client has named last. `is_raw` is true while messages come without headers.
    `by_token` is true if the client has authenticated with a delegation token.
    """

    __slots__ = ("_authenticated_as", "_began_at", "_exchange", "_listener", "by_token", "is_raw", "mechanism")

    def __init__(self) -> None:
        self.mechanism = ""
        self.is_raw = False
        self.by_token = False
        self._listener: SaslListener | None = None
        self._exchange: ServerExchange | None = None
        self._authenticated_as: tuple[str, str] | None = None  # the mechanism and the user
        self._began_at: float | None = None

    @property
    def is_in_exchange(self) -> bool:
        """True if the next message of the mechanism is expected."""
        return self._exchange is not None

    @property
    def text(self) -> str:
        """The word for the exchange in messages to the client."""
        return "authentication" if self._authenticated_as is None else "re-authentication"

    def handshake(self, listener: SaslListener, mechanism: str, *, is_raw: bool, now_s: float) -> None:
        """The client begins to authenticate.

        Raises KafkaError: ILLEGAL_SASL_STATE during an exchange, or if it authenticates again too soon;
        UNSUPPORTED_SASL_MECHANISM.
        """
        if self.is_in_exchange:
            raise KafkaError(
                ErrorCode.ILLEGAL_SASL_STATE, "Unexpected Kafka request of type SASL_HANDSHAKE during authentication."
            )
        if self._authenticated_as is not None:
            if self._began_at is not None and now_s - self._began_at < _REAUTHENTICATION_INTERVAL_S:
                raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE, "Clients re-authenticate at most once in a second.")
            self._began_at = now_s
        offered = listener.mechanisms.get(mechanism)
        if offered is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unsupported SASL mechanism")
        self._listener, self._exchange = listener, offered.start()
        self.mechanism, self.is_raw = mechanism, is_raw

    def evaluate(self, message: bytes) -> tuple[bytes, Authenticated | None]:
        """The answer to a message of the mechanism, and the client's identity once the exchange is complete.

        Raises KafkaError SASL_AUTHENTICATION_FAILED, caused by a SaslFailure; the exchange is over then.
        """
        exchange, listener = self._exchange, self._listener
        assert exchange is not None, "there was a handshake"
        assert listener is not None, "there was a handshake"
        if len(message) > listener.message_bytes_max:
            self._fail(SaslFailure("Failing SASL authentication due to invalid receive size"))
        previous = self._authenticated_as
        if previous is not None and previous[0] != self.mechanism:
            self._fail(
                SaslFailure(
                    f"SASL mechanism '{self.mechanism}' requested by client is not supported for re-authentication of "
                    f"mechanism '{previous[0]}'"
                )
            )
        try:
            answer, client = exchange.evaluate(message)
        except SaslFailure as failure:
            self._fail(failure)
        if client is None:
            return answer, None
        if previous is not None and previous[1] != client.user:
            self._fail(
                SaslFailure(
                    f"Cannot change principals during re-authentication from User.{previous[1]}: User.{client.user}"
                )
            )
        self._authenticated_as = (self.mechanism, client.user)
        self._exchange, self.is_raw, self.by_token = None, False, client.by_token
        return answer, client

    def lifetime_ms(self, client: Authenticated, wall_ms: float) -> int | None:
        """How long the authentication of a client lasts from now on; None if it has no end."""
        assert self._listener is not None, "there was a handshake"
        offered = self._listener.mechanisms[self.mechanism]
        ends = [] if client.expires_at_ms is None else [client.expires_at_ms - wall_ms]
        if offered.reauth_ms_max > 0:
            ends.append(offered.reauth_ms_max)
        return max(0, int(min(ends))) if ends else None

    def _fail(self, failure: SaslFailure) -> NoReturn:
        self._exchange = None
        message = str(failure)
        if isinstance(failure, InvalidCredentials):
            message = (
                f"Authentication failed during {self.text} due to invalid credentials with SASL mechanism "
                f"{self.mechanism}"
            )
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message) from failure


def trace_failure(trace: Tracer, connection: Connection, mechanism: str, error: KafkaError) -> None:
    """Report a failed authentication, with the reason that the client does not get to know."""
    failure = error.__cause__
    if failure is not None and isinstance(failure.__cause__, InvalidToken):
        failure = failure.__cause__
    trace(
        "authentication_failed",
        peer=connection.peer_host,
        listener=connection.listener,
        mechanism=mechanism,
        reason=str(failure or error.message),
    )
