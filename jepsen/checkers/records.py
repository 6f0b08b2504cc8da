"""Views of the records in a history, for several checkers.

Values are unique. An incarnation of a log lies between two power cuts. A log without flush.messages may lose its last
records at the end of an incarnation. Without losses of storage, there is only one incarnation.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from jepsen.history import History, Operation, Outcome

TopicPartition: TypeAlias = tuple[str, int]
# The records of one partition in an operation, as pairs of offset and value.
ObservedRecords: TypeAlias = tuple[TopicPartition, Sequence[tuple[int, str]], Operation]

# The records of a long read that a proof shows on each side of the offset in question.
_AROUND: Final = 3


@attrs.frozen
class FinalRead:
    """The records of a partition by offset, read after recovery."""

    operation: Operation
    records: dict[int, str]

    @property
    def incarnation(self) -> int:
        return self.operation.incarnation

    @property
    def end(self) -> int:
        """The offset after the last record; 0 without records."""
        return max(self.records, default=-1) + 1

    @property
    def values(self) -> Iterator[str]:
        """All values, even if two of them have the same offset."""
        return (value for _, value in self.operation.result)

    def around(self, offset: int) -> Operation:
        return excerpt(self.operation, offset)


def final_reads(history: History) -> dict[TopicPartition, FinalRead]:
    """The last read of each partition from offset zero."""
    return {
        operation.value: FinalRead(operation, dict(operation.result))
        for operation in history.of("final-read", outcome=Outcome.OK)
    }


def name_of(partition: TopicPartition) -> str:
    """The name of a partition as in a log directory: topic-index."""
    return f"{partition[0]}-{partition[1]}"


def acknowledged(history: History) -> Iterator[tuple[TopicPartition, Operation]]:
    for operation in history.of("send", outcome=Outcome.OK):
        yield (operation.value.topic, operation.value.partition), operation


def durable_sends(
    history: History, finals: dict[TopicPartition, FinalRead]
) -> Iterator[tuple[TopicPartition, Operation]]:
    """The acknowledged sends that must last: in a flushed topic, or in the incarnation of the final read."""
    flushed = flushed_topics(history)
    for partition, operation in acknowledged(history):
        final = finals.get(partition)
        if final is None or partition[0] in flushed or operation.incarnation == final.incarnation:
            yield partition, operation


def reads(history: History) -> Iterator[tuple[TopicPartition, Operation]]:
    """The reads that returned records, including final reads."""
    for operation in history.of("poll", "poll-group", "poll-transaction", "scan", "final-read", outcome=Outcome.OK):
        value = operation.value
        yield value if operation.function == "final-read" else (value.topic, value.partition), operation


def records_read(history: History) -> Iterator[ObservedRecords]:
    """The records of every read."""
    for partition, operation in reads(history):
        yield partition, operation.result, operation


def observations(history: History) -> Iterator[ObservedRecords]:
    """The records of every acknowledged send, then those of every read.

    A send is left out if its offset is unknown: a retry of a batch that had already arrived may be acknowledged without
    one.
    """
    for partition, operation in acknowledged(history):
        if operation.result is not None:
            yield partition, tuple(enumerate(operation.value.values, operation.result)), operation
    yield from records_read(history)


def known_offsets(history: History) -> Mapping[tuple[TopicPartition, int], Sequence[int]]:
    """The offsets at which any client has seen a record, by partition and incarnation."""
    known: dict[tuple[TopicPartition, int], set[int]] = defaultdict(set)
    for partition, records, operation in observations(history):
        # The keys of a dict are the offsets; this is faster than a loop over the records.
        known[partition, operation.incarnation].update(dict(records))
    return defaultdict(list, {place: sorted(offsets) for place, offsets in known.items()})


def first_between(offsets: Sequence[int], first: int, end: int) -> int | None:
    """The lowest of the offsets from `first` to below `end`; None if there is none."""
    at = bisect_left(offsets, first)
    return offsets[at] if at < len(offsets) and offsets[at] < end else None


def flushed_topics(history: History) -> set[str]:
    return {operation.value.name for operation in history.of("create-topic") if operation.value.is_flushed}


def excerpt(operation: Operation, offset: int) -> Operation:
    """The operation as shown in a proof: of a read, only the records around an offset."""
    if operation.function == "send" or operation.outcome is not Outcome.OK:
        return operation
    near = tuple(record for record in operation.result if abs(record[0] - offset) <= _AROUND)
    return attrs.evolve(operation, result=near)
