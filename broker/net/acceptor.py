"""Accepts connections within limits, and passes each to the driver for its kind of stream.

`broker.net.admission` has the limits, and `broker.net.reserve` the connections beyond them. A connection of an address
that connects too often may also be held without being read, and closed when the address may connect again, so that its
client does not connect at once again (KIP-612).

The kernel gives a new connection the lowest free descriptor. A high descriptor means that the process has nearly
reached its limit of open connections and files. Such a connection is closed, because the node needs the remaining
descriptors for its own files and connections. The bound is higher for connections of peers than for those of clients.
"""

import errno
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import trio

from broker.net.admission import Admission, ConnectionLimits, ConnectionRates, ListenerKind, UnlimitedRates
from broker.net.connection import Connection, Service
from broker.net.connection_drivers import ConnectionDrivers
from broker.net.connection_scheduler import LoopMeter
from broker.net.deadlines import Deadlines
from broker.net.listener_security import PLAINTEXT, Handshakes, ListenerSecurity, NotSecured
from broker.net.replica_streams import ControllerService, First, Identity, ServeReplica, UndecidedStream, read_first
from broker.net.reserve import Reserve
from broker.net.stream_driver import serve_stream
from broker.net.turn_timer import TurnTimer

# The size of an Envelope (KIP-590) without the forwarded request, which may have any size that brokers accept: a
# header, the client's address and its principal, some hundred bytes if that is a certificate's subject. Refusing one
# such request would close the connection that all of the broker's requests share.
ENVELOPE_BYTES_MAX: Final = 8_192
# Looking at all connections more often would take too much of the node's time.
_IDLE_MS_MIN: Final = 10
# In place of the activity of a connection that was accepted since the last look.
_NOT_LOOKED_AT: Final = -1
# How long to wait after the kernel had no resources for another connection.
_ACCEPT_PAUSE_S: Final = 0.1
_NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
# Connections that are held because their address connects too often. Each takes a descriptor; more are closed at once.
_HELD_MAX: Final = 2_048

Handle: TypeAlias = Callable[[trio.SocketStream, str, bool], Awaitable[None]]


class Acceptor:
    """Accepts connections on any number of listeners, and counts them.

    `drivers` drive the accepted connections; `commit`, `kernel_socket` and `timer` are theirs, see `ConnectionDrivers`.
    `on_close` is called with every closed connection, which has the reason, and `on_refused` for refused ones, with the
    listener, the peer's address and the reason. While connections are held because of their addresses' rates, only the
    first of them is reported. `on_unsecured` is called likewise for failed TLS handshakes. `accepted` and `refused`
    count connections by listener.
    """

    def __init__(
        self,
        commit: Callable[[], bool],
        limits: ConnectionLimits,
        kernel_socket: Callable[[trio.abc.Stream], socket.socket | None],
        on_close: Callable[[Connection], None],
        on_refused: Callable[[str, str, str], None],
        rates: ConnectionRates | None = None,
        timer: TurnTimer | None = None,
        on_unsecured: Callable[[str, str, str], None] | None = None,
    ) -> None:
        self._on_unsecured = on_unsecured or on_refused
        self._handshakes = Handshakes()
        self._admission = Admission(limits, rates or UnlimitedRates())
        self._on_close = on_close
        self._on_refused = on_refused
        self.drivers = ConnectionDrivers(commit, kernel_socket, limits.send_buffer_bytes, timer)
        self._scheduler = self.drivers.scheduler
        self._activity: dict[Connection, int] = {}
        self._times_closed: Counter[str] = Counter()
        self._deadlines = Deadlines()
        self._reserve = Reserve(self._admission, self._deadlines)
        self._held: dict[trio.SocketStream, None] = {}
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def measure(self, timer: TurnTimer | None) -> None:
        """Have `timer` measure requests from now on; None measures none."""
        self._scheduler.timer = timer

    def meter_connections(self, meter: LoopMeter | None) -> None:
        """Have `meter` measure for how long connections hold the event loop from now on; None measures none."""
        self._scheduler.meter = meter

    def limit(self, limits: ConnectionLimits) -> None:
        """Apply other limits to new connections; open ones stay."""
        self._admission.limits = limits
        self._reserve.let_in_soon()

    @property
    def connection_count(self) -> int:
        return self._admission.count

    @property
    def connections(self) -> Collection[Connection]:
        """The open connections of clients and brokers."""
        return self._activity.keys()

    @property
    def connection_counts(self) -> Mapping[str, int]:
        """The open connections by listener, with those of other replicas of the quorum."""
        return self._admission.per_listener

    async def run(self) -> None:
        """Drive the accepted connections; runs beside any number of `serve`."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.drivers.run)
                nursery.start_soon(self._close_idle)
                nursery.start_soon(self._deadlines.run)
        finally:
            for stream in self._held:
                stream.socket.close()
            self._held.clear()

    async def serve(
        self,
        name: str,
        listeners: Sequence[trio.SocketListener],
        service: Service,
        *,
        is_for_peers: bool = False,
        security: ListenerSecurity = PLAINTEXT,
    ) -> None:
        """Accept on the sockets of the listener called `name`, for `service`, until cancelled.

        `is_for_peers` is true if only brokers connect to it, and no clients.
        """
        self._admission.add_listener(name, ListenerKind.BROKERS if is_for_peers else ListenerKind.CLIENTS)

        async def handle(transport: trio.SocketStream, host: str, is_in_reserve: bool) -> None:
            times_closed = self._times_closed[name]
            secured = await self._secured(security, transport, name, host, is_in_reserve)
            if secured is None:
                return
            if times_closed != self._times_closed[name]:
                self._release(name, host, is_in_reserve)
                return
            stream, principal = secured
            connection = self._connection(host, name, service, self._admission.limits.request_size_max, principal)
            await self._drive(stream, connection, is_in_reserve)

        await self._accept(name, handle, listeners)

    async def serve_controllers(
        self,
        name: str,
        listeners: Sequence[trio.SocketListener],
        service: ControllerService,
        replicas: ServeReplica,
        *,
        security: ListenerSecurity = PLAINTEXT,
    ) -> None:
        """Like `serve`, for listeners to which other quorum replicas connect too; `replicas` serves their streams.

        See `broker.net.replica_streams`. Brokers may send a request of the largest size within an envelope.
        """
        self._admission.add_listener(name, ListenerKind.CONTROLLERS)
        request_size_max = self._admission.limits.request_size_max + ENVELOPE_BYTES_MAX

        async def handle(transport: trio.SocketStream, host: str, is_in_reserve: bool) -> None:
            assert not is_in_reserve, "controllers are not limited"
            times_closed = self._times_closed[name]
            secured = await self._secured(security, transport, name, host, is_in_reserve)
            if secured is None:
                return
            stream, principal = secured
            first, stream = await read_first(stream) if principal else (None, stream)
            if first is First.HELLO:
                await self._serve_replica(replicas, stream, Identity(principal), name, host)
            elif (principal and first is None) or times_closed != self._times_closed[name]:
                self._admission.remove(name, host)
            else:
                connection = self._connection(host, name, service, request_size_max, principal)
                await self._serve_requests(stream, connection, service, replicas)

        await self._accept(name, handle, listeners)

    async def _serve_requests(
        self, stream: trio.abc.Stream, connection: Connection, service: ControllerService, replicas: ServeReplica
    ) -> None:
        """Serve a connection to a controller. Its client may turn out to be a replica once it has authenticated."""
        undecided = UndecidedStream(stream, connection, service)
        await serve_stream(stream if connection.principal else undecided, connection, self._scheduler)
        if undecided.replica is not None:
            listener, host = connection.listener, connection.peer_host
            self._admission.count_unlimited(listener, host)  # the connection was forgotten
            await self._serve_replica(replicas, *undecided.replica, listener, host)

    async def _serve_replica(
        self, replicas: ServeReplica, stream: trio.abc.Stream, identity: Identity, listener: str, host: str
    ) -> None:
        """Serve a stream of the quorum's protocol until it ends, or its authentication does."""
        try:
            with trio.CancelScope(deadline=identity.until):
                await replicas(stream, identity.principal, host)
        finally:
            self._admission.remove(listener, host)

    def close_all(self, listener: str, reason: str | None) -> None:
        """Close all connections of clients and brokers to a listener, also those that have sent nothing yet.

        `reason` is traced for each of them; None traces nothing.
        """
        self._times_closed[listener] += 1
        for connection in [each for each in self._activity if each.listener == listener]:
            connection.close(reason)

    def finish_all(self, listener: str, reason: str | None) -> None:
        """Like `close_all`, but each connection first sends the replies to requests that were served."""
        self._times_closed[listener] += 1
        for connection in [each for each in self._activity if each.listener == listener]:
            connection.finish(reason)

    async def _admit(self, stream: trio.SocketStream, listener: str) -> tuple[str, bool] | None:
        """Count the connection, and return the peer's address, and whether the connection is in reserve.

        None if the connection is refused. It is closed then, now or later.
        """
        try:
            host: str = stream.socket.getpeername()[0]
        except OSError:
            stream.socket.close()
            return None
        reason = self._admission.reason_to_refuse(stream.socket.fileno(), listener)
        if reason is not None:
            self.refused[listener] += 1
            self._on_refused(listener, host, reason)
            stream.socket.close()
            return None
        excess = self._admission.admit(listener, host)
        if excess is not None:
            rate = excess.rate
            if rate is not None and rate.is_of_address and not self._reserve.has_turn:
                self._hold(stream, listener, host, rate.pause_ms)
                return None
            if not len(self._reserve):
                self._on_refused(listener, host, f"{excess.reason}; only brokers and administrators are served beyond")
            try:
                await self._reserve.wait_for_turn()
            except trio.Cancelled:
                stream.socket.close()
                raise
        self.accepted[listener] += 1
        return host, excess is not None

    def _hold(self, stream: trio.SocketStream, listener: str, host: str, pause_ms: int) -> None:
        """Keep a refused connection open until its address may connect again."""
        if not self._held:
            reason = "its address connects more often than connection_creation_rate allows"
            self._on_refused(listener, host, reason)
        if len(self._held) >= _HELD_MAX:
            stream.socket.close()
            return
        self._held[stream] = None
        self._deadlines.add(trio.current_time() + pause_ms / 1000, partial(self._close_held, stream))

    def _close_held(self, stream: trio.SocketStream) -> None:
        self._held.pop(stream, None)
        stream.socket.close()

    def _close_client(self) -> None:
        """Close a connection of a client for one of a broker: the oldest one that waits for its client, or just the
        oldest.
        """
        clients = [
            each
            for each in self._activity
            if self._admission.is_for_clients(each.listener) and each not in self._reserve
        ]
        victim = next((each for each in clients if each.is_idle), next(iter(clients), None))
        if victim is not None:
            victim.close("a broker needs the place, and there are as many connections as max.connections allows")

    async def _secured(
        self,
        security: ListenerSecurity,
        transport: trio.SocketStream,
        listener: str,
        host: str,
        is_in_reserve: bool,
    ) -> tuple[trio.abc.Stream, str] | None:
        """The stream of an admitted connection and its principal; None if it cannot be secured."""
        is_secured = False
        try:
            secured = await self._handshakes.secure(security, transport, host)
            is_secured = True
        except NotSecured as error:
            if str(error):
                self._on_unsecured(listener, host, str(error))
            return None
        finally:
            if not is_secured:
                self._release(listener, host, is_in_reserve)
        return secured

    async def _drive(self, stream: trio.abc.Stream, connection: Connection, is_in_reserve: bool) -> None:
        """Serve a connection of `serve` by the driver for its kind of stream."""
        if is_in_reserve:
            self._reserve.add(connection)
        elif self._admission.has_too_many:
            self._close_client()
        try:
            if self.drivers.adopt(stream, connection):
                return
        except OSError as error:
            self._forget(connection)
            self._on_refused(connection.listener, connection.peer_host, str(error))
            return
        await serve_stream(stream, connection, self._scheduler)

    def _release(self, listener: str, host: str, is_in_reserve: bool) -> None:
        """Forget an admitted connection that is not served."""
        if not is_in_reserve:
            self._admission.remove(listener, host)
            self._reserve.let_in_soon()

    def _connection(
        self, host: str, listener: str, service: Service, request_size_max: int, principal: str
    ) -> Connection:
        connection = Connection(
            service,
            self._scheduler.run,
            self._closed,
            request_size_max=request_size_max,
            peer_host=host,
            listener=listener,
            principal=principal,
        )
        self._activity[connection] = _NOT_LOOKED_AT
        return connection

    def _closed(self, connection: Connection) -> None:
        if connection in self._activity:
            self._forget(connection)
        self._on_close(connection)

    def _forget(self, connection: Connection) -> None:
        del self._activity[connection]
        if not self._reserve.remove(connection):
            self._admission.remove(connection.listener, connection.peer_host)
            self._reserve.let_in_soon()

    async def _close_idle(self) -> None:
        """Close connections that have sent nothing for one to two idle periods; a negative period closes none."""
        idle_ms_max = self._admission.limits.idle_ms_max  # does not change while a node runs
        while idle_ms_max >= 0:
            await trio.sleep(max(idle_ms_max, _IDLE_MS_MIN) / 1000)
            for connection, before in list(self._activity.items()):
                if connection.activity != before:
                    self._activity[connection] = connection.activity
                elif connection.is_idle:
                    connection.close(None)  # clients expect this, so it is not traced

    async def _accept(self, name: str, handle: Handle, listeners: Sequence[trio.SocketListener]) -> None:
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(self._accept_from, listener, name, handle, nursery)

    async def _accept_from(
        self, listener: trio.SocketListener, name: str, handle: Handle, nursery: trio.Nursery
    ) -> None:
        async with listener:
            while True:
                stream = await self._next(listener, name)
                admitted = await self._admit(stream, name)
                if admitted is not None:
                    nursery.start_soon(_handle, handle, stream, *admitted)

    async def _next(self, listener: trio.SocketListener, name: str) -> trio.SocketStream:
        """The next connection. Waits and retries while the kernel has no descriptor or memory for it."""
        while True:
            try:
                return await listener.accept()
            except OSError as error:
                if error.errno not in _NO_RESOURCES:
                    raise
                self._on_refused(name, "a client", f"{error.strerror}; it waits to be accepted")
                await trio.sleep(_ACCEPT_PAUSE_S)


async def _handle(handle: Handle, stream: trio.SocketStream, host: str, is_in_reserve: bool) -> None:
    try:
        await handle(stream, host, is_in_reserve)
    finally:
        await trio.aclose_forcefully(stream)
