"""Decides which new connections a node serves: how many there may be, and how many per second (KIP-402, KIP-612).

A listener that is full, or that accepts connections faster than it may, waits before it accepts the next one. The
kernel's queue holds the others. An address that connects faster than it may is the only one that is refused for that,
so that the listener serves others meanwhile.

The listener of the brokers, if clients do not use it, has priority: neither the number nor the rate of all connections
limits it. The listeners of controllers are counted by themselves, and rates do not limit them, because a cluster whose
controllers do not reach each other ends.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

import attrs
import trio

INT_MAX: Final = 2**31 - 1


@attrs.frozen
class ConnectionLimits:
    """`socket.request.max.bytes`, `max.connections` of the node and by listener, `max.connections.per.ip` and its
    overrides by address, `connections.max.idle.ms`, `socket.send.buffer.bytes`, and the descriptors below which
    connections of clients and those of peers stay.

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
    listener_connections_max: Mapping[str, int] = attrs.field(factory=dict)
    connections_per_ip_overrides: Mapping[str, int] = attrs.field(factory=dict)


class ListenerKind(Enum):
    """The kind of client that connects to a listener."""

    CLIENTS = "clients"
    BROKERS = "brokers"
    CONTROLLERS = "controllers"


class ConnectionRates(Protocol):
    """Measures how many connections per second are made, and limits that."""

    def record(self, listener: str, *, is_limited_by_node: bool) -> int:
        """Count a connection. Returns for how many ms the listener has to wait before it serves it."""
        ...

    def record_address(self, listener: str, address: str, *, is_limited_by_node: bool) -> int:
        """Count a connection of an address. If this is not 0, it is refused, and not counted after all.

        Returns for how many ms the address has to pause.
        """
        ...


class UnlimitedRates:
    """Neither measures nor limits rates."""

    def record(self, listener: str, *, is_limited_by_node: bool) -> int:
        return 0

    def record_address(self, listener: str, address: str, *, is_limited_by_node: bool) -> int:
        return 0


class Admission:
    """Counts the connections of a node by listener and address, and has listeners wait for free places."""

    def __init__(self, limits: ConnectionLimits, rates: ConnectionRates) -> None:
        self.limits = limits
        self._rates = rates
        self._kinds: dict[str, ListenerKind] = {}
        self._per_address: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._waiting = trio.lowlevel.ParkingLot()

    @property
    def count(self) -> int:
        """The number of open connections."""
        return sum(self._per_listener.values())

    @property
    def per_listener(self) -> Mapping[str, int]:
        """The number of open connections by listener."""
        return self._per_listener

    def add_listener(self, name: str, kind: ListenerKind) -> None:
        self._kinds[name] = kind

    def limit(self, limits: ConnectionLimits) -> None:
        """Apply other limits to new connections; open ones stay."""
        self.limits = limits
        self._waiting.unpark_all()

    async def wait_for_place(self, listener: str) -> None:
        """Wait until the listener may serve another connection."""
        kind = self._kinds[listener]
        if kind is not ListenerKind.CONTROLLERS:
            pause_ms = self._rates.record(listener, is_limited_by_node=kind is ListenerKind.CLIENTS)
            if pause_ms > 0:
                await trio.sleep(pause_ms / 1000)
        while not self._has_place(listener):
            await self._waiting.park()

    def address_pause_ms(self, listener: str, address: str) -> int:
        """For how many ms the address has to pause; its new connection is refused if this is not 0."""
        kind = self._kinds[listener]
        if kind is ListenerKind.CONTROLLERS:
            return 0
        return self._rates.record_address(listener, address, is_limited_by_node=kind is ListenerKind.CLIENTS)

    def reason_to_refuse(self, descriptor: int, listener: str) -> str | None:
        """The reason to close a new connection at once: its descriptor is reserved for the node's own files."""
        limits = self.limits
        is_client = self._kinds[listener] is ListenerKind.CLIENTS
        if descriptor < (limits.client_descriptors_max if is_client else limits.peer_descriptors_max):
            return None
        return (
            f"{self.count} connections and the open files have taken all descriptors but those in reserve for the "
            "node's own files. Raise the limit of descriptors (ulimit -n)"
        )

    def add(self, listener: str, address: str) -> str | None:
        """Count a new connection. Returns the reason if the address has too many; it is not counted then."""
        count = self._per_address[address]
        limits = self.limits
        if count >= limits.connections_per_ip_overrides.get(address, limits.connections_per_ip_max):
            if not count:
                del self._per_address[address]
            return f"{count} connections come from there, as many as max.connections.per.ip allows"
        self._per_address[address] += 1
        self._per_listener[listener] += 1
        return None

    def remove(self, listener: str, address: str) -> None:
        """Forget a connection that was closed."""
        self._per_listener[listener] -= 1
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
        self._waiting.unpark_all()

    @property
    def has_too_many(self) -> bool:
        """True if brokers have taken places of clients, which have to be closed."""
        return self._broker_count > self.limits.connections_max

    def is_for_clients(self, listener: str) -> bool:
        return self._kinds[listener] is ListenerKind.CLIENTS

    @property
    def _broker_count(self) -> int:
        kinds = self._kinds
        return sum(count for name, count in self._per_listener.items() if kinds[name] is not ListenerKind.CONTROLLERS)

    def _has_place(self, listener: str) -> bool:
        limits, count = self.limits, self._per_listener[listener]
        if count >= limits.listener_connections_max.get(listener, INT_MAX):
            return False
        match self._kinds[listener]:
            case ListenerKind.BROKERS:
                return True
            case ListenerKind.CONTROLLERS:
                return self.count - self._broker_count < limits.connections_max
            case ListenerKind.CLIENTS:
                return self._broker_count < limits.connections_max
