"""Carries segments: they are sent, held by faults, delivered, or answered with a reset."""

import errno
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from jepsen.simulation.clock import VirtualClock
from jepsen.simulation.hosts import Host
from jepsen.simulation.network.links import RETRANSMISSION_SECONDS, Links
from jepsen.simulation.network.pipe import Endpoint, Pipe

# The time for which unacknowledged data is retransmitted, before the kernel gives up with ETIMEDOUT. Linux's default of
# 15 minutes would only make simulations longer.
GIVE_UP_SECONDS = 30.0
# How often a sender retries while the receiver has no power.
POWER_RETRY_SECONDS = 1.0
FIRST_EPHEMERAL_PORT = 40_000


class Listener(Protocol):
    """A listening socket."""

    @property
    def is_full(self) -> bool:
        """True if the backlog has no room for another connection."""
        ...

    def admit(self, client: Endpoint) -> None:
        """Establish the connection that `client` requests, and add the server's end to the backlog."""
        ...


class Network:
    """All connections between hosts. A nemesis changes `links`; `heal` lets the held segments arrive."""

    def __init__(self, clock: VirtualClock, rng: Random, hosts: Mapping[str, Host], note: Callable[..., None]) -> None:
        self.clock = clock
        self.links = Links(rng)
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.segments_sent = 0
        self.bytes_sent = 0
        self._rng = rng
        self._hosts = hosts  # by address
        self._note = note
        self._pipes: dict[Pipe, None] = {}
        self._port = FIRST_EPHEMERAL_PORT
        self._serial = 0

    def host_at(self, address: str) -> Host | None:
        return self._hosts.get(address)

    def next_port(self) -> int:
        self._port += 1
        return self._port

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def delay(self, source: Host, target: Host) -> float:
        return self.links.delay(source.name, target.name)

    def is_cut(self, source: Host, target: Host) -> bool:
        """True if segments from `source` cannot reach `target` at present."""
        return not target.is_powered or self.links.is_blocked(source.name, target.name)

    def heal(self) -> None:
        """Repair all links. Held segments arrive with the next retransmissions."""
        self.links.heal()
        for pipe in list(self._pipes):
            self._resume(pipe)

    def mend(self, source: str, target: str) -> None:
        """Repair the link from `source` to `target`."""
        self.links.mend(source, target)
        for pipe in list(self._pipes):
            if {pipe.sender.name, pipe.receiver.name} == {source, target}:
                self._resume(pipe)

    def reset_between(self, one: Host, other: Host) -> None:
        """Break all connections between two hosts, as a middlebox that has lost their state does."""
        for pipe in list(self._pipes):
            if {pipe.sender, pipe.receiver} == {one, other}:
                self._kill(pipe, errno.ECONNRESET)

    def connect(self, one: Endpoint, other: Endpoint) -> None:
        """Connect two sockets by a pipe for each direction."""
        there, back = Pipe(one, other), Pipe(other, one)
        one.outgoing, one.incoming = there, back
        other.outgoing, other.incoming = back, there
        self._pipes[there] = self._pipes[back] = None

    def send(self, pipe: Pipe, segment: bytes | None) -> None:
        """Send a segment; None is the FIN. The segments of a pipe arrive in order."""
        arrival = self.clock.now + self.links.delay(pipe.sender.name, pipe.receiver.name)
        if arrival > pipe.last_arrival:
            pipe.last_arrival = arrival
        self.segments_sent += 1
        if segment is not None:
            self.bytes_sent += len(segment)
        self.clock.at(pipe.last_arrival, self._arrive, pipe, segment)

    def credit(self, pipe: Pipe, count: int) -> None:
        """Let the sender send `count` more bytes, because the receiver has read as many."""
        pipe.free_bytes += count
        if pipe.free_bytes > 0:
            pipe.wake_writer()

    def consumed(self, pipe: Pipe, count: int) -> None:
        """The receiver has read `count` bytes. They are acknowledged once the link back to the sender is open."""
        confirmed = count - pipe.unconfirmed_bytes if pipe.unconfirmed_bytes else count
        if confirmed > 0:
            self.credit(pipe, confirmed)

    def send_reset(self, pipe: Pipe) -> None:
        """Reset the connection: both directions break at the sender."""
        self.clock.after(self.delay(pipe.receiver, pipe.sender), self._reset_arrives, pipe)

    def forget(self, pipe: Pipe) -> None:
        """Stop tracking a pipe that is broken or closed at both ends."""
        self._pipes.pop(pipe, None)

    def _resume(self, pipe: Pipe) -> None:
        """Retransmit the held segments, and acknowledge the arrived ones if the link back is open."""
        if pipe.held:
            self.clock.after(self._rng.uniform(0, 4 * RETRANSMISSION_SECONDS), self._release, pipe)
        if pipe.unconfirmed_bytes and not self.is_cut(pipe.receiver, pipe.sender):
            count, pipe.unconfirmed_bytes = pipe.unconfirmed_bytes, 0
            self.clock.after(self.delay(pipe.receiver, pipe.sender), self.credit, pipe, count)

    def _arrive(self, pipe: Pipe, segment: bytes | None) -> None:
        if pipe.error is not None:
            return
        if not pipe.held:
            if not self.is_cut(pipe.sender, pipe.receiver):
                self._deliver(pipe, segment)
                return
            pipe.held_since = self.clock.now
            self.clock.after(GIVE_UP_SECONDS, self._give_up, pipe, pipe.held_since)
            self._retry_after_power_on(pipe)
        pipe.held.append(segment)

    def _retry_after_power_on(self, pipe: Pipe) -> None:
        if not pipe.receiver.is_powered:
            self.clock.after(POWER_RETRY_SECONDS, self._release, pipe)

    def _release(self, pipe: Pipe) -> None:
        if pipe.error is not None or not pipe.held:
            return
        if self.is_cut(pipe.sender, pipe.receiver):
            self._retry_after_power_on(pipe)
            return
        segments, pipe.held = pipe.held, deque()
        for segment in segments:
            self._deliver(pipe, segment)

    def _give_up(self, pipe: Pipe, held_since: float) -> None:
        if pipe.held and pipe.held_since == held_since:
            self._kill(pipe, errno.ETIMEDOUT)

    def _deliver(self, pipe: Pipe, segment: bytes | None) -> None:
        if pipe.error is not None:
            return
        if pipe.sink.is_closed:
            if segment is not None:
                self.send_reset(pipe)
            return
        if segment is None:
            pipe.fin_arrived = True
        else:
            pipe.received += segment
            if self.is_cut(pipe.receiver, pipe.sender):
                pipe.unconfirmed_bytes += len(segment)
        self._note("segment", pipe.sender.name, pipe.receiver.name, zlib.crc32(segment or b""))
        pipe.wake_reader()

    def _reset_arrives(self, pipe: Pipe) -> None:
        if not self.is_cut(pipe.receiver, pipe.sender):
            self._kill(pipe, errno.ECONNRESET)
            if pipe.source.incoming is not None:
                self._kill(pipe.source.incoming, errno.ECONNRESET)

    def _kill(self, pipe: Pipe, error: int) -> None:
        if pipe.error is None:
            pipe.error = error
            self.forget(pipe)
            pipe.wake_reader()
            pipe.wake_writer()
