"""Accepting connections, within limits, and handing each to the driver that suits it."""

import socket
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio

from broker.net.connection import Connection, Service
from broker.net.epoll_reactor import EpollReactor
from broker.net.stream_driver import serve_stream
from broker.net.turns import Turns


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

    @property
    def connection_count(self) -> int:
        return len(self._activity)

    async def run(self) -> None:
        """Drive the accepted connections; runs beside any number of `serve`."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reactor.run)
            nursery.start_soon(self._close_idle)

    async def serve(self, name: str, listeners: Sequence[trio.SocketListener], service: Service) -> None:
        """Accept on the sockets of the listener called `name`, for `service`, until cancelled."""

        async def handle(stream: trio.SocketStream) -> None:
            await self._accepted(stream, name, service)

        # Survives running out of descriptors or memory: it logs, pauses and tries again.
        await trio.serve_listeners(handle, list[trio.abc.Listener[Any]](listeners))

    async def _accepted(self, stream: trio.SocketStream, listener: str, service: Service) -> None:
        try:
            host = stream.socket.getpeername()[0]
        except OSError:
            return  # already gone
        limits = self._limits
        if len(self._activity) >= limits.connections_max or self._per_host[host] >= limits.connections_per_ip_max:
            return  # closed without a word; Kafka does so per address, and lets others wait
        connection = Connection(
            service,
            self._turns.run,
            self._closed,
            request_size_max=limits.request_size_max,
            peer_host=host,
            listener=listener,
        )
        self._activity[connection] = 0
        self._per_host[host] += 1
        sock = self._kernel_socket(stream)
        if sock is None:
            await serve_stream(stream, connection, self._turns)
        else:
            self._reactor.adopt(sock, connection)

    def _closed(self, connection: Connection) -> None:
        if self._activity.pop(connection, None) is not None:
            self._per_host[connection.peer_host] -= 1
            if not self._per_host[connection.peer_host]:
                del self._per_host[connection.peer_host]
        self._on_close(connection)

    async def _close_idle(self) -> None:
        """Close connections that said nothing for one to two idle periods, and trim the buffers of quiet ones."""
        while True:
            await trio.sleep(self._limits.idle_ms_max / 1000)
            for connection, before in list(self._activity.items()):
                if connection.activity != before:
                    self._activity[connection] = connection.activity
                elif not connection.awaits_reply:
                    connection.close("idle for connections.max.idle.ms")
