"""The owners of a group's partitions over time, and the records that were read, as reported by the members.

Members report an assignment after it and a revocation before it, so two owners of a partition in this history were
really owners at the same time. Each event has its time on the machine's monotonic clock, because members may be
processes whose events arrive late. Violations are determined when all events have arrived.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

# A partition: the name of its topic, and its index.
Partition: TypeAlias = tuple[str, int]


class Event(NamedTuple):
    """An event of a member. `kind` is gained, revoked (the member was asked to give up), lost (the member learned that
    its partitions were taken away), gone (the member owns nothing any more), read or committed. `offset` is that of the
    record read, or the newly committed offset.
    """

    at: float
    name: str
    kind: str
    partitions: tuple[Partition, ...]
    offset: int = -1


class GroupHistory:
    """The events, reported by any thread, and the present owners according to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events: list[Event] = []
        self.owners: dict[Partition, str] = {}
        self.read: Counter[tuple[Partition, int]] = Counter()

    def gained(self, name: str, partitions: Iterable[Partition]) -> None:
        self.tell(Event(time.monotonic(), name, "gained", tuple(partitions)))

    def revoked(self, name: str, partitions: Iterable[Partition]) -> None:
        self.tell(Event(time.monotonic(), name, "revoked", tuple(partitions)))

    def lost(self, name: str, partitions: Iterable[Partition]) -> None:
        self.tell(Event(time.monotonic(), name, "lost", tuple(partitions)))

    def gone(self, name: str) -> None:
        self.tell(Event(time.monotonic(), name, "gone", ()))

    def took(self, name: str, partition: Partition, offset: int) -> None:
        self.tell(Event(time.monotonic(), name, "read", (partition,), offset))

    def committed(self, name: str, partition: Partition, offset: int) -> None:
        """Record that a commit of the member was acknowledged."""
        self.tell(Event(time.monotonic(), name, "committed", (partition,), offset))

    def tell(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
            if event.kind == "gained":
                self.owners |= dict.fromkeys(event.partitions, event.name)
            elif event.kind == "read":
                self.read[event.partitions[0], event.offset] += 1
            elif event.kind != "committed":
                for partition in tuple(self.owners) if event.kind == "gone" else event.partitions:
                    if self.owners.get(partition) == event.name:
                        del self.owners[partition]

    def shares(self) -> Counter[str]:
        """The number of partitions of each member."""
        with self._lock:
            return Counter(self.owners.values())

    @property
    def twice(self) -> int:
        """The number of records that were read more than once."""
        return sum(count > 1 for count in self.read.values())

    @property
    def losers(self) -> list[str]:
        """The members that were removed although they were alive."""
        return [event.name for event in self.events if event.kind == "lost" and event.partitions]

    def problems(self) -> list[str]:
        """All violations of what a group guarantees, in the order of time."""
        with self._lock:
            events = sorted(self.events, key=lambda event: event.at)
        began = events[0].at if events else 0.0
        judge = _Judge()
        for event in events:
            judge.see(event)
        return [f"{event.at - began:.3f}: {problem}" for event, problem in judge.problems]


class _Ownership:
    """`position` is the next offset to read, unknown before the first read. `floor` is the acknowledged committed
    offset at the start. `successors` are the events in which others were assigned the partition meanwhile.
    """

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.position: int | None = None
        self.successors: list[Event] = []


class _Judge:
    """`_next` is the offset after all records of a partition that the group has read, `_floor` the acknowledged
    committed offset.
    """

    def __init__(self) -> None:
        self.problems: list[tuple[Event, str]] = []
        self._owned: dict[Partition, dict[str, _Ownership]] = {}
        self._next: Counter[Partition] = Counter()
        self._floor: Counter[Partition] = Counter()

    def see(self, event: Event) -> None:
        partitions = event.partitions
        if event.kind == "gone":
            partitions = tuple(each for each, owners in self._owned.items() if event.name in owners)
        for partition in partitions:
            getattr(self, f"_{event.kind}")(event, partition)

    def _gained(self, event: Event, partition: Partition) -> None:
        owners = self._owned.setdefault(partition, {})
        if event.name in owners:
            self._say(event, f"{event.name} was given {partition}, which it has already")
        for owner in owners.values():
            owner.successors.append(event)
        owners[event.name] = _Ownership(self._floor[partition])

    def _revoked(self, event: Event, partition: Partition) -> None:
        ended = self._owned.get(partition, {}).pop(event.name, None)
        if ended is None:
            return self._say(event, f"{event.name} gave up {partition}, which it does not have")
        for successor in ended.successors:
            self._say(successor, f"{successor.name} was given {partition}, which {event.name} had")
        return None

    _gone = _revoked

    def _lost(self, event: Event, partition: Partition) -> None:
        """End an ownership that the member has lost. Other members may have owned the partition before it noticed."""
        self._owned.get(partition, {}).pop(event.name, None)

    def _read(self, event: Event, partition: Partition) -> None:
        owner = self._owned.get(partition, {}).get(event.name)
        if owner is None:
            return self._say(event, f"{event.name} read {partition} at {event.offset}, and does not have it")
        expected, known = owner.position, self._next[partition]
        owner.position = event.offset + 1
        self._next[partition] = max(known, event.offset + 1)
        if expected is not None:
            if event.offset != expected:
                self._say(event, f"{event.name} went on with {partition} at {event.offset}, not at {expected}")
        elif event.offset > known:
            self._say(event, f"{event.name} began {partition} at {event.offset}, which was read up to {known} only")
        elif event.offset < owner.floor:
            self._say(event, f"{event.name} began {partition} at {event.offset}, {owner.floor} was committed")
        return None

    def _committed(self, event: Event, partition: Partition) -> None:
        self._floor[partition] = max(self._floor[partition], event.offset)
        if event.offset > self._next[partition]:
            self._say(event, f"{event.name} committed {event.offset} of {partition}, which nobody has read")

    def _say(self, event: Event, problem: str) -> None:
        self.problems.append((event, problem))
