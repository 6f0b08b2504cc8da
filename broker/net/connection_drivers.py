"""The drivers of a node's connections, and the scheduler by which they run them together."""

import socket
from collections.abc import Callable
from typing import Protocol

import trio

from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.driven_connection import DrivenConnection
from broker.net.poller import can_poll
from broker.net.socket_reactor import SocketReactor
from broker.net.stream_driver import serve_stream
from broker.net.tls_stream import beneath_tls
from broker.net.tls_transport import socket_transport
from broker.net.turn_timer import TurnTimer


class OpenedConnection(DrivenConnection, Protocol):
    """A connection that this node has opened."""

    async def wait_closed(self) -> None:
        """Wait until it is closed."""
        ...


class ConnectionDrivers:
    """Drives connections: `SocketReactor` those of the kernel's sockets, `serve_stream` those of other streams.

    `commit` ends every turn (see `ConnectionScheduler`). `kernel_socket` gives the kernel's socket beneath a stream, or
    None for a stream that is served through Trio. `timer` measures requests.
    """

    def __init__(
        self,
        commit: Callable[[], bool],
        kernel_socket: Callable[[trio.abc.Stream], socket.socket | None],
        send_buffer_bytes: int,
        timer: TurnTimer | None = None,
    ) -> None:
        self.scheduler = ConnectionScheduler(commit, timer)
        self._kernel_socket = kernel_socket
        self._reactor = SocketReactor(self.scheduler, send_buffer_bytes) if can_poll() else None

    async def run(self) -> None:
        """Drive the adopted connections until cancelled, and close them then."""
        if self._reactor:
            await self._reactor.run()

    def adopt(self, stream: trio.abc.Stream, connection: DrivenConnection) -> bool:
        """Drive the connection by the reactor, which takes the socket of `stream`; False if it has no such socket.

        Raises OSError if the kernel refuses it, or if the reactor has stopped.
        """
        if self._reactor and (sock := self._kernel_socket(beneath_tls(stream))):
            self._reactor.adopt(socket_transport(self._reactor, sock, connection, stream))
            return True
        return False

    async def carry(self, stream: trio.abc.Stream, connection: OpenedConnection) -> None:
        """Drive a connection that this node has opened, until it is closed or this is cancelled. Closes the stream.

        Raises what a turn of the connections raises, such as a failed fsync.
        """
        try:
            try:
                is_adopted = self.adopt(stream, connection)
            except OSError as error:
                connection.fail(error)
                return
            if is_adopted:
                self.scheduler.run(connection)  # requests may have been waiting for the driver
                await connection.wait_closed()
            else:
                await serve_stream(stream, connection, self.scheduler)
        finally:
            connection.close(None)
            await trio.aclose_forcefully(stream)
