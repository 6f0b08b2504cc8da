"""TCP sockets and host names as Trio's streams and listeners use them, over the simulated network."""

import errno
import os
import socket as kernel
from collections import deque
from collections.abc import Mapping
from typing import Any, NoReturn

import trio

from jepsen.simulation.hosts import HOST, Host, is_task_alive
from jepsen.simulation.network.handshake import Handshake
from jepsen.simulation.network.network import Network
from jepsen.simulation.network.pipe import SEGMENT_BYTES, Endpoint, Pipe

_CLOSED_DESCRIPTOR = -1
# Neither -1, which means closed, nor a kernel's descriptor: `kraft.env.kernel_socket` leaves such a socket to Trio.
_NO_DESCRIPTOR = -2


def _fail(code: int) -> NoReturn:
    raise OSError(code, os.strerror(code))


class SimulatedSocket(trio.socket.SocketType):
    """A socket of one process on one host. After the process has died, all operations fail with ECONNRESET."""

    def __init__(self, network: Network, host: Host, family: int, kind: int, proto: int) -> None:
        super().__init__()
        self.network = network
        self.host = host
        self.incarnation = host.incarnation
        self.is_closed = False
        self.address: tuple[str, int] | None = None
        self.peer: tuple[str, int] | None = None
        self.incoming: Pipe | None = None
        self.outgoing: Pipe | None = None
        self.backlog: deque[SimulatedSocket] = deque()
        self.backlog_max = 0
        self._is_shut = False
        self._is_dead = False
        self._acceptor: trio.lowlevel.Task | None = None
        self._serial = network.next_serial()
        self._family = kernel.AddressFamily(family)
        self._kind = kernel.SocketKind(kind)
        self._proto = proto
        host.sockets[self] = None

    def __hash__(self) -> int:
        return self._serial  # the default hash would depend on the address in memory

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<socket {self._serial} on {self.host}: {self.address} - {self.peer}>"

    @property
    def family(self) -> kernel.AddressFamily:
        return self._family

    @property
    def type(self) -> kernel.SocketKind:
        return self._kind

    @property
    def proto(self) -> int:
        return self._proto

    @property
    def did_shutdown_SHUT_WR(self) -> bool:  # noqa: N802 - Trio's name
        return self._is_shut

    def fileno(self) -> int:
        return _CLOSED_DESCRIPTOR if self.is_closed else _NO_DESCRIPTOR

    def setsockopt(self, *args: Any) -> None:
        self.check()

    def getsockopt(self, level: int, optname: int, buflen: int | None = None) -> Any:
        return int(self.is_listening) if (level, optname) == (kernel.SOL_SOCKET, kernel.SO_ACCEPTCONN) else 0

    def getsockname(self) -> tuple[str, int]:
        return self.address or (self.host.address, 0)

    def getpeername(self) -> tuple[str, int]:
        return self.peer or _fail(errno.ENOTCONN)

    @property
    def is_listening(self) -> bool:
        return self.backlog_max > 0 and not self.is_closed

    def check(self) -> None:
        """Raises OSError if the socket is closed, or if its process is dead."""
        if self._is_dead:
            _fail(errno.ECONNRESET)
        if self.is_closed:
            _fail(errno.EBADF)

    # Listening

    async def bind(self, address: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.check()
        port = address[1] or self.network.next_port()
        if (self.host.address, port) in self.network.listeners:
            _fail(errno.EADDRINUSE)
        self.address = (self.host.address, port)

    def listen(self, backlog: int = 128) -> None:
        self.check()
        assert self.address is not None, "bound"
        self.backlog_max = backlog
        self.network.listeners[self.address] = self

    async def accept(self) -> tuple["SimulatedSocket", Any]:
        await trio.lowlevel.checkpoint_if_cancelled()
        self.check()
        while not self.backlog:
            self._acceptor = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort_accept)
            self.check()
        accepted = self.backlog.popleft()
        await trio.lowlevel.cancel_shielded_checkpoint()
        return accepted, accepted.peer

    @property
    def is_full(self) -> bool:
        """True if the backlog has no room for another connection."""
        return len(self.backlog) >= self.backlog_max

    def admit(self, client: Endpoint) -> None:
        """Establish the connection that `client` requests, and add the server's end to the backlog."""
        accepted = SimulatedSocket(self.network, self.host, self._family, self._kind, self._proto)
        accepted.address, accepted.peer = self.address, client.address
        client.peer = self.address
        self.network.connect(client, accepted)
        self.backlog.append(accepted)
        self._wake_acceptor()

    def _wake_acceptor(self) -> None:
        task, self._acceptor = self._acceptor, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _abort_accept(self, _: object) -> trio.lowlevel.Abort:
        self._acceptor = None
        return trio.lowlevel.Abort.SUCCEEDED

    # Connecting and sending

    async def connect(self, address: Any) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        self.check()
        await Handshake(self.network, self, (address[0], address[1])).run()

    async def send(self, data: Any, flags: int = 0, /) -> int:
        await trio.lowlevel.checkpoint_if_cancelled()
        pipe = self.outgoing or _fail(errno.ENOTCONN)
        while True:
            self.check()
            if pipe.error is not None:
                _fail(pipe.error)
            if self._is_shut:
                _fail(errno.EPIPE)
            if pipe.free_bytes > 0:
                break
            await pipe.wait_writable()
        segment = bytes(memoryview(data)[: min(pipe.free_bytes, SEGMENT_BYTES)])
        pipe.free_bytes -= len(segment)
        self.network.send(pipe, segment)
        await trio.lowlevel.cancel_shielded_checkpoint()
        return len(segment)

    async def recv(self, buflen: int, flags: int = 0, /) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        pipe = self.incoming or _fail(errno.ENOTCONN)
        has_waited = False
        self.check()
        while not pipe.received and not pipe.fin_arrived:
            if pipe.error is not None:
                _fail(pipe.error)
            has_waited = True
            await pipe.wait_readable()
            self.check()
        data = bytes(pipe.received[:buflen])
        del pipe.received[:buflen]
        self.network.consumed(pipe, len(data))
        if not has_waited:
            await trio.lowlevel.cancel_shielded_checkpoint()
        return data

    def shutdown(self, flag: int) -> None:
        self.check()
        if flag in (kernel.SHUT_WR, kernel.SHUT_RDWR):
            self._send_fin()

    # Closing

    def close(self) -> None:
        if not self.is_closed:
            self.host.sockets.pop(self, None)
            self._close()

    def owner_died(self, *, silently: bool) -> None:
        """Close the socket of an ended process; `silently` after a power cut, without informing the peer."""
        self._is_dead = True
        if not self.is_closed:
            self._close(silently=silently)

    def _close(self, *, silently: bool = False) -> None:
        self.is_closed = True
        if self.backlog_max:
            assert self.address is not None, "bound"
            self.network.listeners.pop(self.address, None)
            for waiting in self.backlog:
                waiting.owner_died(silently=silently)
            self._wake_acceptor()
        if self.incoming is not None and self.outgoing is not None:
            if not silently and self.outgoing.error is None:
                if self.incoming.received:
                    self.network.send_reset(self.incoming)  # as Linux does if data is unread
                else:
                    self._send_fin()
            self.incoming.wake_reader()
            self.outgoing.wake_writer()

    def _send_fin(self) -> None:
        if not self._is_shut and self.outgoing is not None and self.outgoing.error is None:
            self._is_shut = True
            self.network.send(self.outgoing, None)


class SimulatedSocketFactory(trio.abc.SocketFactory):
    """Creates the sockets of the host on which the calling task runs. A process that has died gets none."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def socket(
        self, family: int = kernel.AF_INET, type: int = kernel.SOCK_STREAM, proto: int = 0
    ) -> trio.socket.SocketType:
        host = HOST.get()
        assert host is not None, "a socket is created on a simulated host"
        if not is_task_alive():
            _fail(errno.ENETDOWN)
        if family != kernel.AF_INET:
            _fail(errno.EAFNOSUPPORT)  # Trio continues without IPv6
        return SimulatedSocket(self._network, host, family, type, proto)


class SimulatedResolver(trio.abc.HostnameResolver):
    """Resolves the names of all hosts of the simulation; `localhost` is the calling host."""

    def __init__(self, hosts: Mapping[str, Host]) -> None:
        self._hosts = hosts

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        await trio.lowlevel.checkpoint()
        name = "localhost" if host is None else host.decode()
        found = HOST.get() if name == "localhost" else self._hosts.get(name)
        if found is None:
            raise kernel.gaierror(kernel.EAI_NONAME, f"no simulated host is called {name}")
        return [(kernel.AF_INET, kernel.SOCK_STREAM, kernel.IPPROTO_TCP, "", (found.address, int(port or 0)))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        await trio.lowlevel.checkpoint()
        return str(sockaddr[0]), str(sockaddr[1])
