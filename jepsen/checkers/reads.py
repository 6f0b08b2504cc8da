"""Promises that reads return the records that were sent, the same for all readers and without gaps."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import (
    ObservedRecords,
    TopicPartition,
    excerpt,
    known_offsets,
    name_of,
    observations,
    reads,
    records_read,
)
from jepsen.history import History, Operation, Outcome


class OffsetsNeverChange:
    """Within an incarnation, all responses about an offset agree. ("inconsistent-offsets")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        return _contradictions(type(self).__name__, observations(history))


class OffsetsReadNeverChange:
    """Within an incarnation, all reads of an offset agree, whatever the responses to sends with acks=1 were."""

    def check(self, history: History) -> Iterator[Anomaly]:
        return _contradictions(type(self).__name__, records_read(history))


def _contradictions(promise: str, observed: Iterable[ObservedRecords]) -> Iterator[Anomaly]:
    seen: dict[tuple[TopicPartition, int], dict[int, tuple[str, Operation]]] = defaultdict(dict)
    for partition, records, operation in observed:
        seen_here = seen[partition, operation.incarnation]
        for offset, value in records:
            before = seen_here.get(offset)
            if before is None:
                seen_here[offset] = value, operation
            elif before[0] != value:
                first, by = before
                what = f"offset {offset} of {name_of(partition)} is {first}, and {value}"
                yield Anomaly(promise, what, (excerpt(by, offset), excerpt(operation, offset)))


class NothingFromNowhere:
    """Every record that is read was sent."""

    def check(self, history: History) -> Iterator[Anomaly]:
        sent = {value for operation in history.of("send") for value in operation.value.values}
        for partition, records, operation in records_read(history):
            for offset, value in records:
                if value not in sent:
                    what = f"offset {offset} of {name_of(partition)} holds {value!r}, which no producer sent"
                    yield Anomaly(type(self).__name__, what, (excerpt(operation, offset),))


class NothingRefusedIsRead:
    """A record whose send certainly failed is never read. ("aborted read")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        refused = {
            value: operation
            for operation in history.of("send", outcome=Outcome.FAIL)
            for value in operation.value.values
        }
        for partition, records, operation in records_read(history) if refused else ():
            for offset, value in records:
                if value in refused:
                    what = f"offset {offset} of {name_of(partition)} holds {value!r}, which was refused"
                    yield Anomaly(type(self).__name__, what, (refused[value], excerpt(operation, offset)))


class PollsSkipNothing:
    """A poll returns the records from its offset on without a gap. ("poll-skip")

    A consumer polls from the offset after the last record that it got, so it skips nothing from poll to poll either.
    The records of an incarnation are those that any client has read in it.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        known = known_offsets(history)
        for partition, operation in reads(history):
            if not operation.result:
                continue
            offsets = known[partition, operation.incarnation]
            got = dict(operation.result)
            first = _first_offset(operation)
            last = max(got)
            between = bisect_left(offsets, first), bisect_left(offsets, last + 1)
            if between[1] - between[0] > len(got):
                skipped = next(offset for offset in offsets[slice(*between)] if offset not in got)
                what = f"from {first} on, offset {skipped} of {name_of(partition)} is skipped"
                yield Anomaly(type(self).__name__, what, (excerpt(operation, skipped),))


class PollsGoForward:
    """Within a poll, offsets increase and are not below the requested one. ("nonmonotonic-poll")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, operation in reads(history):
            if not operation.result:
                continue
            before = _first_offset(operation) - 1
            for offset, _ in operation.result:
                if offset <= before:
                    what = f"offset {offset} of {name_of(partition)} comes after {before}"
                    yield Anomaly(type(self).__name__, what, (excerpt(operation, offset),))
                    break
                before = offset


def _first_offset(operation: Operation) -> int:
    """The offset from which on a read must return all records."""
    match operation.function:
        case "poll":
            return int(operation.value.offset)
        case "scan":
            return int(operation.value.start)
        case "poll-group" | "poll-transaction":
            return int(operation.result[0][0])  # `groups` and `transaction_polls` check where a client continues
        case _:
            return 0


class LogsHaveNoGaps:
    """The offsets of a partition have no gaps from its first record to its last."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("final-read", outcome=Outcome.OK):
            for (before, _), (offset, _) in zip(operation.result, operation.result[1:], strict=False):
                if offset > before + 1:
                    what = f"{name_of(operation.value)} has nothing between {before} and {offset}"
                    yield Anomaly(type(self).__name__, what, (excerpt(operation, offset),))


class NothingIsCorrupt:
    """All responses of a node, and its files at the end, contain only whole batches with correct checksums."""

    def check(self, history: History) -> Iterator[Anomaly]:
        functions = "poll", "poll-group", "poll-transaction", "final-read", "read-replica"
        for operation in history.of(*functions, outcome=Outcome.FAIL):
            yield Anomaly(type(self).__name__, str(operation.result), (operation,))
