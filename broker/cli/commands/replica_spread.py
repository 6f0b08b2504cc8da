"""Spreads replicas over brokers: racks first, then replicas per broker, bytes and leaders, with few moves."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from broker.client.types import TopicPartition

# The replicas of each partition, the preferred leader first.
Replicas: TypeAlias = Mapping[TopicPartition, Sequence[int]]

# Brokers whose bytes differ by less than this part of the average are even.
_BYTES_SLACK: Final = 0.1
# Replicas are swapped for the sake of bytes if the difference shrinks by this part of what has to move.
_SWAP_GAIN_MIN: Final = 0.1


class TooFewBrokers(ValueError):
    """A partition has more replicas than the `brokers` that may have one."""

    def __init__(self, message: str, partition: TopicPartition, brokers: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.brokers = brokers

    @property
    def remedy(self) -> str:
        """The commands that leave the topic with as many replicas as there are brokers."""
        plan = f"kraft reassign plan {self.partition.topic} --replicas {self.brokers}"
        return f"have fewer replicas: `{plan} > plan.json`, then `kraft reassign execute plan.json`"


@attrs.frozen
class Measure:
    """How even replicas are: the least and the most per broker. `in_few_racks` partitions could be in more racks."""

    replicas: tuple[int, int]
    size_bytes: tuple[int, int]
    leaders: tuple[int, int]
    in_few_racks: int


def spread(
    current: Replicas, racks: Mapping[int, str | None], sizes: Mapping[TopicPartition, int], replicas: int | None
) -> dict[TopicPartition, list[int]]:
    """Spread partitions over the brokers of `racks`, each with `replicas` replicas (None: as many as it has).

    In this order of importance: each partition is in as many racks as possible; brokers have equally many replicas, if
    racks permit; they have about equally many bytes; equally many preferred leaders; of each topic, too. A replica
    moves only for that. Racks count if every broker has one. `sizes` are in bytes; partitions without one count 0.
    Raises TooFewBrokers.
    """
    spreading = _Spreading(current, racks, sizes)
    for partition, now in current.items():
        count = len(now) if replicas is None else replicas
        if count > len(racks):
            raise TooFewBrokers(
                f"{partition.topic}-{partition.partition} needs {count} brokers, of {len(racks)}",
                partition,
                len(racks),
            )
        spreading.place(partition, count)
    spreading.mend_racks()
    spreading.even_counts()
    spreading.even_bytes()
    return spreading.ordered()


def measure(assigned: Replicas, racks: Mapping[int, str | None], sizes: Mapping[TopicPartition, int]) -> Measure:
    """The evenness of replicas over the brokers of `racks`; replicas on other brokers do not count."""
    replicas: Counter[int] = Counter(dict.fromkeys(racks, 0))
    size_bytes: Counter[int] = Counter(dict.fromkeys(racks, 0))
    leaders: Counter[int] = Counter(dict.fromkeys(racks, 0))
    few = 0
    known = _known_racks(racks)
    for partition, brokers in assigned.items():
        here = [broker for broker in brokers if broker in racks]
        few += len({known[broker] for broker in here}) < min(len(brokers), len(set(known.values())))
        replicas.update(here)
        size_bytes.update(dict.fromkeys(here, sizes.get(partition, 0)))
        leaders.update(here[:1] if here[:1] == list(brokers[:1]) else [])
    return Measure(_range(replicas), _range(size_bytes), _range(leaders), few)


def moved(before: Replicas, after: Replicas) -> Iterator[tuple[TopicPartition, int]]:
    """The replicas that are on brokers where they were not before."""
    for partition, brokers in after.items():
        for broker in brokers:
            if broker not in before[partition]:
                yield partition, broker


def _range(counts: Counter[int]) -> tuple[int, int]:
    return min(counts.values(), default=0), max(counts.values(), default=0)


def _known_racks(racks: Mapping[int, str | None]) -> dict[int, str | None]:
    """The rack of each broker; one for all if some have none."""
    return dict(racks) if None not in racks.values() else dict.fromkeys(racks)


class _Spreading:
    """Replicas while they are spread."""

    def __init__(self, current: Replicas, racks: Mapping[int, str | None], sizes: Mapping[TopicPartition, int]) -> None:
        self._current = current
        self._racks = _known_racks(racks)
        self._rack_count = len(set(self._racks.values()))
        self._sizes = sizes
        self._assigned: dict[TopicPartition, list[int]] = {}
        # Dictionaries as ordered sets, so that the same input has the same plan.
        self._on: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in sorted(racks)}
        self._bytes: Counter[int] = Counter()
        self._topics_on: dict[int, dict[str, dict[TopicPartition, None]]] = {broker: {} for broker in self._on}
        # How often the replicas of a broker have changed, and the counts of two between which no swap was found then.
        self._changes: Counter[int] = Counter()
        self._no_swap: dict[tuple[int, int], tuple[int, int]] = {}
        for partition, brokers in current.items():
            self._assigned[partition] = []
            for broker in brokers:
                if broker in self._on:
                    self._add(partition, broker)

    def place(self, partition: TopicPartition, count: int) -> None:
        """Give the partition `count` replicas, which stay where they are if they can."""
        here = self._assigned[partition]
        while len(here) > count:
            surplus = max(here, key=lambda broker: (self._shares_rack(here, broker), len(self._on[broker]), broker))
            self._remove(partition, surplus)
        while len(here) < count:
            racks = {self._racks[broker] for broker in here}
            others = (broker for broker in self._on if broker not in here)
            self._add(partition, min(others, key=lambda broker: (self._racks[broker] in racks, *self._load(broker))))

    def mend_racks(self) -> None:
        """Move replicas that share a rack to racks without a replica of the partition."""
        for partition, here in self._assigned.items():
            while len({self._racks[broker] for broker in here}) < min(len(here), self._rack_count):
                racks = {self._racks[broker] for broker in here}
                source = max(
                    (broker for broker in here if self._shares_rack(here, broker)),
                    key=lambda broker: (broker not in self._current[partition], *self._load(broker)),
                )
                target = min((each for each in self._on if self._racks[each] not in racks), key=self._load)
                self._move(partition, source, target)

    def even_counts(self) -> None:
        """Move replicas from brokers with many to brokers with few, over others where no direct move is possible."""
        blocked: set[tuple[int, int]] = set()
        while (path := self._path_to_fewer(blocked)) is not None:
            for partition, source, target in path:
                self._move(partition, source, target)
                for broker in self._assigned[partition]:
                    blocked.difference_update(
                        (broker, other) for other in self._on if self._may_move(partition, broker, other)
                    )

    def even_bytes(self) -> None:
        """Swap replicas between brokers with many and with few bytes."""
        for _ in range(sum(map(len, self._assigned.values()))):
            average = sum(self._bytes.values()) / len(self._on)
            swap = self._best_swap(_BYTES_SLACK * average)
            if swap is None:
                return
            (large, heavy), (small, light) = swap
            self._move(large, heavy, light)
            if small is not None:
                self._move(small, light, heavy)

    def ordered(self) -> dict[TopicPartition, list[int]]:
        """The replicas, with the preferred leaders spread; a leader that stays is preferred."""
        leaders = {
            partition: next((broker for broker in self._current[partition] if broker in here), here[0])
            for partition, here in self._assigned.items()
        }
        _even_leaders(leaders, self._assigned, self._on)
        return {
            partition: [leaders[partition], *(broker for broker in here if broker != leaders[partition])]
            for partition, here in self._assigned.items()
        }

    def _add(self, partition: TopicPartition, broker: int) -> None:
        self._assigned[partition].append(broker)
        self._on[broker][partition] = None
        self._changes[broker] += 1
        self._bytes[broker] += self._sizes.get(partition, 0)
        self._topics_on[broker].setdefault(partition.topic, {})[partition] = None

    def _remove(self, partition: TopicPartition, broker: int) -> None:
        self._assigned[partition].remove(broker)
        del self._on[broker][partition]
        self._changes[broker] += 1
        self._bytes[broker] -= self._sizes.get(partition, 0)
        del self._topics_on[broker][partition.topic][partition]

    def _move(self, partition: TopicPartition, source: int, target: int) -> None:
        self._remove(partition, source)
        self._add(partition, target)

    def _load(self, broker: int) -> tuple[int, int, int]:
        return len(self._on[broker]), self._bytes[broker], broker

    def _shares_rack(self, brokers: Iterable[int], broker: int) -> bool:
        return any(self._racks[each] == self._racks[broker] for each in brokers if each != broker)

    def _may_move(self, partition: TopicPartition, source: int, target: int) -> bool:
        """True if the partition is in as many racks afterwards as it is now."""
        here = self._assigned[partition]
        if target in here:
            return False
        if self._racks[source] == self._racks[target]:
            return True
        others = [broker for broker in here if broker != source]
        return self._shares_rack(here, source) or all(self._racks[each] != self._racks[target] for each in others)

    def _path_to_fewer(self, blocked: set[tuple[int, int]]) -> list[tuple[TopicPartition, int, int]] | None:
        """The moves by which a broker with many replicas has one less, and one with two less has one more.

        `blocked` has pairs of brokers between which no replica may move; further ones are added.
        """
        by_count = sorted(self._on, key=self._load, reverse=True)
        fewest = len(self._on[by_count[-1]])
        for start in by_count:
            count = len(self._on[start])
            if count - fewest < 2:
                return None
            came_from: dict[int, int] = {start: start}
            waiting = deque([start])
            while waiting:
                source = waiting.popleft()
                for target in reversed(by_count):
                    if target in came_from or (source, target) in blocked:
                        continue
                    if not self._has_move(source, target):
                        blocked.add((source, target))
                        continue
                    came_from[target] = source
                    if count - len(self._on[target]) >= 2:
                        return self._path(came_from, target)
                    waiting.append(target)
        return None

    def _path(self, came_from: Mapping[int, int], end: int) -> list[tuple[TopicPartition, int, int]]:
        path = []
        while (source := came_from[end]) != end:
            partition = self._best_move(source, end)
            assert partition is not None, "the path was found over this move"
            path.append((partition, source, end))
            end = source
        return path

    def _has_move(self, source: int, target: int) -> bool:
        return any(self._may_move(partition, source, target) for partition in self._on[source])

    def _best_move(self, source: int, target: int) -> TopicPartition | None:
        """The partition to move: of the topic that this evens most, and of these the one that evens the bytes."""
        wanted = (self._bytes[source] - self._bytes[target]) / 2

        def cost(partition: TopicPartition) -> tuple[int, float]:
            before = self._current[partition]
            return (target not in before) - (source not in before), abs(self._sizes.get(partition, 0) - wanted)

        here, there = self._topics_on[source], self._topics_on[target]
        for topic in sorted(here, key=lambda topic: len(there.get(topic, ())) - len(here[topic])):
            movable = [partition for partition in here[topic] if self._may_move(partition, source, target)]
            if movable:
                return min(movable, key=cost)
        return None

    def _best_swap(self, slack: float) -> tuple[tuple[TopicPartition, int], tuple[TopicPartition | None, int]] | None:
        """Replicas of a heavy and of a light broker that even their bytes if they change places.

        Without a second one, the first moves alone: to a broker that has fewer replicas. Two brokers are not compared
        again until one of them has changed: otherwise a broker with one huge partition is compared with all for each
        swap of others.
        """
        by_bytes = sorted(self._on, key=lambda broker: (self._bytes[broker], broker))
        for heavy in reversed(by_bytes):
            for light in by_bytes:
                difference = self._bytes[heavy] - self._bytes[light]
                if difference <= slack:
                    break
                changes = self._changes[heavy], self._changes[light]
                if self._no_swap.get((heavy, light)) == changes:
                    continue
                if (found := self._swap(heavy, light, difference)) is not None:
                    return (found[0], heavy), (found[1], light)
                self._no_swap[heavy, light] = changes
        return None

    def _swap(self, heavy: int, light: int, difference: int) -> tuple[TopicPartition, TopicPartition | None] | None:
        smalls: list[tuple[int, TopicPartition | None]] = [
            (self._sizes.get(each, 0), each) for each in self._on[light] if self._may_move(each, light, heavy)
        ]
        if len(self._on[heavy]) > len(self._on[light]):
            smalls.append((0, None))
        smalls.sort(key=_first)
        best: tuple[float, TopicPartition, TopicPartition | None] | None = None
        for large in self._on[heavy]:
            size = self._sizes.get(large, 0)
            if not size or not self._may_move(large, heavy, light):
                continue
            # The best one for this one is the smaller or the larger neighbour of the ideal size.
            ideal = bisect_left(smalls, size - difference / 2, key=_first)
            for small_size, small in smalls[max(0, ideal - 1) : ideal + 1]:
                gain = size - small_size
                left = abs(difference - 2 * gain)
                is_worth_it = 0 < gain < difference and gain >= _SWAP_GAIN_MIN * (size + small_size)
                if is_worth_it and (best is None or left < best[0]):
                    best = left, large, small
        return None if best is None else best[1:]


def _first(pair: tuple[int, TopicPartition | None]) -> int:
    return pair[0]


def _even_leaders(
    leaders: dict[TopicPartition, int], assigned: Mapping[TopicPartition, Sequence[int]], brokers: Iterable[int]
) -> None:
    """Change leaders to other replicas, until no broker has two more than one that could have one of them."""
    led: dict[int, dict[TopicPartition, None]] = {broker: {} for broker in brokers}
    for partition, leader in leaders.items():
        led[leader][partition] = None
    while (path := _leader_path(led, assigned)) is not None:
        for partition, source, target in path:
            del led[source][partition]
            led[target][partition] = None
            leaders[partition] = target


def _leader_path(
    led: Mapping[int, Mapping[TopicPartition, None]], assigned: Mapping[TopicPartition, Sequence[int]]
) -> list[tuple[TopicPartition, int, int]] | None:
    by_count = sorted(led, key=lambda broker: (-len(led[broker]), broker))
    fewest = len(led[by_count[-1]])
    for start in by_count:
        count = len(led[start])
        if count - fewest < 2:
            return None
        came_from: dict[int, tuple[TopicPartition, int] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            source = waiting.popleft()
            for partition in led[source]:
                for target in assigned[partition]:
                    if target in came_from:
                        continue
                    came_from[target] = partition, source
                    if count - len(led[target]) >= 2:
                        return _steps(came_from, target)
                    waiting.append(target)
    return None


def _steps(
    came_from: Mapping[int, tuple[TopicPartition, int] | None], end: int
) -> list[tuple[TopicPartition, int, int]]:
    path = []
    while (step := came_from[end]) is not None:
        path.append((step[0], step[1], end))
        end = step[1]
    return path
