"""The measurements of a report: rates and latencies over time, and the duration of each fault's effect.

Only operations that change something ("work") are measured. The latency of a read shows nothing about the nodes,
because a read waits for new records.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from operator import attrgetter
from typing import Final, TypeAlias

import attrs

from jepsen.history import History, Operation, Outcome
from jepsen.store import Fault

Key: TypeAlias = str

# The operations that count as work; see the module's docstring.
_WORK: Final = frozenset({"send", "commit", "create-topic", "delete-topic", "share-topic", "grow-topic", "drop-topic"})
_BIN_SECONDS: Final = (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_BINS_MAX: Final = 260
# The shortest wait that is drawn and counted. Shorter waits are normal.
STALL_SECONDS: Final = 0.1
# The time after a fault in which waits are still attributed to it.
_AFTERMATH_SECONDS: Final = 10.0


@attrs.frozen
class Bins:
    """The time from zero to `end`, divided into equal parts."""

    width: float
    count: int

    @classmethod
    def over(cls, seconds: float) -> "Bins":
        width = next((each for each in _BIN_SECONDS if seconds / each <= _BINS_MAX), seconds / _BINS_MAX)
        return cls(width, max(1, ceil(seconds / width)))

    @property
    def end(self) -> float:
        return self.width * self.count

    def index(self, time: float) -> int:
        return min(max(int(time / self.width), 0), self.count - 1)

    def zeros(self) -> list[float]:
        return [0.0] * self.count


@attrs.frozen
class Rates:
    """Records per second in each bin: acknowledged, unknown, refused, and read by consumers."""

    ok: Sequence[float]
    info: Sequence[float]
    fail: Sequence[float]
    read: Sequence[float]


@attrs.frozen
class Latencies:
    """Latencies of acknowledged operations in seconds, by the bin of their invocation; None for an empty bin."""

    median: Sequence[float | None]
    p99: Sequence[float | None]
    longest: Sequence[float | None]
    all: Sequence[float]  # sorted


@attrs.frozen
class Wait:
    """The time without an acknowledgement while a request was pending.

    It begins at the previous acknowledgement, or at the next request if that is later.
    """

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@attrs.frozen
class Outage:
    """The effect of a fault on clients: the longest wait for each partition, counted from the start of the fault."""

    fault: Fault
    by_partition: Mapping[Key, float]

    @property
    def worst(self) -> float:
        return max(self.by_partition.values(), default=0.0)

    @property
    def worst_partition(self) -> Key:
        return max(self.by_partition, key=lambda key: self.by_partition[key], default="")

    @property
    def stalled(self) -> int:
        """The number of partitions with an unusually long wait."""
        return sum(seconds >= STALL_SECONDS for seconds in self.by_partition.values())


def is_work(operation: Operation) -> bool:
    return operation.function in _WORK


def key_of(operation: Operation) -> Key:
    """The object of the operation: a partition, a group, or the metadata. Each of these has one leader."""
    value = operation.value
    if operation.function == "commit":
        return f"group {value.group}"
    if operation.function != "send":
        return "metadata"
    # The partition of an application's send is known by its acknowledgement only.
    return value.topic if value.partition < 0 else f"{value.topic}-{value.partition}"


def weight(operation: Operation) -> int:
    """The number of records in the operation; 1 if it is not about records.

    A commit counts as 0, because its records were counted when they were sent.
    """
    if operation.function == "commit":
        return 0
    return len(operation.value.values) if operation.function == "send" else 1


def work_end(history: History, seconds: float) -> float:
    """The time of the last completion of work."""
    return max((each.completed_at or each.invoked_at for each in history.operations if is_work(each)), default=seconds)


def rates(history: History, bins: Bins) -> Rates:
    by_outcome = {outcome: bins.zeros() for outcome in Outcome}
    read = bins.zeros()
    for operation in history.operations:
        time = operation.invoked_at if operation.completed_at is None else operation.completed_at
        if operation.function == "poll" and operation.outcome is Outcome.OK and time < bins.end:
            read[bins.index(time)] += len(operation.result) / bins.width
        elif is_work(operation) and time < bins.end:
            by_outcome[operation.outcome][bins.index(time)] += weight(operation) / bins.width
    return Rates(by_outcome[Outcome.OK], by_outcome[Outcome.INFO], by_outcome[Outcome.FAIL], read)


def latencies(history: History, bins: Bins) -> Latencies:
    binned: list[list[float]] = [[] for _ in range(bins.count)]
    for operation in history.operations:
        if is_work(operation) and operation.outcome is Outcome.OK and operation.completed_at is not None:
            binned[bins.index(operation.invoked_at)].append(operation.completed_at - operation.invoked_at)
    for each in binned:
        each.sort()
    return Latencies(
        [percentile(each, 0.5) for each in binned],
        [percentile(each, 0.99) for each in binned],
        [percentile(each, 1.0) for each in binned],
        sorted(latency for each in binned for latency in each),
    )


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest value that is not exceeded by this share of the values; None if there are no values."""
    return ordered[max(ceil(share * len(ordered)) - 1, 0)] if ordered else None


def waits(history: History, end: float) -> dict[Key, list[Wait]]:
    """The waits for each key, in order; the last one ends at `end` if a request is unanswered. Keys are sorted.

    A wait requires a pending request, so idle clients do not count as waiting.
    """
    by_key: dict[Key, list[tuple[float, float, bool]]] = defaultdict(list)
    for operation in history.operations:
        if is_work(operation) and operation.completed_at is not None:
            is_ok = operation.outcome is Outcome.OK
            by_key[key_of(operation)].append((operation.completed_at, operation.invoked_at, is_ok))
    return {key: list(_waits(sorted(by_key[key]), end)) for key in sorted(by_key, key=_in_order)}


def _waits(completions: Sequence[tuple[float, float, bool]], end: float) -> Iterator[Wait]:
    """The waits, from tuples of completion time, invocation time, and whether the operation was acknowledged."""
    waiting_since = [end] * (len(completions) + 1)  # the earliest invocation among this completion and all later ones
    for index in range(len(completions) - 1, -1, -1):
        waiting_since[index] = min(waiting_since[index + 1], completions[index][1])
    before, since = 0.0, waiting_since[0]
    for index, (completed_at, _, is_ok) in enumerate(completions):
        if is_ok:
            yield Wait(min(max(before, since), completed_at), completed_at)
            before, since = completed_at, waiting_since[index + 1]
    if since < end and before < end:
        yield Wait(max(before, since), end)


def stalls(every: Iterable[Wait]) -> list[Wait]:
    """The waits that are longer than usual."""
    return [wait for wait in every if wait.seconds >= STALL_SECONDS]


def outages(every: Mapping[Key, Sequence[Wait]], faults: Sequence[Fault], end: float) -> list[Outage]:
    """The effect of each fault: waits that begin during it, or after it but before the next fault, within a limit."""
    found = []
    for index, fault in enumerate(faults):
        following = min((each.began_at for each in faults[index + 1 :] if each.began_at > fault.began_at), default=end)
        mended = (end if fault.ended_at is None else fault.ended_at) + _AFTERMATH_SECONDS
        until = min(mended, max(following, fault.ended_at or 0.0), end)
        found.append(Outage(fault, {key: _longest(each, fault.began_at, until) for key, each in every.items()}))
    return found


def _longest(every: Sequence[Wait], begin: float, until: float) -> float:
    """The longest wait that ends after `begin` and begins before `until`, counted from `begin`."""
    longest = 0.0
    for index in range(bisect_right(every, begin, key=attrgetter("end")), len(every)):
        if every[index].begin >= until:
            break
        longest = max(longest, every[index].end - max(every[index].begin, begin))
    return longest


def by_kind(found: Iterable[Outage]) -> dict[str, list[Outage]]:
    """Group by the kind of fault, in the order of first occurrence."""
    kinds: dict[str, list[Outage]] = defaultdict(list)
    for outage in found:
        kinds[outage.fault.kind].append(outage)
    return dict(kinds)


def outcomes_by_function(history: History) -> dict[str, Counter[Outcome]]:
    table: dict[str, Counter[Outcome]] = defaultdict(Counter)
    for operation in history.operations:
        table[operation.function][operation.outcome] += 1
    return dict(sorted(table.items(), key=lambda row: -row[1].total()))


def _in_order(key: Key) -> tuple[str, int]:
    name, _, number = key.rpartition("-")
    return (name, int(number)) if number.isdecimal() else (key, 0)
