"""A socket of the kernel whose bytes pass through the faults of its link."""

import errno
import os
import socket as kernel
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn, Protocol

import trio

from jepsen.testing.links.active_link import ActiveLink, Effect
from jepsen.testing.links.flow import End, Flow

_CLOSED_DESCRIPTOR: Final = -1
# Neither -1, which means closed, nor a descriptor: `kraft.env.kernel_socket` leaves such a socket to Trio.
_NO_DESCRIPTOR: Final = -2
_RECEIVED_AT_ONCE: Final = 64 * 1024
# Closing with this sends a reset.
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class SocketLinks(Protocol):
    """The links of the node that has the socket."""

    nursery: trio.Nursery

    async def may_connect(self, sock: "LinkSocket", address: Any) -> None: ...

    def opened(self, sock: "LinkSocket") -> None: ...

    def closed(self, sock: "LinkSocket") -> None: ...

    def fired(self, sock: "LinkSocket", active: ActiveLink, effect: Effect) -> None: ...


class LinkSocket(trio.socket.SocketType):
    """`peer` is the node to which it connects, `client_id` that of the client whose connection was accepted.

    They are None for other sockets. Its owner may take it for connected, or have lost or closed it, while the
    kernel's socket is in another state.
    """

    def __init__(self, inner: trio.socket.SocketType, links: SocketLinks) -> None:
        super().__init__()
        self.peer: int | None = None
        self.client_id: str | None = None
        self.address: tuple[str, int] = ("", 0)
        self._inner = inner
        self._links = links
        self._is_closed = self._is_shut = False
        self._error: int | None = None
        # One side of the connection is lost, and the other does not know: the owner's side, or the other one.
        self._is_lost_here = self._is_lost_there = False
        self._inbound = self._flow(is_inbound=True)
        self._outbound = self._flow(is_inbound=False)

    def _flow(self, *, is_inbound: bool) -> Flow:
        def fired(active: ActiveLink, effect: Effect) -> None:
            self._links.fired(self, active, effect)

        def reset(active: ActiveLink) -> None:
            active.count_reset()
            self.reset()

        return Flow(is_inbound=is_inbound, when_fired=fired, when_reset=reset)

    # Attributes of the kernel's socket

    @property
    def family(self) -> kernel.AddressFamily:
        return self._inner.family

    @property
    def type(self) -> kernel.SocketKind:
        return self._inner.type

    @property
    def proto(self) -> int:
        return self._inner.proto

    @property
    def did_shutdown_SHUT_WR(self) -> bool:  # noqa: N802 - Trio's name
        return self._is_shut

    def fileno(self) -> int:
        return _CLOSED_DESCRIPTOR if self._is_closed else _NO_DESCRIPTOR

    def setsockopt(self, *arguments: Any) -> None:
        """Set an option. It has no effect after a reset: the kernel takes options until the owner has closed."""
        if self._is_closed:
            _fail(errno.EBADF)
        if self._inner.fileno() != _CLOSED_DESCRIPTOR:
            self._inner.setsockopt(*arguments)

    def getsockopt(self, *arguments: Any) -> Any:
        return self._inner.getsockopt(*arguments)

    def getsockname(self) -> Any:
        return self._inner.getsockname()

    def getpeername(self) -> Any:
        return self.address if self.address[1] else self._inner.getpeername()

    # Opening

    async def bind(self, address: Any) -> None:
        await self._inner.bind(address)

    def listen(self, backlog: int = 128) -> None:
        self._inner.listen(backlog)

    async def accept(self) -> tuple[trio.socket.SocketType, Any]:
        """An accepted connection has the kernel's socket, which `NodeLinks` replaces when a fault concerns it."""
        return await self._inner.accept()

    async def connect(self, address: Any) -> None:
        await self._links.may_connect(self, address)
        await self._inner.connect(address)
        self.address = address[:2]
        self._links.opened(self)

    # Faults

    def begin(self, active: ActiveLink, *, inbound: bool, outbound: bool) -> None:
        """Put a fault in force, for what this node receives, for what it sends, or for both."""
        if self._error is not None or self._is_lost_there or not (inbound or outbound):
            return
        if active.conditions.half_open:
            self._links.fired(self, active, Effect.HALF_OPEN)
            if outbound:  # the receiver is the other side
                self._is_lost_there = True
                self._clear()
                self._reset_kernel()
            else:
                self._is_lost_here = True
                self._fail(errno.ECONNRESET)
            return
        for flow, is_concerned, pump in (
            (self._inbound, inbound, self._pump_in),
            (self._outbound, outbound, self._pump_out),
        ):
            if is_concerned:
                flow.begin(active)
                if not flow.is_pumped:
                    flow.is_pumped = True
                    flow.pump = trio.CancelScope()
                    self._links.nursery.start_soon(_run_pump, flow, pump)

    def end(self, active: ActiveLink) -> None:
        """End a fault. Bytes that it has held arrive. A connection that has lost bytes or a side of it is reset."""
        is_broken = active.conditions.black_hole and (self._inbound.has_lost or self._outbound.has_lost)
        self._inbound.end(active)
        self._outbound.end(active)
        if is_broken or (active.conditions.half_open and (self._is_lost_here or self._is_lost_there)):
            self.reset()

    def reset(self) -> None:
        """Reset the connection for both sides."""
        self._is_lost_here = self._is_lost_there = False
        self._fail(errno.ECONNRESET)
        self._reset_kernel()

    def _fail(self, error: int) -> None:
        """Make all calls of the owner fail."""
        self._error = error
        self._clear()

    def _clear(self) -> None:
        self._inbound.clear()
        self._outbound.clear()

    def _reset_kernel(self) -> None:
        if self._inner.fileno() != _CLOSED_DESCRIPTOR:
            self._inner.setsockopt(kernel.SOL_SOCKET, kernel.SO_LINGER, _RESET_ON_CLOSE)
            self._inner.close()
        if self._is_closed:
            self._links.closed(self)

    async def _pump_in(self) -> None:
        flow = self._inbound
        while flow.has_faults:
            item: bytes | OSError | None = None
            try:
                with trio.CancelScope() as flow.direct:
                    # A fault that begins or ends interrupts it, so that the loop looks again.
                    item = await self._inner.recv(_RECEIVED_AT_ONCE)
            except OSError as error:
                item = error
            finally:
                flow.direct = None
            if isinstance(item, bytes) and item:
                await flow.put(item, _unchecked)
            elif item is not None:
                flow.put_soon(End.SHUT if item == b"" else item)
                return

    async def _pump_out(self) -> None:
        flow = self._outbound
        while (item := await flow.take(_RECEIVED_AT_ONCE, _unchecked)) is not None:
            try:
                if isinstance(item, bytes):
                    while item:
                        item = item[await self._inner.send(item) :]
                elif item is End.SHUT:
                    self._inner.shutdown(kernel.SHUT_WR)
                else:
                    self._clear()
                    self._inner.close()
                    self._links.closed(self)
                    return
            except OSError as error:
                self._fail(error.errno or errno.ECONNRESET)
                return

    # The owner's calls

    async def recv(self, buflen: int, flags: int = 0, /) -> bytes:
        flow = self._inbound
        while True:
            self._check()
            if self._is_lost_there:
                await flow.changed()
            elif flow.is_direct:
                with trio.CancelScope() as scope:
                    flow.direct = scope
                    try:
                        return await self._inner.recv(buflen)
                    finally:
                        flow.direct = None
            else:
                item = await flow.take(buflen, self._check)
                if item is None:
                    continue
                await trio.lowlevel.cancel_shielded_checkpoint()
                if isinstance(item, OSError):
                    self._fail(item.errno or errno.ECONNRESET)
                    raise item
                return b"" if isinstance(item, End) else item

    async def send(self, data: Any, flags: int = 0, /) -> int:
        flow = self._outbound
        while True:
            self._check()
            if self._is_shut:
                _fail(errno.EPIPE)
            if self._is_lost_there:
                await trio.lowlevel.checkpoint()
                return len(memoryview(data))
            if flow.is_direct:
                with trio.CancelScope() as scope:
                    flow.direct = scope
                    try:
                        return await self._inner.send(data)
                    finally:
                        flow.direct = None
            else:
                # The bytes are put on their way before any other task runs. Otherwise the last fault could end first,
                # and with it the task that carries them: they would stay here until the next fault.
                await trio.lowlevel.checkpoint_if_cancelled()
                piece = bytes(memoryview(data)[:_RECEIVED_AT_ONCE])
                await flow.put(piece, self._check)
                await trio.lowlevel.cancel_shielded_checkpoint()
                return len(piece)

    async def wait_writable(self) -> None:
        if self._outbound.is_direct:
            await self._inner.wait_writable()
        else:
            await trio.lowlevel.checkpoint()

    def shutdown(self, flag: int) -> None:
        self._check()
        if flag == kernel.SHUT_RD:
            return
        self._is_shut = True
        if not self._is_lost_there:
            if self._outbound.is_direct:
                self._inner.shutdown(kernel.SHUT_WR)
            else:
                self._outbound.put_soon(End.SHUT)

    def close(self) -> None:
        """Close it for its owner. The kernel's socket is closed when all that was sent has arrived."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._error is None and not (self._outbound.is_direct or self._is_lost_there):
            self._outbound.put_soon(End.CLOSED)
            self._inbound.interrupt()
            self._outbound.notify()
            return
        self._clear()
        if not self._is_lost_here:
            self._inner.close()
        if not (self._is_lost_here or self._is_lost_there):
            self._links.closed(self)

    def _check(self) -> None:
        if self._is_closed:
            _fail(errno.EBADF)
        if self._error is not None:
            _fail(self._error)


async def _run_pump(flow: Flow, pump: Callable[[], Awaitable[None]]) -> None:
    try:
        with flow.pump:
            await pump()
    finally:
        flow.is_pumped = False
        flow.notify()


def _unchecked() -> None:
    """The tasks that carry bytes are cancelled rather than refused."""


def _fail(code: int) -> NoReturn:
    raise OSError(code, os.strerror(code))
