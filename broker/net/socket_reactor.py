"""The driver of TCP connections, with or without TLS: one Trio task that owns a private poller for all of them.

Trio waits for the descriptor of the poller, so one wake-up of Trio serves every connection that became ready, and a
request costs two system calls and no task switch. Measured against a task per connection this is worth 30-45 % of
the small requests per second.
"""

import socket
from typing import Final

import trio

from broker.net.connection_scheduler import ConnectionScheduler
from broker.net.driven_connection import DrivenConnection
from broker.net.poller import MUTED, READ, WRITE, open_poller
from broker.net.send import send_queue

# Polls per wake-up, before other tasks of the node run. While connections stay ready, this saves passes of Trio's
# scheduler. With 64, heartbeats were delayed too long; 16 are enough to spread the cost.
POLLS_PER_WAKE_UP: Final = 16
# A wake-up ends after the poll in which this time is over. Requests to coordinators take 100 us and more each; 16 polls
# with many of them took 60 ms.
_WAKE_UP_S: Final = 0.005


class SocketReactor:
    """Serves kernel sockets until cancelled. `send_buffer_bytes` is their SO_SNDBUF; -1 keeps the system's default."""

    def __init__(self, scheduler: ConnectionScheduler, send_buffer_bytes: int) -> None:
        self._send_buffer_bytes = send_buffer_bytes
        self.scheduler = scheduler
        self._poller = open_poller()
        self._transports: dict[int, SocketTransport] = {}

    def adopt(self, transport: "SocketTransport") -> None:
        """Serve the connection of a transport from now on; the reactor closes its socket.

        Closes the socket and raises OSError if the kernel refuses it, or if the reactor has stopped.
        """
        sock = transport.sock
        try:
            if self._poller.closed:  # the connection was accepted while the node stopped
                raise OSError("the node stops")
            if self._send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            self._poller.register(transport.descriptor, transport.events)
        except OSError:
            sock.close()
            raise
        transport.connection.transport = transport
        self._transports[transport.descriptor] = transport

    async def run(self) -> None:
        transports = self._transports
        try:
            while True:
                await trio.lowlevel.wait_readable(self._poller.fileno())
                until = trio.current_time() + _WAKE_UP_S
                for _ in range(POLLS_PER_WAKE_UP):
                    ready = self._poller.poll(0)
                    if not ready:
                        break
                    for descriptor, events in ready:
                        transport = transports.get(descriptor)
                        if transport is None:
                            continue  # an earlier event has closed it
                        if events == READ:
                            transport.receive()
                        else:
                            self._on_event(transport, events)
                    self.scheduler.run_all()
                    if trio.current_time() > until:
                        break
        finally:
            for transport in list(self._transports.values()):
                transport.connection.close(None)
            self._poller.close()

    def forget(self, transport: "SocketTransport") -> None:
        if self._transports.pop(transport.descriptor, None) is not None:
            self._poller.unregister(transport.descriptor)

    def exchange(self, transport: "SocketTransport", descriptor: int) -> None:
        """Serve the connection of a transport by another descriptor from now on."""
        self.forget(transport)
        transport.descriptor = descriptor
        self._poller.register(descriptor, transport.events)
        self._transports[descriptor] = transport

    def watch(self, transport: "SocketTransport", events: int) -> None:
        self._poller.modify(transport.descriptor, events)

    def _on_event(self, transport: "SocketTransport", events: int) -> None:
        """Handle any event other than readable alone."""
        if events & WRITE:
            transport.resume()
        elif events & READ:
            transport.receive()
        else:
            # An error or a hang-up of a connection that is muted or half closed
            transport.connection.close(None)


class SocketTransport:
    """A connected, non-blocking socket of the reactor. `events` are those that the reactor watches it for."""

    __slots__ = ("_add_turn", "_reactor", "connection", "descriptor", "events", "sock")

    def __init__(self, reactor: SocketReactor, sock: socket.socket, connection: DrivenConnection) -> None:
        self._reactor = reactor
        self._add_turn = reactor.scheduler.add
        self.sock = sock
        self.events = READ
        self.connection = connection
        self.descriptor = sock.fileno()

    def receive(self) -> None:
        """Receive bytes; called when the socket is readable."""
        connection = self.connection
        space = connection.receive_space()
        if not space or connection.throttled:
            connection.muted = True
            self._watch(MUTED)  # too many requests wait, or it is throttled; `flush` reads again
            return
        try:
            count = self.sock.recv_into(space)
        except BlockingIOError:
            return
        except OSError as error:
            connection.fail(error)
            return
        if not count:
            connection.close(None)
            return
        connection.received(count)
        self._add_turn(connection)

    def flush(self) -> bool:
        """See `Transport.flush`. A full socket is watched for writability, and not read from meanwhile."""
        connection = self.connection
        queue = connection.outgoing
        try:
            connection.outgoing_size -= send_queue(self.sock, queue, connection.outgoing_size)
        except OSError as error:
            connection.fail(error)
            return False
        if queue:
            if self.events != WRITE:
                self._watch(WRITE)
            return False
        if self.events != READ:
            connection.muted = False
            self._watch(READ)
        return True

    def resume(self) -> None:
        """Send more; called when the socket is writable, and watched for it."""
        if self.flush():
            self._add_turn(self.connection)

    def shut(self) -> None:
        self._reactor.forget(self)
        self.sock.close()

    def exchange(self, sock: socket.socket) -> socket.socket:
        """Go on over another socket, which is non-blocking. Returns the one before, which is the caller's to close.

        For proxies within the process, as those of test clusters.
        """
        before, self.sock = self.sock, sock
        self._reactor.exchange(self, sock.fileno())
        return before

    def _watch(self, events: int) -> None:
        self.events = events
        self._reactor.watch(self, events)
