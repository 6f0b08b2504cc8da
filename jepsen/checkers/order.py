"""Promises that records are stored exactly once and in the order of sending."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import attrgetter

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import (
    TopicPartition,
    acknowledged,
    durable_sends,
    excerpt,
    final_reads,
    flushed_topics,
    name_of,
    observations,
)
from jepsen.history import History, Operation


class NothingTwice:
    """A value is at one offset of one partition at most: retries of an idempotent producer have no effect.
    ("duplicate")

    After a power cut that lost a record, a retry may store it at another offset.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        incarnations: dict[int, dict[str, tuple[TopicPartition, int, Operation]]] = defaultdict(dict)
        for partition, records, operation in observations(history):
            found = incarnations[operation.incarnation]
            for offset, value in records:
                first = found.get(value)
                if first is None:
                    found[value] = partition, offset, operation
                elif first[1] != offset or first[0] != partition:
                    where, at, by = first
                    what = f"{value} is in {name_of(where)} at {at}, and in {name_of(partition)} at {offset}"
                    yield Anomaly(type(self).__name__, what, (excerpt(by, at), excerpt(operation, offset)))


class SendsAreInOrder:
    """The records of a session are in the partition in the order in which they were sent. ("nonmonotonic-send")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        offsets = {
            partition: {value: offset for offset, value in final.records.items()} for partition, final in finals.items()
        }
        appended_at = {id(operation): operation.result for _, operation in durable_sends(history, finals)}
        last: dict[tuple[TopicPartition, str], tuple[int, Operation]] = {}
        for operation in sorted(history.of("send"), key=lambda each: each.value.sequence):
            sending = operation.value
            partition = sending.topic, sending.partition
            offset = offsets.get(partition, {}).get(sending.values[0], appended_at.get(id(operation)))
            if offset is None or not sending.session:
                continue
            before, earlier = last.get((partition, sending.session), (-1, operation))
            if offset < before:
                what = (
                    f"{sending.values[0]} is at {offset} of {name_of(partition)}, "
                    f"and what was sent before it at {before}"
                )
                yield Anomaly(type(self).__name__, what, (earlier, operation))
            last[partition, sending.session] = offset, operation


class SessionsAreInOrder:
    """The records of an idempotent session are in a partition in their order, and without a gap from the first one on.

    A partition that has lost all records of a producer in a power cut does not know the producer, and accepts any
    sequence number from it, as Kafka does. If it has lost only the latest ones, a producer with `Sending.goes_on`
    continues with a new epoch.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        flushed = flushed_topics(history)
        sendings = [operation.value for operation in history.of("send")]
        going_on = {each.values[0].rpartition("/")[0] for each in sendings if each.goes_on}
        for partition, final in final_reads(history).items():
            may_be_cut = final.incarnation > 0 and partition[0] not in flushed
            expected: dict[str, int] = {}
            for offset, value in sorted(final.records.items()):
                session, _, sequence = value.rpartition("/")
                first = expected.setdefault(session, int(sequence) if may_be_cut else 0)
                may_skip = may_be_cut and session in going_on and int(sequence) > first
                if int(sequence) != first and not may_skip:
                    what = f"{value} is in {name_of(partition)} where sequence {expected[session]} belongs"
                    yield Anomaly(type(self).__name__, what, (final.around(offset),))
                expected[session] = int(sequence) + 1


class AcknowledgedOffsetsGrow:
    """A send that begins after another was acknowledged gets a higher offset. ("real-time")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        sends: dict[tuple[TopicPartition, int], list[Operation]] = defaultdict(list)
        for partition, operation in acknowledged(history):
            if operation.result is not None:
                sends[partition, operation.incarnation].append(operation)
        for (partition, _), operations in sends.items():
            for earlier, later in backwards(operations, attrgetter("result")):
                what = f"{name_of(partition)} gave offset {later.result} after {earlier.result} had been acknowledged"
                yield Anomaly(type(self).__name__, what, (earlier, later))


def backwards(
    operations: list[Operation], offset_of: Callable[[Operation], int]
) -> Iterator[tuple[Operation, Operation]]:
    """Pairs of an acknowledged operation with a higher offset, and one that began after it was acknowledged."""
    completed = iter(sorted(operations, key=attrgetter("completed_at")))
    following = next(completed, None)
    highest: Operation | None = None
    for operation in sorted(operations, key=attrgetter("invoked_at")):
        while following is not None and attrgetter("completed_at")(following) < operation.invoked_at:
            if highest is None or offset_of(following) > offset_of(highest):
                highest = following
            following = next(completed, None)
        if highest is not None and offset_of(operation) < offset_of(highest):
            yield highest, operation
