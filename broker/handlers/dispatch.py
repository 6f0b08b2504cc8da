"""From the bytes of a request to the handler of its API and version, and back: the boundary of errors.

What a peer gets wrong closes its connection. What a handler gets wrong does too, with a trace: its state changes
happen in rooms that either do all or nothing, so the node may go on serving everybody else. Only a failed fsync ends
the node.
"""

import traceback
from collections.abc import Awaitable, Iterable
from struct import Struct
from typing import Final

import attrs
import trio

from broker.handlers.handler import Handler, Message, RequestContext, Shortcut
from broker.handlers.services import Services
from broker.net.connection import Connection, ProtocolError
from broker.net.reply import ExclusivePending, Pending, Reply, frame_response
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from broker.wire.codec import Decoder, Encoder, decoder, encoder
from broker.wire.errors import ErrorCode, WireError
from broker.wire.header import parse_request_header, request_header_version, response_header_version
from kraft.env import FsyncFailed
from metadata.errors import ApiError

# Key and version are one number here: a dictionary finds that sooner than a pair.
_KEY_VERSION_CORRELATION: Final = Struct(">Ii")
_FLEXIBLE_HEADER: Final = 2
_API_VERSIONS: Final = 18
_API_VERSIONS_MAX: Final = 4


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


class Dispatcher:
    """The service behind every connection. Deferred handlers run in `nursery`."""

    def __init__(self, services: Services, handlers: Iterable[Handler], nursery: trio.Nursery) -> None:
        self.services = services
        self._nursery = nursery
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
        request, _ = route.decode(data, position, end)
        context = RequestContext(self, connection, route, correlation_id, client_id)
        handler = route.handler
        if handler.immediate is None:
            return self.defer(context, _answer(context, handler, request))
        response = handler.immediate(context, request)
        if route.shortcut is not None:
            self._learn(route.shortcut, context, request, start, end)
        if response is None or isinstance(response, Pending):
            return response
        return context.encode(response)

    def _learn(self, shortcut: Shortcut, context: RequestContext, request: Message, start: int, end: int) -> None:
        """Whatever goes wrong here must not harm a request that was served."""
        try:
            shortcut.learn(context, request, start, end)
        except Exception as error:  # noqa: BLE001 - the general way remains
            self._failed(context.connection, error)

    def defer(self, context: RequestContext, response: Awaitable[Message]) -> ExclusivePending:
        """See `RequestContext.defer`."""
        pending = ExclusivePending(context.connection)
        self._nursery.start_soon(self._run_deferred, context, response, pending)
        return pending

    async def _run_deferred(self, context: RequestContext, response: Awaitable[Message], pending: Pending) -> None:
        try:
            reply = context.encode(await response)
        except FsyncFailed:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this connection's alone
            context.connection.close(str(self._failed(context.connection, error)))
        else:
            pending.complete(reply)

    def _failed(self, connection: Connection, error: Exception) -> ProtocolError:
        self.services.env.trace(
            "handler-failed",
            peer=connection.peer_host,
            listener=connection.listener,
            error="".join(traceback.format_exception(error)),
        )
        return ProtocolError(f"a handler failed: {error!r}")

    def _route(self, api_key: int, version: int) -> Route | None:
        """The route, made on first use; None for a version of ApiVersions nobody knows. Raises ProtocolError."""
        handler = self._handlers.get(api_key)
        if handler is None:
            raise ProtocolError(f"API {api_key} is not served")
        if not handler.min_version <= version <= handler.max_version:
            if api_key == _API_VERSIONS:
                return None
            raise ProtocolError(f"version {version} of API {api_key} is not served")
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
        shortcut = handler.shortcut(self.services, version, flexible)
        self._shortcuts[handler.api_key << 16 | version] = shortcut
        return shortcut


async def _answer(context: RequestContext, handler: Handler, request: Message) -> Message:
    assert handler.deferred is not None, "a handler is either immediate or deferred"
    try:
        return await handler.deferred(context, request)
    except ApiError as error:
        if handler.refused is None:
            raise
        return handler.refused(context, request, error)


def _unsupported_api_versions(correlation_id: int) -> Reply:
    """A version of ApiVersions nobody knows yet is answered in the oldest body (KIP-511)."""
    own = ApiVersion(api_key=_API_VERSIONS, min_version=0, max_version=_API_VERSIONS_MAX)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
    return frame_response(correlation_id, False, encoder(ApiVersionsResponse, 0)(response))
