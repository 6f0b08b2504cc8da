"""From the bytes of a request to the handler of its API and version, and back: the boundary of errors.

What a peer gets wrong closes its connection. What a handler gets wrong does too, with a trace: its state changes
happen in rooms that either do all or nothing, so the node may go on serving everybody else. Only a failed fsync ends
the node.
"""

import traceback
from collections.abc import Generator, Iterable
from struct import Struct
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs
import trio

from broker.net.connection import Connection, ProtocolError
from broker.net.reply import ExclusivePending, FileRange, Part, Pending, Reply, frame_response
from broker.server.handler import Client, Context, DistantClient, Handler, Message, S, Shortcut, Sliced
from broker.server.later_replies import LaterReplies, encoded, encoded_in_steps
from broker.server.services import ControllerServices, Services
from broker.server.slices import Slices, Steps, Unfinished, begin, freed
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from broker.wire.api.names import api_name
from broker.wire.codec import Decoder, Encoder, decoder, encoder, sliced_decoder, sliced_encoder
from broker.wire.errors import ErrorCode, WireError
from broker.wire.header import parse_request_header, request_header_version, response_header_version
from kraft.env import FsyncFailed
from metadata.errors import ApiError, InvalidRequest, NotController, UnsupportedVersion

# Key and version are one number here: a dictionary finds that sooner than a pair.
_KEY_VERSION_CORRELATION: Final = Struct(">Ii")
_FLEXIBLE_HEADER: Final = 2
_FRAME_SIZE: Final = 4
_API_VERSIONS: Final = 18
_API_VERSIONS_MAX: Final = 4
# Requests from this size on are decoded in slices. Smaller ones take a few milliseconds at most.
_SLICED_BYTES_MIN: Final = 8 * 1024

T = TypeVar("T")


@attrs.frozen
class Route:
    """One API in one version, ready to serve."""

    handler: Handler
    version: int
    decode: Decoder
    encode: Encoder
    flexible_response_header: bool
    advertised: list[ApiVersion]
    shortcut: Shortcut | None

    def decode_sliced(self, payload: bytes, position: int) -> Steps[tuple[Message, int]]:
        return sliced_decoder(APIS[self.handler.api_key].request, self.version)(payload, position)

    def encode_sliced(self, response: Message) -> Steps[list[Part]]:
        return sliced_encoder(APIS[self.handler.api_key].response, self.version)(response)


class UnservedVersion(ProtocolError):
    """An API is served, and not in this version; whoever has asked for our versions does not ask for it."""


class Forward(Protocol):
    """Carries a client's request to the active controller; see `ControllerChannel.forward`."""

    async def __call__(self, payload: bytes, *, principal: str, client_host: str) -> bytes: ...


class Dispatcher(Generic[S]):
    """The service behind every connection of a kind of listeners. Deferred handlers run in `nursery`.

    `forward` takes the requests that belong to the controller; without it they are executed here.
    """

    def __init__(
        self, services: S, handlers: Iterable[Handler], nursery: trio.Nursery, forward: Forward | None = None
    ) -> None:
        self.services = services
        self.slices = Slices()
        self.later = LaterReplies(self.slices, nursery, self._failed)
        self._nursery = nursery
        self._forward = forward
        self._handlers = {handler.api_key: handler for handler in handlers}
        self._routes: dict[tuple[int, int], Route] = {}
        self._shortcuts: dict[int, Shortcut] = {}
        self._advertised = [
            ApiVersion(
                api_key=handler.api_key,
                min_version=handler.min_version if handler.advertised_from is None else handler.advertised_from,
                max_version=handler.max_version,
            )
            for handler in sorted(self._handlers.values(), key=lambda handler: handler.api_key)
        ]

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        """See `broker.net.connection.Service`."""
        data = connection.buffer.data
        try:
            if end - start >= _KEY_VERSION_CORRELATION.size:
                key_and_version, correlation_id = _KEY_VERSION_CORRELATION.unpack_from(data, start)
                shortcut = self._shortcuts.get(key_and_version)
                if shortcut is not None:
                    reply = shortcut.serve(connection, start, end, correlation_id)
                    if reply is not False:
                        return reply
            return self._serve(connection, start, end)
        except (ProtocolError, FsyncFailed):
            raise
        except WireError as error:
            raise ProtocolError(f"undecodable request: {error}") from error
        except Exception as error:
            raise self._failed(connection, error) from error

    def _serve(self, connection: Connection, start: int, end: int) -> Reply:
        """The general way: decode, handle, encode."""
        data = connection.buffer.data
        api_key, version, correlation_id, client_id, position = parse_request_header(data, start, end)
        route = self._routes.get((api_key, version)) or self._route(api_key, version)
        if route is None:
            return _unsupported_api_versions(correlation_id)
        context = Context(self, connection, route, correlation_id, client_id)
        handler = route.handler
        if end - start >= _SLICED_BYTES_MIN:
            self.check_size(api_key, end - start)
            if not handler.keeps_views:
                return self._serve_large(context, bytes(data[start:end]), position - start)
        request, _ = route.decode(data, position, end)
        if handler.immediate is None:
            return self._handle(context, request, bytes(data[start:end]))
        response = handler.immediate(context, request)
        if route.shortcut is not None and connection.buffer.data is data:
            self._learn(route.shortcut, context, request, start, end)
        if response is None or isinstance(response, Pending):
            return response
        return context.encode(response)

    def check_size(self, api_key: int, size: int) -> None:
        """See `broker.net.connection.Service`."""
        handler = self._handlers.get(api_key)
        size_max = None if handler is None else handler.request_bytes_max
        if size_max is not None and size > size_max:
            raise ProtocolError(f"a request of {size} bytes to {APIS[api_key].name}, which takes {size_max} at most")

    def _serve_large(self, context: Context[S], payload: bytes, position: int) -> Reply:
        """Decode in slices what may take long, and carry it out in a turn of the connection."""
        connection = context.own_connection
        pending = ExclusivePending(connection)

        async def decode() -> None:
            try:
                request, _ = await self.slices.finish(context.route.decode_sliced(payload, position))
            except WireError as error:
                connection.close(f"undecodable request: {error}")
            else:
                connection.resume(pending, lambda: self._carry_out(context, request, payload))

        self._nursery.start_soon(decode)
        return pending

    def _carry_out(self, context: Context[S], request: Message, payload: bytes) -> Reply:
        try:
            return self._handle(context, request, payload)
        except (ProtocolError, FsyncFailed):
            raise
        except Exception as error:
            raise self._failed(context.client, error) from error

    def _handle(self, context: Context[S], request: Message, payload: bytes) -> Reply:
        """Have a decoded request carried out, as its handler is."""
        handler = context.route.handler
        if handler.forwarded and self._forward is not None:
            return self.later.start(context, self._forwarded(self._forward, context, request, payload))
        if handler.sliced is not None:
            return self._take_steps(context, encoded_in_steps(context, _sliced(context, handler.sliced, request)))
        if handler.immediate is None:
            return self.later.defer(context, _answer(context, handler, request))
        response = handler.immediate(context, request)
        if response is None or isinstance(response, Pending):
            return response
        return self._take_steps(context, context.encode_sliced(response))

    def _take_steps(self, context: Context[S], frame: Steps[bytes | list[Part]]) -> Reply:
        """Answer at once where the steps are few."""
        try:
            return begin(frame)
        except Unfinished:
            return self.later.start(context, self.slices.finish(frame))

    async def execute(self, payload: bytes, *, principal: str, client_host: str) -> bytes:
        """Answer a request without a connection: one that was forwarded, or this node's own. Both have headers.

        Raises NotController, after which another controller may be asked; UnsupportedVersion for what only newer nodes
        know; InvalidRequest for what cannot be decoded or is not served; another ApiError for what has no answer of its
        own.
        """
        try:
            api_key, version, correlation_id, client_id, position = parse_request_header(payload)
            route = self._routes.get((api_key, version)) or self._route(api_key, version)
            if route is None:
                raise UnservedVersion(f"version {version} of {api_name(api_key)} is not served")
            self.check_size(api_key, len(payload))
            request, _ = await self.slices.finish(route.decode_sliced(payload, position))
        except UnservedVersion as error:
            raise UnsupportedVersion(str(error)) from error
        except (WireError, ProtocolError) as error:
            raise InvalidRequest(str(error)) from error
        context = Context(self, DistantClient(principal, client_host), route, correlation_id, client_id)
        try:
            frame = await encoded(context, _answer(context, route.handler, request))
        except (ApiError, FsyncFailed):
            raise
        except Exception as error:
            self._failed(context.client, error)
            raise ApiError from error
        return _without_size(frame)

    def is_forwarded(self, payload: bytes) -> bool:
        """Whether brokers forward requests like this one. Raises WireError."""
        handler = self._handlers.get(parse_request_header(payload)[0])
        return handler is not None and handler.forwarded

    def _learn(self, shortcut: Shortcut, context: Context[Any], request: Message, start: int, end: int) -> None:
        """Whatever goes wrong here must not harm a request that was served."""
        try:
            shortcut.learn(context, request, start, end)
        except Exception as error:  # noqa: BLE001 - the general way remains
            self._failed(context.client, error)

    async def _forwarded(
        self, forward: Forward, context: Context[S], request: Message, payload: bytes
    ) -> bytes | list[Part]:
        client = context.client
        try:
            response = await forward(payload, principal=client.principal, client_host=client.peer_host)
        except ApiError as error:
            return await context.finish(
                encoded_in_steps(context, _refused(context, context.route.handler, request, error))
            )
        return [len(response).to_bytes(_FRAME_SIZE), response]

    def _failed(self, client: Client, error: Exception) -> ProtocolError:
        self.services.env.trace(
            "handler_failed",
            peer=client.peer_host,
            listener=client.listener,
            error="".join(traceback.format_exception(error)),
        )
        return ProtocolError(f"a handler failed: {error!r}")

    def _route(self, api_key: int, version: int) -> Route | None:
        """The route, made on first use; None for a version of ApiVersions nobody knows. Raises ProtocolError."""
        handler = self._handlers.get(api_key)
        if handler is None:
            raise ProtocolError(f"{api_name(api_key)} is not served")
        if not handler.min_version <= version <= handler.max_version:
            if api_key == _API_VERSIONS:
                return None
            raise UnservedVersion(f"version {version} of {api_name(api_key)} is not served")
        api = APIS[api_key]
        route = Route(
            handler,
            version,
            decoder(api.request, version),
            encoder(api.response, version),
            response_header_version(api_key, version) >= 1,
            self._advertised,
            self._shortcut(handler, version),
        )
        self._routes[api_key, version] = route
        return route

    def _shortcut(self, handler: Handler, version: int) -> Shortcut | None:
        if handler.shortcut is None:
            return None
        flexible = request_header_version(handler.api_key, version) == _FLEXIBLE_HEADER
        assert isinstance(self.services, Services), "only brokers serve what is that frequent"
        shortcut = handler.shortcut(self.services, version, flexible)
        self._shortcuts[handler.api_key << 16 | version] = shortcut
        return shortcut


class ControllerDispatcher(Dispatcher[ControllerServices]):
    """The service behind the controllers' listeners, and this node's own way to its controller."""

    @property
    def is_active(self) -> bool:
        """Whether this node's controller is the active one, as far as it knows."""
        return self.services.controller.is_active


def _sliced(context: Context[S], handle: Sliced, request: Message) -> Steps[Message]:
    """The response; the request, of which nothing is needed any more, is freed in steps as well."""
    response = yield from handle(context, request)
    yield from freed(request)
    return response


async def _answer(context: Context[S], handler: Handler, request: Message) -> Message:
    """A request's own response. Raises ApiError where it has none for that; NotController if it came from a broker."""
    try:
        if handler.immediate is not None:
            return handler.immediate(context, request)
        if handler.sliced is not None:
            return await context.finish(_sliced(context, handler.sliced, request))
        assert handler.deferred is not None, "a handler is either immediate or deferred"
        return await handler.deferred(context, request)
    except NotController as error:
        if isinstance(context.client, DistantClient):
            raise  # its broker knows better whom to ask next than its client does
        return await context.finish(_refused(context, handler, request, error))
    except ApiError as error:
        return await context.finish(_refused(context, handler, request, error))


def _refused(context: Context[S], handler: Handler, request: Message, error: ApiError) -> Steps[Message]:
    if handler.refused is None:
        raise error
    refusal = handler.refused(context, request, error)
    if isinstance(refusal, Generator):
        refusal = yield from refusal
    return refusal


def _without_size(frame: bytes | list[Part]) -> bytes:
    """The frame's payload, copied once: it may be 10 MB."""
    parts = [frame] if isinstance(frame, bytes) else frame
    assert not any(isinstance(part, FileRange) for part in parts), "no controller sends files"
    first, *others = (part for part in parts if not isinstance(part, FileRange))
    return b"".join([memoryview(first)[_FRAME_SIZE:], *others])


def _unsupported_api_versions(correlation_id: int) -> Reply:
    """A version of ApiVersions nobody knows yet is answered in the oldest body (KIP-511)."""
    own = ApiVersion(api_key=_API_VERSIONS, min_version=0, max_version=_API_VERSIONS_MAX)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
    return frame_response(correlation_id, False, encoder(ApiVersionsResponse, 0)(response))
