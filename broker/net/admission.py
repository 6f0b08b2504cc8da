"""Decides which new connections a node serves: how many there may be, and how many per second (KIP-402, KIP-612).

The limits are those of listeners for clients. Two kinds of listeners have none, because a cluster whose nodes do not
reach each other ends: that of the controllers, and that of the brokers if clients do not use it. A new connection of a
client beyond the limits is in reserve, see `broker.net.reserve`.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

import attrs

from kraft import lazy_attrs

INT_MAX: Final = 2**31 - 1


@lazy_attrs.frozen
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


class RateExcess(NamedTuple):
    """A connection exceeds a rate: that of its address, or that of the listener or the node. In `pause_ms` it does not,
    if no other is made."""

    pause_ms: int
    is_of_address: bool


class Excess(NamedTuple):
    """The limit that a connection exceeds, as text, and the rate if it is one."""

    reason: str
    rate: RateExcess | None = None


class ConnectionRates(Protocol):
    """Measures how many connections per second are made, and limits that."""

    def count(self, listener: str) -> None:
        """Count a connection that is not limited."""
        ...

    def admit(self, listener: str, address: str) -> RateExcess | None:
        """Count a connection of a client, unless it exceeds a rate."""
        ...


class UnlimitedRates:
    """Neither measures nor limits rates."""

    def count(self, listener: str) -> None:
        pass

    def admit(self, listener: str, address: str) -> RateExcess | None:
        return None


class Admission:
    """Counts the connections of a node by listener and address, those in reserve apart."""

    def __init__(self, limits: ConnectionLimits, rates: ConnectionRates) -> None:
        self.limits = limits
        self._rates = rates
        self._kinds: dict[str, ListenerKind] = {}
        self._per_address: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()

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

    def is_for_clients(self, listener: str) -> bool:
        return self._kinds[listener] is ListenerKind.CLIENTS

    def reason_to_refuse(self, descriptor: int, listener: str) -> str | None:
        """The reason to close a new connection at once: its descriptor is reserved for the node's own files."""
        limits = self.limits
        is_client = self.is_for_clients(listener)
        if descriptor < (limits.client_descriptors_max if is_client else limits.peer_descriptors_max):
            return None
        return (
            f"{self.count} connections and the open files have taken all descriptors but those in reserve for the "
            "node's own files. Raise the limit of descriptors (ulimit -n)"
        )

    def admit(self, listener: str, address: str) -> Excess | None:
        """Count a connection, unless it exceeds a limit."""
        if not self.is_for_clients(listener):
            if self._kinds[listener] is ListenerKind.BROKERS:
                self._rates.count(listener)
            self.count_unlimited(listener, address)
            return None
        reason = self._exceeded(listener, address)
        if reason is not None:
            return Excess(reason)
        rate = self._rates.admit(listener, address)
        if rate is not None:
            name = "connection_creation_rate" if rate.is_of_address else "max.connection.creation.rate"
            return Excess(f"connections are made more often than {name} allows", rate)
        self.count_unlimited(listener, address)
        return None

    def count_unlimited(self, listener: str, address: str) -> None:
        """Count a connection that may exceed the limits: it is a broker's or a controller's."""
        if self.is_for_clients(listener):
            self._per_address[address] += 1
        self._per_listener[listener] += 1

    def remove(self, listener: str, address: str) -> None:
        """Forget a connection that was closed."""
        self._per_listener[listener] -= 1
        if self.is_for_clients(listener):
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    @property
    def has_too_many(self) -> bool:
        """True if brokers have taken places of clients, which have to be closed."""
        return self._broker_count > self.limits.connections_max

    @property
    def _broker_count(self) -> int:
        kinds = self._kinds
        return sum(count for name, count in self._per_listener.items() if kinds[name] is not ListenerKind.CONTROLLERS)

    def _exceeded(self, listener: str, address: str) -> str | None:
        limits, count = self.limits, self._per_listener[listener]
        if count >= limits.listener_connections_max.get(listener, INT_MAX):
            return f"the listener has {count} connections, as many as its max.connections allows"
        if self._broker_count >= limits.connections_max:
            return f"there are {self._broker_count} connections, as many as max.connections allows"
        count = self._per_address.get(address, 0)
        if count >= limits.connections_per_ip_overrides.get(address, limits.connections_per_ip_max):
            return f"{count} connections come from there, as many as max.connections.per.ip allows"
        return None
