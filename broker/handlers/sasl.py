"""SaslHandshake (key 17) and SaslAuthenticate (key 36): a client authenticates, or does so again (KIP-152, KIP-368).

The response to a failed authentication is delayed, so that guessing passwords takes time, and ends the connection. The
client gets to know its reason only where that is no help for guessing.
"""

from typing import Any, Final

import trio

from broker.net.connection import ProtocolError
from broker.security.sasl.exchange import Authenticated
from broker.server.context import Context
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.sasl import SaslListener, SaslSession, trace_failure
from broker.server.scheduler import Work, in_task
from broker.server.services import NodeServices
from broker.server.unauthenticated import UNAUTHENTICATED_BYTES_MAX
from broker.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from broker.wire.errors import MESSAGE_LENGTH_MAX, ErrorCode, KafkaError

# From this version on, the messages of the mechanism follow in SaslAuthenticate.
_IN_REQUESTS_FROM: Final = 1
_NOT_EXPECTED: Final = "SaslAuthenticate request received after successful authentication"


def sasl_handshake(
    context: Context[NodeServices], request: SaslHandshakeRequest
) -> SaslHandshakeResponse | Work[SaslHandshakeResponse]:
    session, services = context.session, context.services
    listener = services.sasl.of(session.listener)
    sasl = session.sasl
    if listener is None or sasl is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    try:
        is_raw = context.api_version < _IN_REQUESTS_FROM
        sasl.handshake(listener, request.mechanism, is_raw=is_raw, now_s=trio.current_time())
    except KafkaError as error:
        offered = list(listener.mechanisms) if error.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM else []
        refused = SaslHandshakeResponse(error_code=error.code, mechanisms=offered)
        if session.is_authenticated and error.code is ErrorCode.ILLEGAL_SASL_STATE and not sasl.is_in_exchange:
            return refused
        _report(context, request.mechanism, error)
        return _refuse(context, listener, refused)
    return SaslHandshakeResponse(mechanisms=list(listener.mechanisms))


def sasl_authenticate(
    context: Context[NodeServices], request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | bytes | Work[SaslAuthenticateResponse]:
    """A message that came without a header is answered by a frame without a header, or not at all."""
    session, sasl = context.session, context.session.sasl
    listener = context.services.sasl.of(session.listener)
    if listener is None or sasl is None or not sasl.is_in_exchange:
        if not session.is_authenticated:
            raise ProtocolError("SaslAuthenticate before a SaslHandshake")
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_NOT_EXPECTED)
    is_raw = sasl.is_raw
    try:
        answer, client = sasl.evaluate(bytes(request.auth_bytes))
    except KafkaError as error:
        _report(context, sasl.mechanism, error)
        message = error.message[:MESSAGE_LENGTH_MAX]
        response = SaslAuthenticateResponse(error_code=error.code, error_message=message)
        return _refuse(context, listener, response, is_raw=is_raw)
    lifetime_ms = 0 if client is None else _authenticate(context, sasl, client)
    if is_raw:
        return len(answer).to_bytes(4) + answer
    return SaslAuthenticateResponse(error_message=None, auth_bytes=answer, session_lifetime_ms=lifetime_ms)


def _authenticate(context: Context[NodeServices], sasl: SaslSession, client: Authenticated) -> int:
    """Set the session's principal. Returns the lifetime of the session in ms; 0 if it has no end."""
    lifetime_ms = sasl.lifetime_ms(client, context.services.env.wall() * 1000)
    session = context.session
    context.services.sasl.authentications.note(session.listener, has_succeeded=True, is_again=session.is_authenticated)
    principal = f"User:{client.user}"
    if lifetime_ms is None:
        context.session.authenticate(principal)
    else:
        context.session.authenticate(principal, trio.current_time() + lifetime_ms / 1000)
    return lifetime_ms or 0


def _refuse(
    context: Context[NodeServices], listener: SaslListener, response: Any, *, is_raw: bool = False
) -> Work[Any]:
    """Respond after a delay, and close the connection. With `is_raw`, the client expects no response to a failure."""
    yield from in_task(_sleep(listener.failure_delay_ms / 1000))
    # The failure is reported already.
    if is_raw:
        context.own_connection.close(None)
    else:
        context.own_connection.finish(None)
    return response


async def _sleep(seconds: float) -> None:
    await trio.sleep(seconds)


def _report(context: Context[NodeServices], mechanism: str, error: KafkaError) -> None:
    session = context.session
    context.services.sasl.authentications.note(session.listener, has_succeeded=False, is_again=session.is_authenticated)
    trace_failure(context.services.env.trace, context.own_connection, mechanism, error)


HANDSHAKE_HANDLER = Handler(SaslHandshakeRequest, sasl_handshake, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
AUTHENTICATE_HANDLER = Handler(SaslAuthenticateRequest, sasl_authenticate, request_bytes_max=UNAUTHENTICATED_BYTES_MAX)
