"""Directed links: bytes from one machine to another can be held without affecting the opposite direction.

A connection that A opens to B goes through a proxy. Its bytes towards B pass the gate of (A, B), those back the gate of
(B, A). A closed gate thus holds all bytes from A to B, on connections that either of them opened. Held bytes arrive
when the gate opens, like TCP's retransmissions after a partition. Bytes are never dropped; connections may be.

Nodes have links to each other, clients to nodes.
"""

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final, TypeAlias

import attrs
import trio

# The sender and the receiver.
Pair: TypeAlias = tuple[str, str]

# The bytes that the proxy holds for a connection at a closed gate, besides the kernels' buffers.
_BYTES: Final = 65_536
# Closing with this sends a reset, as the kernel does for a process that was killed.
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
# Linux sends a segment again after this time at least, then after twice as long, and so on.
_RETRANSMISSION_SECONDS: Final = 0.2


@attrs.frozen
class LinkConditions:
    """The delay and the loss of bytes that pass a gate.

    Each piece of them, of 64 KiB at most, is under way for a time between the two `delays` in seconds, and the next
    waits for it. `loss` is the chance that it has to be sent again.
    """

    rng: Random
    delays: tuple[float, float] = (0.0, 0.0)
    loss: float = 0.0

    def seconds(self) -> float:
        seconds, again = self.rng.uniform(*self.delays), _RETRANSMISSION_SECONDS
        while self.rng.random() < self.loss:
            seconds += again
            again *= 2
        return seconds


class Gate:
    """One direction between two machines. It is open when everybody who shut it has opened it again."""

    def __init__(self) -> None:
        self.conditions: LinkConditions | None = None
        self._times_shut = 0
        self._opened = trio.Event()
        self._opened.set()

    def shut(self) -> None:
        if not self._times_shut:
            self._opened = trio.Event()
        self._times_shut += 1

    def open(self) -> None:
        self._times_shut = max(0, self._times_shut - 1)
        if not self._times_shut:
            self._opened.set()

    def open_for_all(self) -> None:
        self._times_shut = 0
        self._opened.set()

    async def passed(self) -> None:
        if self.conditions is not None:
            await trio.sleep(self.conditions.seconds())
        await self._opened.wait()


class Links:
    """All directed links among `addresses` (node name to where the node really is), and of clients with them.

    `seen_from(name)` has the addresses under which that node or client sees all nodes.
    """

    def __init__(self, addresses: Mapping[str, str], clients: Sequence[str] = ()) -> None:
        self._addresses = dict(addresses)
        self._names = [*addresses, *clients]
        to_nodes = [(here, there) for here in self._names for there in addresses if here != there]
        pairs = dict.fromkeys(each for here, there in to_nodes for each in ((here, there), (there, here)))
        self._gates = {pair: Gate() for pair in pairs}
        self._carried: dict[Pair, list[trio.CancelScope]] = {pair: [] for pair in to_nodes}

    @property
    def nodes(self) -> list[str]:
        return list(self._addresses)

    @property
    def pairs(self) -> list[Pair]:
        return list(self._gates)

    def seen_from(self, name: str) -> dict[str, str]:
        return {other: self._proxy_address(name, other) for other in self._addresses}

    def shut(self, pairs: Iterable[Pair]) -> None:
        """Hold the bytes from the first to the second of each pair."""
        for pair in pairs:
            self._gates[pair].shut()

    def open(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self._gates[pair].open()

    def change_conditions(self, pairs: Iterable[Pair], conditions: LinkConditions | None) -> None:
        for pair in pairs:
            self._gates[pair].conditions = conditions

    def open_all(self) -> None:
        """Open all gates, and remove delays and losses."""
        for gate in self._gates.values():
            gate.conditions = None
            gate.open_for_all()

    def reset(self, pairs: Iterable[Pair]) -> None:
        """Reset the connections that the first of each pair has opened to the second."""
        for pair in pairs:
            for scope in self._carried.get(pair, ()):
                scope.cancel()

    def towards(self, name: str) -> list[Pair]:
        """The pairs in which `name` receives."""
        return [pair for pair in self._gates if pair[1] == name]

    async def run(
        self, ports: Mapping[Pair, Iterable[int]], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Carry connections of each pair's first to these ports of its second, until cancelled."""
        async with trio.open_nursery() as nursery:
            for pair, its_ports in ports.items():
                for port in its_ports:
                    proxy = await trio.open_tcp_listeners(port, host=self._proxy_address(*pair))
                    nursery.start_soon(trio.serve_listeners, _Proxy(self, pair, port).serve, proxy)
            task_status.started()

    def _proxy_address(self, here: str, there: str) -> str:
        if here == there:
            return self._addresses[there]
        return f"127.1.{self._names.index(here) + 1}.{self._names.index(there) + 1}"

    def gate(self, here: str, there: str) -> Gate:
        return self._gates[here, there]

    def address(self, name: str) -> str:
        return self._addresses[name]

    @contextmanager
    def carrying(self, pair: Pair) -> Iterator[trio.CancelScope]:
        """While a connection of the pair is carried, which `reset` cancels."""
        with trio.CancelScope() as scope:
            self._carried[pair].append(scope)
            try:
                yield scope
            finally:
                self._carried[pair].remove(scope)


class _Proxy:
    """Connections that the first of a pair opens to one port of the second."""

    def __init__(self, links: Links, pair: Pair, port: int) -> None:
        self._links = links
        self._pair, self._port = pair, port

    async def serve(self, near: trio.SocketStream) -> None:
        here, there = self._pair
        forth, back = self._links.gate(here, there), self._links.gate(there, here)
        await forth.passed()
        try:
            far = await trio.open_tcp_stream(self._links.address(there), self._port)
        except OSError:
            await back.passed()
            await _reset(near)
            return
        async with far:
            with self._links.carrying(self._pair) as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_carry, near, far, forth)
                    nursery.start_soon(_carry, far, near, back)
            if scope.cancelled_caught:
                await _reset(near)
                await _reset(far)


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
