"""Authenticates a client's connections by SASL, and again before a session ends (KIP-152, KIP-368)."""

from collections.abc import Awaitable, Callable, Generator
from math import inf
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.client.connection_failures import refusal
from broker.client.errors import AuthenticationFailed, ConnectionLost
from broker.client.payloads import decode_response, encode_request
from broker.printable import printable
from broker.security.sasl.exchange import SASL_MESSAGE_BYTES_MAX, ClientExchange, SaslFailure
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker.wire.errors import ErrorCode, WireError

# Brokers since Kafka 2.4 have these versions.
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2
# Kafka's clients authenticate again when this part of a session has passed. The moment is random, so that the clients
# of a broker do not all do so at once.
_PASSED_MIN: Final = 0.85
_PASSED_MAX: Final = 0.95
# A response has a message of a mechanism, and an error with its message.
_RESPONSE_BYTES_MAX: Final = SASL_MESSAGE_BYTES_MAX + 64 * 1024
_TLS_ALERT: Final = b"\x15\x03"
# The messages of one exchange. SCRAM has two, OAUTHBEARER one or two.
_MESSAGES_MAX: Final = 10

# Yields requests with their versions, is sent their responses, and returns the lifetime of the session in ms, 0 if it
# has no end.
Conversation: TypeAlias = Generator[tuple[Any, int], Any, int]


@attrs.frozen
class SaslLogin:
    """How connections authenticate. `start` begins an exchange, `random` is between 0 and 1.

    `start` raises AuthenticationFailed, and ConnectionLost if an exchange can begin later.
    """

    start: Callable[[], Awaitable[ClientExchange]] = attrs.field(repr=False)
    random: Callable[[], float] = attrs.field(repr=False)

    async def authenticate(self, stream: trio.abc.Stream, client_id: str) -> float:
        """Authenticate a new connection. Returns when to do so again, as a time of Trio's clock; inf is never.

        Raises AuthenticationFailed, and ConnectionLost if the connection breaks before.
        """

        async def call(request: Any, version: int) -> Any:
            return await _call(stream, request, version, client_id)

        return await self.converse(call)

    async def converse(self, call: Callable[[Any, int], Awaitable[Any]]) -> float:
        """Authenticate, with `call` to send a request and get its response. Returns when to do so again.

        The server's session may have begun as soon as the last message was sent. Counted from a late response, it would
        end at the server first, which closes the connection. Raises AuthenticationFailed, and the errors of `call`.
        """
        conversation = await self._begin()
        request, version = next(conversation)
        sent_at = trio.current_time()
        try:
            while True:
                request, version = conversation.send(await call(request, version))
                sent_at = trio.current_time()
        except StopIteration as ended:
            return self._again_at(ended.value, sent_at)

    def _again_at(self, lifetime_ms: int, since: float) -> float:
        if lifetime_ms <= 0:
            return inf
        passed = _PASSED_MIN + (_PASSED_MAX - _PASSED_MIN) * self.random()
        return since + lifetime_ms / 1000 * passed

    async def _begin(self) -> Conversation:
        """The requests of one authentication, which raise AuthenticationFailed. Raises what `start` raises."""
        try:
            return _converse(await self.start())
        except SaslFailure as failure:
            raise AuthenticationFailed(printable(str(failure))) from failure


def _converse(exchange: ClientExchange) -> Conversation:
    try:
        message = exchange.first()
        handshake = yield SaslHandshakeRequest(mechanism=exchange.mechanism), _HANDSHAKE_VERSION
        _check_handshake(handshake, exchange.mechanism)
        for _ in range(_MESSAGES_MAX):
            response: SaslAuthenticateResponse
            response = yield SaslAuthenticateRequest(auth_bytes=message), _AUTHENTICATE_VERSION
            _check(response, exchange.mechanism)
            answer = exchange.answer(bytes(response.auth_bytes))
            if answer is None:
                return response.session_lifetime_ms
            message = answer
    except SaslFailure as failure:
        raise AuthenticationFailed(printable(str(failure))) from failure
    raise AuthenticationFailed(f"the exchange of {exchange.mechanism} does not end")


def _check_handshake(response: SaslHandshakeResponse, mechanism: str) -> None:
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        raise AuthenticationFailed(
            f"the broker does not offer the SASL mechanism {mechanism}; it offers: {printable(offered)}"
        )
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed("the broker's listener has no SASL: set security.protocol to PLAINTEXT or SSL")
    if response.error_code:
        raise AuthenticationFailed(f"the broker refuses the SASL handshake with error code {response.error_code}")


def _check(response: SaslAuthenticateResponse, mechanism: str) -> None:
    if response.error_code:
        reason = printable(response.error_message or "") or f"error code {response.error_code}"
        raise AuthenticationFailed(f"the broker refuses the credentials for {mechanism}: {reason}")


async def _call(stream: trio.abc.Stream, request: Any, version: int, client_id: str) -> Any:
    """The response to a request, on a stream that nothing else uses yet."""
    payload = encode_request(request, version, client_id)
    try:
        await stream.send_all(len(payload).to_bytes(4) + payload)
        first = await _exactly(stream, 4)
        size = int.from_bytes(first)
        if first[:2] == _TLS_ALERT:
            raise AuthenticationFailed("a TLS port answers; this client has security.protocol=SASL_PLAINTEXT")
        if size > _RESPONSE_BYTES_MAX:
            raise AuthenticationFailed(f"an answer of {size} bytes, as no broker sends it during authentication")
        return decode_response(request, version, await _exactly(stream, size))
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        # A broker refuses a client's certificate after the client's handshake with TLS 1.3 has ended.
        if (reason := refusal(error.__cause__)) is not None:
            raise AuthenticationFailed(reason) from error
        raise ConnectionLost(f"the connection broke during authentication: {error.__cause__ or error}") from error
    except WireError as error:
        raise ConnectionLost(f"an answer that cannot be read: {error}") from error


async def _exactly(stream: trio.abc.Stream, count: int) -> bytes:
    received = b""
    while len(received) < count:
        data = await stream.receive_some(count - len(received))
        if not data:
            raise ConnectionLost("closed by the other side during authentication, as ports without SASL do")
        received += data
    return received
