"""Who of a group owned which partition from when to when, and what was read: as the members themselves saw it.

Members tell of an assignment once they have it and of a revocation before they act on it, so a partition that two own
by this record is one that two owned. Each event has its time on the machine's one monotonic clock, since members may
be processes whose events arrive late; what was wrong is found when all of them are there.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

# Of a topic, by name and index.
Partition: TypeAlias = tuple[str, int]


class Event(NamedTuple):
    """`kind` is gained, lost, gone (the member owns nothing from then on), read or committed. `offset` is that of the
    record that was read, or what stands as committed from then on."""

    at: float
    name: str
    kind: str
    partitions: tuple[Partition, ...]
    offset: int = -1


class GroupHistory:
    """What happened, told by any thread; and who owns what right now, as far as it was told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events: list[Event] = []
        self.owners: dict[Partition, str] = {}
        self.read: Counter[tuple[Partition, int]] = Counter()

    def gained(self, name: str, partitions: Iterable[Partition]) -> None:
        self.tell(Event(time.monotonic(), name, "gained", tuple(partitions)))

    def lost(self, name: str, partitions: Iterable[Partition]) -> None:
        self.tell(Event(time.monotonic(), name, "lost", tuple(partitions)))

    def gone(self, name: str) -> None:
        self.tell(Event(time.monotonic(), name, "gone", ()))

    def took(self, name: str, partition: Partition, offset: int) -> None:
        self.tell(Event(time.monotonic(), name, "read", (partition,), offset))

    def committed(self, name: str, partition: Partition, offset: int) -> None:
        """The member was told so."""
        self.tell(Event(time.monotonic(), name, "committed", (partition,), offset))

    def tell(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)
            if event.kind == "gained":
                self.owners |= dict.fromkeys(event.partitions, event.name)
            elif event.kind == "read":
                self.read[event.partitions[0], event.offset] += 1
            elif event.kind != "committed":
                of = event.partitions if event.kind == "lost" else tuple(self.owners)
                for partition in of:
                    if self.owners.get(partition) == event.name:
                        del self.owners[partition]

    def shares(self) -> Counter[str]:
        """How many partitions each has."""
        with self._lock:
            return Counter(self.owners.values())

    @property
    def twice(self) -> int:
        """How many records were read more than once."""
        return sum(count > 1 for count in self.read.values())

    def problems(self) -> list[str]:
        """Everything that no group may do, in the order of time."""
        with self._lock:
            events = sorted(self.events, key=lambda event: event.at)
        began = events[0].at if events else 0.0
        judge = _Judge()
        for event in events:
            judge.see(event)
        return [f"{event.at - began:.3f}: {problem}" for event, problem in judge.problems]


class _Judge:
    """`_next` is the offset after everything that the group has read of a partition, `_position` what its owner reads
    next, which is not known before it reads, and `_floor` what was acknowledged as committed."""

    def __init__(self) -> None:
        self.problems: list[tuple[Event, str]] = []
        self._owners: dict[Partition, str] = {}
        self._position: dict[Partition, int] = {}
        self._next: Counter[Partition] = Counter()
        self._floor: Counter[Partition] = Counter()
        self._floor_at_begin: dict[Partition, int] = {}

    def see(self, event: Event) -> None:
        if event.kind == "gone":
            for partition in [each for each, owner in self._owners.items() if owner == event.name]:
                self._end(partition)
        for partition in event.partitions:
            problem = getattr(self, f"_{event.kind}")(event, partition)
            if problem is not None:
                self.problems.append((event, problem))

    def _gained(self, event: Event, partition: Partition) -> str | None:
        other = self._owners.get(partition)
        self._owners[partition] = event.name
        self._position.pop(partition, None)
        self._floor_at_begin[partition] = self._floor[partition]
        return None if other is None else f"{event.name} was given {partition}, which {other} has"

    def _lost(self, event: Event, partition: Partition) -> str | None:
        if self._owners.get(partition) != event.name:
            return f"{event.name} gave up {partition}, which it does not have"
        self._end(partition)
        return None

    def _end(self, partition: Partition) -> None:
        del self._owners[partition]
        self._position.pop(partition, None)

    def _read(self, event: Event, partition: Partition) -> str | None:
        if self._owners.get(partition) != event.name:
            return f"{event.name} read {partition} from {event.offset}, and does not have it"
        expected, known = self._position.get(partition), self._next[partition]
        self._position[partition] = event.offset + 1
        self._next[partition] = max(known, event.offset + 1)
        if expected is not None:
            return None if event.offset == expected else f"{partition} went on at {event.offset}, not at {expected}"
        if event.offset > known:
            return f"{event.name} began {partition} at {event.offset}, but it was read up to {known} only"
        if event.offset < self._floor_at_begin[partition]:
            return f"{event.name} began {partition} at {event.offset}, below what was committed"
        return None

    def _committed(self, event: Event, partition: Partition) -> str | None:
        self._floor[partition] = max(self._floor[partition], event.offset)
        return None if event.offset <= self._next[partition] else f"{event.name} committed what nobody has read"
