"""Forwarding of requests to the active controller, of which a broker carries out a part itself."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import attrs

from broker.server.context import Context, Message
from broker.server.slices import Steps
from broker.wire.codec import encode
from broker.wire.header import parse_request_header


class Forward(Protocol):
    """Carries a client's request to the active controller; see `ControllerChannel.forward`."""

    async def __call__(self, payload: bytes, *, principal: str, client_host: str) -> bytes: ...


@attrs.frozen
class OwnPart:
    """The part of a forwarded request that a broker carries out itself.

    `remaining` is the request without that part; None if nothing is left to forward. `respond` builds the response to
    the whole request, in steps, from the controller's response to `remaining`.
    """

    remaining: Message | None
    respond: Callable[[Message | None], Steps[Message]]


TakeOwnPart: TypeAlias = Callable[[Context[Any], Message], Steps[OwnPart | None]]


async def forward_remaining(forward: Forward, context: Context[Any], remaining: Message, payload: bytes) -> Message:
    """The controller's response to a part of the request in `payload`. Raises ApiError."""
    header = payload[: parse_request_header(payload)[-1]]
    request = b"".join([header, *map(bytes, encode(remaining, context.api_version))])
    answer = await forward(request, principal=context.principal, client_host=context.client_host)
    return context.codec.decode_response(answer)
