"""Directed links between nodes: what flows from one to another can be held up without touching the way back.

A connection that A opens to B goes through a proxy. Its bytes towards B pass the gate of (A, B), those back the gate of
(B, A); so a gate that is shut holds up everything that A has to say to B, whoever opened the connection. Held-up bytes
arrive once the gate opens, as TCP's retransmissions do after a partition; what is dropped instead is a connection.
"""

import socket
import struct
from collections.abc import Iterable, Mapping

import trio

# What the proxy holds of a connection while a gate is shut, besides what kernels hold.
_BYTES = 65_536
# Closing with this sends a reset, as the kernel does for a process that was killed.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Gate:
    """One direction between two nodes."""

    def __init__(self) -> None:
        self._opened = trio.Event()
        self._opened.set()

    def shut(self) -> None:
        if self._opened.is_set():
            self._opened = trio.Event()

    def open(self) -> None:
        self._opened.set()

    async def passed(self) -> None:
        await self._opened.wait()


class Links:
    """All directed links among `addresses` (node name to where the node really is).

    `seen_from(name)` has the addresses under which that node sees everybody.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = dict(addresses)
        self._gates = {(here, there): Gate() for here in addresses for there in addresses if here != there}

    def seen_from(self, name: str) -> dict[str, str]:
        return {other: self._proxy_address(name, other) for other in self._addresses}

    def shut(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Hold up what each first has to say to the second."""
        for pair in pairs:
            self._gates[pair].shut()

    def open_all(self) -> None:
        for gate in self._gates.values():
            gate.open()

    def towards(self, name: str) -> list[tuple[str, str]]:
        """The pairs in which `name` receives."""
        return [pair for pair in self._gates if pair[1] == name]

    async def run(
        self, ports: Mapping[str, Iterable[int]], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Carry connections to these ports of each node, until cancelled."""
        async with trio.open_nursery() as nursery:
            for here, there in self._gates:
                for port in ports[there]:
                    proxy = await trio.open_tcp_listeners(port, host=self._proxy_address(here, there))
                    nursery.start_soon(trio.serve_listeners, _Proxy(self, here, there, port).serve, proxy)
            task_status.started()

    def _proxy_address(self, here: str, there: str) -> str:
        if here == there:
            return self._addresses[there]
        names = list(self._addresses)
        return f"127.1.{names.index(here) + 1}.{names.index(there) + 1}"

    def gate(self, here: str, there: str) -> Gate:
        return self._gates[here, there]

    def address(self, name: str) -> str:
        return self._addresses[name]


class _Proxy:
    """Connections that `here` opens to one port of `there`."""

    def __init__(self, links: Links, here: str, there: str, port: int) -> None:
        self._links = links
        self._here, self._there, self._port = here, there, port

    async def serve(self, near: trio.SocketStream) -> None:
        there, back = self._links.gate(self._here, self._there), self._links.gate(self._there, self._here)
        await there.passed()
        try:
            far = await trio.open_tcp_stream(self._links.address(self._there), self._port)
        except OSError:
            await back.passed()
            await _reset(near)
            return
        async with far, trio.open_nursery() as nursery:
            nursery.start_soon(_carry, near, far, there)
            nursery.start_soon(_carry, far, near, back)


async def _carry(source: trio.SocketStream, target: trio.SocketStream, gate: Gate) -> None:
    """Bytes, the end of them, and resets."""
    try:
        while data := await source.receive_some(_BYTES):
            await gate.passed()
            await target.send_all(data)
        await gate.passed()
        await target.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await gate.passed()
        await _reset(target)


async def _reset(stream: trio.SocketStream) -> None:
    if stream.socket.fileno() != -1:
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        await trio.aclose_forcefully(stream)
