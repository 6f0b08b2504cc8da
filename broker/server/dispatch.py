"""From the bytes of a request to the handler of its API and version, and back: the boundary of errors.

A malformed request closes its connection. A handler's unexpected error does too, and is traced. The packages that
handlers call change their state wholly or not at all, so the node can go on serving other clients. Only a failed fsync
ends the node.
"""

import traceback
from collections.abc import Callable, Generator, Iterable
from math import inf
from struct import Struct
from types import GeneratorType
from typing import Final, Generic

import trio

from broker.net.connection import Connection, ProtocolError, Sender
from broker.net.replica_streams import Identity
from broker.net.reply import FileRange, PendingReply, Reply, frame_response
from broker.server.authorizer import Authorizer
from broker.server.context import Context, Message, S
from broker.server.forwarding import Forward, forward_request
from broker.server.handler import Handler
from broker.server.handler_entry import HandlerEntry
from broker.server.quotas import Charging, MutationCharging
from broker.server.request_admission import SASL_AUTHENTICATE_KEY, RequestAdmission
from broker.server.request_log import RequestLog
from broker.server.routes import API_VERSIONS_KEY, Routes, UnservedVersion
from broker.server.sasl import SaslSession
from broker.server.scheduler import Frame, Scheduler, Work
from broker.server.senders import sender_of
from broker.server.services import ControllerServices, Services
from broker.server.session import Session
from broker.server.shortcut_tables import ShortcutTables, TableKey, table_key
from broker.server.slices import Steps, freed
from broker.server.unauthenticated import UNAUTHENTICATED_BYTES_MAX
from broker.wire.api import APIS
from broker.wire.api.api_versions import ApiVersionsResponse
from broker.wire.api.names import api_name
from broker.wire.codec import encoder
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.header import parse_request_header
from kraft.env import FsyncFailed
from metadata.protocol import CLUSTER_NAME, AclOperation, ResourceType

# Key and version are one number here, see `table_key`.
_KEY_VERSION_CORRELATION: Final = Struct(">Ii")
_KNOWN_FROM: Final = _KEY_VERSION_CORRELATION.size
_FRAME_SIZE: Final = 4
# Names of principals come from outside, and may be long.
_SHOWN_CHARACTERS: Final = 200
_UNEXPECTED: Final = "The server experienced an unexpected error when processing the request."
# The types of a reply that is not a message to pack.
_REPLIES: Final = (PendingReply, bytes, list)
# Requests from this size on are decoded in slices. Smaller ones take a few milliseconds at most.
_SLICED_BYTES_MIN: Final = 8 * 1024


class Dispatcher(Generic[S]):
    """Serves all connections of one kind of listeners. Tasks of handlers run in `nursery`.

    `forward` takes the requests that belong to the controller; without it they are executed here. `commit` writes what
    handlers have staged outside of turns. With `serves_unstable` versions of APIs that are still in development are
    served too. `request_counts` are the requests that were decoded, by API and version (`table_key`).
    """

    def __init__(
        self,
        services: S,
        handlers: Iterable[HandlerEntry],
        nursery: trio.Nursery,
        forward: Forward | None = None,
        *,
        commit: Callable[[], None] = lambda: None,
        serves_unstable: bool = False,
    ) -> None:
        self.services = services
        self.scheduler = Scheduler(nursery, commit, self._failed)
        self.authorizer: Authorizer | None = None
        self.charging: Charging | None = None
        self.mutation_charging: MutationCharging | None = None
        self.access_generation = 0
        self._request_log: RequestLog | None = None
        self._forward = forward
        self._routes = Routes(handlers, serves_unstable=serves_unstable)
        self._admission = RequestAdmission(self._routes, self._count_expired)
        self.shortcuts = ShortcutTables()
        self.request_counts: dict[TableKey, int] = {}
        self.advertised = self._routes.advertised

    def _count_expired(self, listener: str) -> None:
        self.services.sasl.authentications.expired[listener] += 1

    def authorize(self, authorizer: Authorizer | None) -> None:
        """Have requests authorized from now on; None allows everything."""
        self.authorizer = authorizer
        if authorizer is not None:
            authorizer.when_changed(self.access_changed)
        self.access_changed()

    def charge(self, charging: Charging | None) -> None:
        """Have requests charged from now on; None charges nothing."""
        self.charging = charging
        self.access_changed()

    def log_requests(self, log: RequestLog | None) -> None:
        """Log requests from now on; None logs none. The log sees decoded requests only, so they take no shortcut."""
        if log != self._request_log:
            self._request_log = log
            self.shortcuts.forget()

    def access_changed(self) -> None:
        """ACLs or quotas have changed: the next request of every client is decided by the new ones."""
        self.shortcuts.forget()
        self.access_generation += 1

    def open_session(self, connection: Connection) -> Session:
        """See `broker.net.connection.Service`."""
        session = Session(connection.peer_host, connection.listener, self.shortcuts, connection)
        if connection.principal:
            session.authenticate(connection.principal)
        else:
            session.sasl = SaslSession()
            self.services.sasl.opened(connection)
        return session

    def serve(self, connection: Connection, start: int, end: int) -> Reply:
        """See `broker.net.connection.Service`."""
        session: Session = connection.session
        data = connection.buffer.data
        try:
            if end - start >= _KNOWN_FROM:
                key_and_version, correlation_id = _KEY_VERSION_CORRELATION.unpack_from(data, start)
                shortcut = session.shortcuts.get(key_and_version)
                if shortcut is not None:
                    reply = shortcut.serve(connection, start, end, correlation_id)
                    if reply is not False:
                        self.request_counts[key_and_version] += 1
                        return reply
            charging = self.charging
            if charging is not None and charging.is_timed:
                return self._serve_timed(charging, connection, session, start, end)
            return self._serve(connection, session, start, end)
        except (ProtocolError, FsyncFailed):
            raise
        except WireError as error:
            raise ProtocolError(f"undecodable request: {error}") from error
        except Exception as error:
            raise self._failed(session, error) from error

    def _serve(self, connection: Connection, session: Session, start: int, end: int) -> Reply:
        """The general way: decode, handle, encode."""
        data = connection.buffer.data
        if session.sasl is not None and session.sasl.is_raw:
            return self._serve_raw_sasl(session, bytes(data[start:end]))
        api_key, version, correlation_id, client_id, position = parse_request_header(data, start, end)
        route = self._admission.admit(session, api_key, version, end - start)
        if route is None:
            return self._unsupported_api_versions(correlation_id)
        self._count(route.key)
        session.client_id = client_id
        context = Context(self, session, route.codec, correlation_id, client_id, end - start)
        handler = route.handler
        if end - start >= _SLICED_BYTES_MIN and not handler.keeps_views:
            return self._decode_in_slices(context, handler, bytes(data[start:end]), position - start)
        request, _ = route.codec.decode(data, position, end)
        if self._request_log is not None:
            self._request_log.log(context, request)
        # As `_respond`, which would be one call more for each request.
        response = self.carry_out(context, handler, request, data[start:end] if handler.forwarded else b"")
        if type(response) is GeneratorType:
            response = self.scheduler.start(context, response, None, handler.in_turns, handler.concurrent)
        if handler.shortcut is not None and self.may_learn(session) and connection.buffer.data is data:
            self._learn(handler, context, request, response, start, end)
        if response is None:
            context.charge()
            return None
        if isinstance(response, _REPLIES):
            return response
        return context.pack(response)

    def _serve_raw_sasl(self, session: Session, message: bytes) -> Reply:
        """Serve a message of a SASL mechanism without a header, after version 0 of SaslHandshake."""
        route = self._routes.find(SASL_AUTHENTICATE_KEY, 0)
        assert route is not None, "each version that is not served raises"
        self._count(route.key)
        context = Context(self, session, route.codec, 0, session.client_id, len(message))
        request = APIS[SASL_AUTHENTICATE_KEY].request(auth_bytes=message)  # type: ignore[call-arg]
        reply = self._respond(context, route.handler, request, b"", None)
        assert reply is None or isinstance(reply, _REPLIES), "the answer has no header either"
        return reply

    def _decode_in_slices(self, context: Context[S], handler: Handler, payload: bytes, position: int) -> PendingReply:
        """Decode a large request in slices; it is carried out in a turn of the connection."""

        def carry_out(request: Message) -> Reply:
            response = self._respond(context, handler, request, payload, request)
            if response is None:
                context.charge()
            elif not isinstance(response, _REPLIES):
                response = self.scheduler.start(context, context.pack_in_steps(response))
            return response

        return self.scheduler.decode(context, _decoded(context, payload, position), carry_out)

    def _respond(
        self, context: Context[S], handler: Handler, request: Message, payload: bytes | bytearray, large: Message | None
    ) -> Message | Frame | PendingReply | None:
        """The response of a decoded request's handler, or a pending reply while it waits."""
        if self._request_log is not None:
            self._request_log.log(context, request)
        response = self.carry_out(context, handler, request, payload)
        if type(response) is not GeneratorType:
            return response
        return self.scheduler.start(context, response, large, handler.in_turns, handler.concurrent)

    def carry_out(
        self, context: Context[S], handler: Handler, request: Message, payload: bytes | bytearray
    ) -> Message | Frame | Work[Message | Frame | None] | None:
        """Carry out a decoded request, or forward its `payload`, which has its header; as a handler does.

        All requests pass here, apart from those that a shortcut serves. A subclass that has to see all of them
        overrides this method and `may_learn`.
        """
        if handler.forwarded and self._forward is not None:
            return forward_request(self._forward, context, handler, request, bytes(payload))
        return handler.carry_out(context, request)

    def may_learn(self, session: Session) -> bool:
        """True if later requests of the session may take a shortcut."""
        return self._request_log is None and session.authenticated_until == inf

    def _count(self, key: TableKey) -> None:
        """Count a request. One that a shortcut serves was counted here before, when it was learned."""
        self.request_counts[key] = self.request_counts.get(key, 0) + 1

    def _serve_timed(self, charging: Charging, connection: Connection, session: Session, start: int, end: int) -> Reply:
        outer_s = charging.begin()
        try:
            return self._serve(connection, session, start, end)
        finally:
            charging.end(session, outer_s)

    def sender_of(self, connection: Connection, start: int, end: int) -> Sender:
        """See `broker.net.connection.Service`."""
        return sender_of(connection.buffer.data, start, end)

    def check_size(self, connection: Connection, api_key: int, size: int) -> None:
        """See `broker.net.connection.Service`."""
        if size > UNAUTHENTICATED_BYTES_MAX and not connection.session.is_authenticated:
            raise ProtocolError(f"a request of {size} bytes before the client has authenticated")
        self._routes.check_size(api_key, size)

    async def execute(self, payload: bytes, *, principal: str, client_host: str, is_own: bool = False) -> bytes:
        """Answer a request without a connection: one that was forwarded, or this node's own. Both have headers.

        Raises KafkaError: NOT_CONTROLLER, after which another controller may be asked; UNSUPPORTED_VERSION for a
        version that only newer nodes know; INVALID_REQUEST for bytes that cannot be decoded, or an API that is not
        served; another code for an API that has no response for a refusal.
        """
        session = Session.authenticated(principal, client_host, "", self.shortcuts)
        session.is_own = is_own
        try:
            api_key, version, correlation_id, client_id, position = parse_request_header(payload)
            route = self._admission.admit(session, api_key, version, len(payload))
            if route is None:
                raise UnservedVersion(f"version {version} of {api_name(api_key)} is not served")
            request, _ = await self.scheduler.finish(route.codec.decode_sliced(payload, position))
        except UnservedVersion as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        except (WireError, ProtocolError) as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        self._count(route.key)
        context = Context(self, session, route.codec, correlation_id, client_id, len(payload))
        try:
            response = self.carry_out(context, route.handler, request, payload)
            if isinstance(response, Generator):
                response = await self.scheduler.finish(response, context)
            frame = await self.scheduler.finish(_packed(context, request, response), context)
        except (KafkaError, FsyncFailed):
            raise
        except Exception as error:
            self._failed(context.session, error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED) from error
        return _without_size(frame)

    def is_forwarded(self, payload: bytes) -> bool:
        """Whether brokers forward requests like this one. Raises WireError."""
        handler = self._routes.handler(parse_request_header(payload)[0])
        return handler is not None and handler.forwarded

    def _learn(
        self, handler: Handler, context: Context[S], request: Message, response: Message, start: int, end: int
    ) -> None:
        """Teach the client's table a request that was served. A failure to learn must not harm that request."""
        try:
            table = context.session.shortcuts
            key = table_key(context.codec.api_key, context.codec.version)
            shortcut = table.get(key)
            if shortcut is None:
                assert handler.shortcut is not None, "only handlers with a shortcut learn"
                assert isinstance(self.services, Services), "only brokers have shortcuts"
                shortcut = handler.shortcut(self, context.codec)
                table[key] = shortcut
            if shortcut.learn(context, request, response, start, end):
                self.shortcuts.count_entry()
        except Exception as error:  # noqa: BLE001 - the general way remains
            self._failed(context.session, error)

    def _failed(self, session: Session, error: Exception) -> ProtocolError:
        self.services.env.trace(
            "handler_failed",
            peer=session.client_host,
            listener=session.listener,
            error="".join(traceback.format_exception(error)),
        )
        return ProtocolError(f"a handler failed: {error!r}")

    def _unsupported_api_versions(self, correlation_id: int) -> Reply:
        """A version of ApiVersions that is not known yet is answered in the oldest body (KIP-511)."""
        own = [api for api in self.advertised if api.api_key == API_VERSIONS_KEY]
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
        return frame_response(correlation_id, False, encoder(ApiVersionsResponse, 0)(response))


class ControllerDispatcher(Dispatcher[ControllerServices]):
    """Serves the controllers' listeners, and this node's own requests to its controller."""

    @property
    def is_active(self) -> bool:
        """Whether this node's controller is the active one, as far as it knows."""
        return self.services.controller.is_active

    def identity_of(self, connection: Connection) -> Identity | None:
        """See `broker.net.replica_streams.ControllerService`."""
        session: Session = connection.session
        return Identity(session.principal, session.authenticated_until) if session.is_authenticated else None

    def refusal_of_replica(self, principal: str, host: str) -> str:
        """Why another replica of the quorum is refused; "" if it is authenticated, and allowed to act for the cluster.

        The access control entries are part of the metadata that such a replica brings. Until they are loaded, only
        super users are admitted, as in Kafka.
        """
        if not principal:
            return "it has not authenticated"
        session = Session.authenticated(principal, host, "", self.shortcuts)
        try:
            if self.authorizer is None or self.authorizer.allows(
                session, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
            ):
                return ""
        except KafkaError:
            return (
                f"{principal[:_SHOWN_CHARACTERS]} is not among super.users, and this controller has not loaded the"
                " access control entries yet"
            )
        except Exception as error:  # noqa: BLE001 - an authorizer of others
            self._failed(session, error)
            return "the authorizer of this controller has failed"
        return f"{principal[:_SHOWN_CHARACTERS]} is neither among super.users nor allowed CLUSTER_ACTION on the cluster"


def _decoded(context: Context[S], payload: bytes, position: int) -> Steps[Message]:
    try:
        request, _ = yield from context.codec.decode_sliced(payload, position)
    except WireError as error:
        raise ProtocolError(f"undecodable request: {error}") from error
    return request


def _packed(context: Context[S], request: Message, response: Message) -> Steps[Frame]:
    frame = yield from context.pack_in_steps(response)
    yield from freed(response)
    yield from freed(request)
    return frame


def _without_size(frame: Frame) -> bytes:
    """The frame's payload, copied once: it may be 10 MB."""
    parts = [frame] if isinstance(frame, bytes) else frame
    assert not any(isinstance(part, FileRange) for part in parts), "no controller sends files"
    first, *others = (part for part in parts if not isinstance(part, FileRange))
    return b"".join([memoryview(first)[_FRAME_SIZE:], *others])
