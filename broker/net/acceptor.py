"""Accepting connections, within limits, and handing each to the driver that suits it."""

import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import attrs
import trio

from broker.net.connection import Connection, Service
from broker.net.epoll_reactor import EpollReactor
from broker.net.peeked_stream import peek
from broker.net.stream_driver import serve_stream
from broker.net.turns import Turns

# A request of Kafka's protocol begins with its size in four bytes and its API key in two, of which all that exist are
# below 256. What replicas of the quorum send each other begins with a size and an array of three in msgpack.
_PEEKED_BYTES: Final = 5
_ARRAY_OF_THREE: Final = 0x93
# What a broker puts around a request that it forwards (Envelope, KIP-590), which itself may have any size that brokers
# accept: a header, the client's address and its principal, some hundred bytes where that is a certificate's subject.
# Refusing one such request would close the connection that all of the broker's requests share.
ENVELOPE_BYTES_MAX: Final = 8_192
# Whoever connects to a controller says so at once.
_FIRST_BYTES_TIMEOUT_S: Final = 10.0

ServeStream: TypeAlias = Callable[[trio.abc.Stream], Awaitable[None]]


@attrs.frozen
class ConnectionLimits:
    """`socket.request.max.bytes`, `max.connections`, `max.connections.per.ip`, `connections.max.idle.ms`, and
    `socket.send.buffer.bytes`.

    Left to itself, Linux lets a send buffer grow to 4 MiB: what is sent has then long left the processor's caches
    when it is received. 400,000 bytes more than double what a large fetch achieves on the loopback interface, at half
    the CPU; Kafka's 102,400 leave both sides waiting for each other when only one thread serves.
    """

    request_size_max: int
    connections_max: int
    connections_per_ip_max: int
    idle_ms_max: int
    send_buffer_bytes: int = 400_000


class Acceptor:
    """Accepts on any number of listeners and keeps count of what it accepted.

    `commit` ends every turn (see `Turns`). `kernel_socket` gives the kernel's socket beneath a stream, or None for a
    stream that has none and is served through Trio. `on_close` hears of every connection that ended, with its reason.
    """

    def __init__(
        self,
        commit: Callable[[], bool],
        limits: ConnectionLimits,
        kernel_socket: Callable[[trio.abc.Stream], socket.socket | None],
        on_close: Callable[[Connection], None],
    ) -> None:
        self._limits = limits
        self._kernel_socket = kernel_socket
        self._on_close = on_close
        self._turns = Turns(commit)
        self._reactor = EpollReactor(self._turns, limits.send_buffer_bytes)
        self._activity: dict[Connection, int] = {}
        self._per_host: Counter[str] = Counter()
        self._count = 0
        self._times_closed: Counter[str] = Counter()

    def limit(self, limits: ConnectionLimits) -> None:
        """Obey other limits from now on; connections that are open stay so."""
        self._limits = limits

    @property
    def connection_count(self) -> int:
        return self._count

    async def run(self) -> None:
        """Drive the accepted connections; runs beside any number of `serve`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reactor.run)
            nursery.start_soon(self._close_idle)

    async def serve(self, name: str, listeners: Sequence[trio.SocketListener], service: Service) -> None:
        """Accept on the sockets of the listener called `name`, for `service`, until cancelled."""

        async def handle(stream: trio.SocketStream) -> None:
            host = self._admitted(stream)
            if host is None:
                return
            connection = self._connection(host, name, service, self._limits.request_size_max)
            sock = self._kernel_socket(stream)
            if sock is None:
                await serve_stream(stream, connection, self._turns)
            else:
                self._reactor.adopt(sock, connection)

        await _accept(handle, listeners)

    async def serve_controllers(
        self, name: str, listeners: Sequence[trio.SocketListener], service: Service, replicas: ServeStream
    ) -> None:
        """As `serve`, where other replicas of the quorum connect too: `replicas` serves those until they are gone.

        A frame of theirs takes what a frame of Kafka's protocol does, so the first bytes tell them apart. Brokers may
        send what is the largest request within an envelope.
        """
        request_size_max = self._limits.request_size_max + ENVELOPE_BYTES_MAX

        async def handle(stream: trio.SocketStream) -> None:
            host = self._admitted(stream)
            if host is None:
                return
            times_closed = self._times_closed[name]
            begun = b""
            with suppress(trio.BrokenResourceError), trio.move_on_after(_FIRST_BYTES_TIMEOUT_S):
                begun, peeked = await peek(stream, _PEEKED_BYTES)
            is_whole = len(begun) == _PEEKED_BYTES
            if is_whole and begun[-1] != _ARRAY_OF_THREE and times_closed == self._times_closed[name]:
                connection = self._connection(host, name, service, request_size_max)
                await serve_stream(peeked, connection, self._turns)
                return
            try:
                if is_whole and begun[-1] == _ARRAY_OF_THREE:
                    await replicas(peeked)
            finally:
                self._gone(host)

        await _accept(handle, listeners)

    def close_all(self, listener: str, reason: str | None) -> None:
        """Close the connections of clients and brokers to a listener, also those that said nothing yet.

        `reason` is traced for each of them; None traces nothing.
        """
        self._times_closed[listener] += 1
        for connection in [each for each in self._activity if each.listener == listener]:
            connection.close(reason)

    def _admitted(self, stream: trio.SocketStream) -> str | None:
        """The address of who connected; None where it is gone already, or is one too many.

        Those are closed without a word; Kafka does so per address, and lets others wait.
        """
        try:
            host: str = stream.socket.getpeername()[0]
        except OSError:
            return None
        limits = self._limits
        if self._count >= limits.connections_max or self._per_host[host] >= limits.connections_per_ip_max:
            return None
        self._per_host[host] += 1
        self._count += 1
        return host

    def _gone(self, host: str) -> None:
        self._count -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _connection(self, host: str, listener: str, service: Service, request_size_max: int) -> Connection:
        connection = Connection(
            service,
            self._turns.run,
            self._closed,
            request_size_max=request_size_max,
            peer_host=host,
            listener=listener,
        )
        self._activity[connection] = 0
        return connection

    def _closed(self, connection: Connection) -> None:
        if self._activity.pop(connection, None) is not None:
            self._gone(connection.peer_host)
        self._on_close(connection)

    async def _close_idle(self) -> None:
        """Close connections that said nothing for one to two idle periods, and trim the buffers of quiet ones."""
        while True:
            await trio.sleep(self._limits.idle_ms_max / 1000)
            for connection, before in list(self._activity.items()):
                if connection.activity != before:
                    self._activity[connection] = connection.activity
                elif not connection.awaits_reply:
                    connection.close(None)  # clients expect it, and connect again when they need to: no news


async def _accept(
    handle: Callable[[trio.SocketStream], Awaitable[None]], listeners: Sequence[trio.SocketListener]
) -> None:
    """Survives running out of descriptors or memory: it logs, pauses and tries again."""
    await trio.serve_listeners(handle, list[trio.abc.Listener[Any]](listeners))
