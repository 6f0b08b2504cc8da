"""Forwards requests to the active controller. A broker may carry out a part of a request itself."""

from typing import Any, Final, Protocol

from broker.server.context import Context, Message
from broker.server.handler import Handler
from broker.server.scheduler import Frame, Work, in_task
from broker.wire.codec import encode
from broker.wire.errors import KafkaError
from broker.wire.header import parse_request_header

_FRAME_SIZE: Final = 4


class Forward(Protocol):
    """Carries a client's request to the active controller; see `ControllerChannel.forward`."""

    async def __call__(self, payload: bytes, *, principal: str, client_host: str) -> bytes: ...


def forward_request(
    forward: Forward, context: Context[Any], handler: Handler, request: Message, payload: bytes
) -> Work[Message | Frame]:
    """Forward the request in `payload`. Returns the controller's response, with that of this broker's own part."""
    own = None
    if handler.take_own_part is not None:
        own = yield from handler.take_own_part(context, request)
    if own is not None:
        response = None
        if own.remaining is not None:
            response = yield from _forward_remaining(forward, context, handler, own.remaining, payload)
        return (yield from own.respond(response))
    try:
        answer = yield from in_task(_send(forward, context, payload))
    except KafkaError as error:
        return (yield from handler.refuse(context, request, error))
    charging = context.server.charging
    if charging is None:
        return [len(answer).to_bytes(_FRAME_SIZE), answer]
    # The client is muted for the longer of both nodes' throttle times.
    response = context.codec.decode_response(answer)
    charging.throttle(context.session, max(context.charge(), getattr(response, "throttle_time_ms", 0)))
    return response


def _forward_remaining(
    forward: Forward, context: Context[Any], handler: Handler, remaining: Message, payload: bytes
) -> Work[Message]:
    """Forward `remaining`, a part of the request in `payload`. Returns the controller's response to it."""
    header = payload[: parse_request_header(payload)[-1]]
    request = b"".join([header, *map(bytes, encode(remaining, context.api_version))])
    try:
        answer = yield from in_task(_send(forward, context, request))
    except KafkaError as error:
        return (yield from handler.refuse(context, remaining, error))
    return context.codec.decode_response(answer)


async def _send(forward: Forward, context: Context[Any], payload: bytes) -> bytes:
    return await forward(payload, principal=context.principal, client_host=context.client_host)
