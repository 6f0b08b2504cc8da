"""Accepts connections within limits, and passes each to the driver for its kind of stream.

The kernel gives a new connection the lowest free descriptor. A high descriptor means that the process has nearly
reached its limit of open connections and files. Such a connection is closed, because the node needs the remaining
descriptors for its own files and connections. The bound is higher for connections of peers than for those of clients.
"""

import errno
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from broker.net.connection import Connection, Service
from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.epoll_reactor import EpollReactor
from broker.net.peeked_stream import peek
from broker.net.stream_driver import serve_stream

# A request of Kafka's protocol begins with its size in four bytes and its API key in two, of which all that exist are
# below 256. The quorum's own protocol begins with a size and a Hello: an array of five in msgpack.
_PEEKED_BYTES: Final = 5
_HELLO_BEGINS: Final = 0x95
# The size of an Envelope (KIP-590) without the forwarded request, which may have any size that brokers accept: a
# header, the client's address and its principal, some hundred bytes if that is a certificate's subject. Refusing one
# such request would close the connection that all of the broker's requests share.
ENVELOPE_BYTES_MAX: Final = 8_192
# A client of a controller sends its first bytes at once.
_FIRST_BYTES_TIMEOUT_S: Final = 10.0
# How long to wait after the kernel had no resources for another connection.
_ACCEPT_PAUSE_S: Final = 0.1
_NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)

ServeStream: TypeAlias = Callable[[trio.abc.Stream], Awaitable[None]]


@attrs.frozen
class ConnectionLimits:
    """`socket.request.max.bytes`, `max.connections`, `max.connections.per.ip`, `connections.max.idle.ms`,
    `socket.send.buffer.bytes`, and the descriptors below which connections of clients and those of peers stay.

    `max.connections` holds for clients and for peers, each by themselves: clients do not lock out the peers.

    Left to itself, Linux lets a send buffer grow to 4 MiB: what is sent has then long left the processor's caches
    when it is received. 400,000 bytes more than double what a large fetch achieves on the loopback interface, at half
    the CPU; Kafka's 102,400 leave both sides waiting for each other when only one thread serves.
    """

    request_size_max: int
    connections_max: int
    connections_per_ip_max: int
    idle_ms_max: int
    send_buffer_bytes: int = 400_000
    client_descriptors_max: int = sys.maxsize
    peer_descriptors_max: int = sys.maxsize


class Acceptor:
    """Accepts connections on any number of listeners, and counts them.

    `commit` ends every turn (see `ConnectionScheduler`). `kernel_socket` gives the kernel's socket beneath a stream, or
    None for a stream that has none and is served through Trio. `on_close` is called with every closed connection, which
    has the reason, and `on_refused` for refused ones, with the listener, the peer's address and the reason.
    """

    def __init__(
        self,
        commit: Callable[[], bool],
        limits: ConnectionLimits,
        kernel_socket: Callable[[trio.abc.Stream], socket.socket | None],
        on_close: Callable[[Connection], None],
        on_refused: Callable[[str, str, str], None],
    ) -> None:
        self._limits = limits
        self._kernel_socket = kernel_socket
        self._on_close = on_close
        self._on_refused = on_refused
        self._scheduler = ConnectionScheduler(commit)
        self._reactor = EpollReactor(self._scheduler, limits.send_buffer_bytes)
        self._activity: dict[Connection, int] = {}
        self._per_host: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()  # open connections by listener
        self._peer_listeners: set[str] = set()
        self._times_closed: Counter[str] = Counter()

    def limit(self, limits: ConnectionLimits) -> None:
        """Apply other limits to new connections; open ones stay."""
        self._limits = limits

    @property
    def connection_count(self) -> int:
        return sum(self._counts.values())

    async def run(self) -> None:
        """Drive the accepted connections; runs beside any number of `serve`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reactor.run)
            nursery.start_soon(self._close_idle)

    async def serve(
        self, name: str, listeners: Sequence[trio.SocketListener], service: Service, *, is_for_peers: bool = False
    ) -> None:
        """Accept on the sockets of the listener called `name`, for `service`, until cancelled.

        `is_for_peers` is true if only brokers connect to it, and no clients.
        """
        if is_for_peers:
            self._peer_listeners.add(name)

        async def handle(stream: trio.SocketStream) -> None:
            host = self._admit(stream, name)
            if host is None:
                return
            connection = self._connection(host, name, service, self._limits.request_size_max)
            try:
                sock = self._kernel_socket(stream)
                if sock is not None:
                    self._reactor.adopt(sock, connection)
                    return
            except OSError as error:
                del self._activity[connection]
                self._uncount(host, name)
                self._on_refused(name, host, str(error))
                return
            await serve_stream(stream, connection, self._scheduler)

        await self._accept(name, handle, listeners)

    async def serve_controllers(
        self, name: str, listeners: Sequence[trio.SocketListener], service: Service, replicas: ServeStream
    ) -> None:
        """Like `serve`, for listeners to which other quorum replicas connect too; `replicas` serves their streams.

        The first bytes of a stream tell the two protocols apart. Brokers may send a request of the largest size within
        an envelope.
        """
        self._peer_listeners.add(name)
        request_size_max = self._limits.request_size_max + ENVELOPE_BYTES_MAX

        async def handle(stream: trio.SocketStream) -> None:
            host = self._admit(stream, name)
            if host is None:
                return
            times_closed = self._times_closed[name]
            prefix = b""
            with suppress(trio.BrokenResourceError), trio.move_on_after(_FIRST_BYTES_TIMEOUT_S):
                prefix, peeked = await peek(stream, _PEEKED_BYTES)
            is_whole = len(prefix) == _PEEKED_BYTES
            if is_whole and prefix[-1] != _HELLO_BEGINS and times_closed == self._times_closed[name]:
                connection = self._connection(host, name, service, request_size_max)
                await serve_stream(peeked, connection, self._scheduler)
                return
            try:
                if is_whole and prefix[-1] == _HELLO_BEGINS:
                    await replicas(peeked)
            finally:
                self._uncount(host, name)

        await self._accept(name, handle, listeners)

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

    def _admit(self, stream: trio.SocketStream, listener: str) -> str | None:
        """Count the connection and return the peer's address; None if it is closed already, or refused.

        A refused connection is closed at once. Kafka does so for the limit per address, and lets other clients wait.
        """
        try:
            host: str = stream.socket.getpeername()[0]
        except OSError:
            return None
        reason = self._reason_to_refuse(stream.socket.fileno(), host, listener)
        if reason is not None:
            self._on_refused(listener, host, reason)
            return None
        self._per_host[host] += 1
        self._counts[listener] += 1
        return host

    def _reason_to_refuse(self, descriptor: int, host: str, listener: str) -> str | None:
        limits = self._limits
        is_peer = listener in self._peer_listeners
        count = sum(count for name, count in self._counts.items() if (name in self._peer_listeners) == is_peer)
        if count >= limits.connections_max:
            return f"there are {count} connections, as many as max.connections allows"
        if self._per_host[host] >= limits.connections_per_ip_max:
            return f"{self._per_host[host]} connections come from there, as many as max.connections.per.ip allows"
        if descriptor >= (limits.peer_descriptors_max if is_peer else limits.client_descriptors_max):
            return (
                f"{count} connections and the open files have taken all descriptors but those in reserve for the "
                "node's own files. Raise the limit of descriptors (ulimit -n)"
            )
        return None

    def _uncount(self, host: str, listener: str) -> None:
        self._counts[listener] -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _connection(self, host: str, listener: str, service: Service, request_size_max: int) -> Connection:
        connection = Connection(
            service,
            self._scheduler.run,
            self._closed,
            request_size_max=request_size_max,
            peer_host=host,
            listener=listener,
        )
        self._activity[connection] = 0
        return connection

    def _closed(self, connection: Connection) -> None:
        if self._activity.pop(connection, None) is not None:
            self._uncount(connection.peer_host, connection.listener)
        self._on_close(connection)

    async def _close_idle(self) -> None:
        """Close connections that have sent nothing for one to two idle periods."""
        while True:
            await trio.sleep(self._limits.idle_ms_max / 1000)
            for connection, before in list(self._activity.items()):
                if connection.activity != before:
                    self._activity[connection] = connection.activity
                elif connection.is_idle:
                    connection.close(None)  # clients expect this, so it is not traced

    async def _accept(
        self,
        name: str,
        handle: Callable[[trio.SocketStream], Awaitable[None]],
        listeners: Sequence[trio.SocketListener],
    ) -> None:
        retrying = [_RetryingListener(listener, partial(self._on_refused, name, "a client")) for listener in listeners]
        await trio.serve_listeners(handle, retrying)


class _RetryingListener(trio.abc.Listener[trio.SocketStream]):
    """A listener that waits and retries when the kernel has no descriptor or memory for a connection."""

    def __init__(self, listener: trio.SocketListener, on_failure: Callable[[str], None]) -> None:
        self._listener = listener
        self._on_failure = on_failure

    async def accept(self) -> trio.SocketStream:
        while True:
            try:
                return await self._listener.accept()
            except OSError as error:
                if error.errno not in _NO_RESOURCES:
                    raise
                self._on_failure(f"{error.strerror}; it waits to be accepted")
                await trio.sleep(_ACCEPT_PAUSE_S)

    async def aclose(self) -> None:
        await self._listener.aclose()
