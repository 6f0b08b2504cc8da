"""Promises that records are written once and processed once."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import attrs

from jepsen.checkers.applications.views import group_views
from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import TopicPartition, excerpt, name_of, records_read
from jepsen.history import History, Operation, Outcome

# A partition and an offset.
Place = tuple[TopicPartition, int]


@attrs.define(eq=False)
class NamedRecords:
    """The records of one name in a topic: those that sends were acknowledged for, others that were read, and sends
    without a known place.
    """

    acknowledged: dict[Place, Operation] = attrs.field(factory=dict)
    read: dict[Place, Operation] = attrs.field(factory=dict)
    placeless: list[Operation] = attrs.field(factory=list)

    @property
    def places(self) -> list[Place]:
        return sorted({*self.acknowledged, *self.read})

    @property
    def unexplained(self) -> list[Place]:
        """The places that no acknowledgement told."""
        return sorted(self.read.keys() - self.acknowledged.keys())

    def proof(self) -> tuple[Operation, ...]:
        first_reads: dict[int, Operation] = {}
        for place, operation in sorted(self.read.items(), key=_place):
            first_reads.setdefault(id(operation), excerpt(operation, place[1]))
        return (*self.acknowledged.values(), *self.placeless, *first_reads.values())


def named_records(history: History, topics: Iterable[str] | None = None) -> dict[tuple[str, str], NamedRecords]:
    """All records by topic and name; of all topics by default.

    Sends that certainly failed have no record. Those of aborted transactions may be seen by consumers that read
    uncommitted records.
    """
    found: dict[tuple[str, str], NamedRecords] = defaultdict(NamedRecords)
    wanted = None if topics is None else set(topics)
    for operation in history.of("send"):
        sent = operation.value
        if wanted is not None and sent.topic not in wanted:
            continue
        for at, name in enumerate(sent.values):
            records = found[sent.topic, name]
            if operation.outcome is Outcome.OK and operation.result is not None:
                records.acknowledged.setdefault(((sent.topic, sent.partition), operation.result + at), operation)
            elif operation.outcome is not Outcome.FAIL or sent.transaction:
                records.placeless.append(operation)
    for partition, its_records, operation in records_read(history):
        if wanted is None or partition[0] in wanted:
            for offset, name in its_records:
                found[partition[0], name].read.setdefault((partition, offset), operation)
    return found


class SendsAreWrittenOnce:
    """A send writes one record at most, whatever the producer retried."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for (topic, name), records in named_records(history).items():
            sends = len(records.acknowledged) + len(records.placeless)
            if sends and len(records.unexplained) > len(records.placeless):
                what = f"{name} was sent {times(sends)} to {topic}, and is at {places_text(records.places)}"
                yield Anomaly(type(self).__name__, what, records.proof())


class EachNameOnce:
    """A topic has one record of each name, however often the application sent it."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for (_, name), records in named_records(history).items():
            if len(records.places) > 1:
                what = f"{name} is at {places_text(records.places)}"
                yield Anomaly(type(self).__name__, what, records.proof())


class NothingAbortedIsReceived:
    """No read has a record of a transaction that was aborted, unless another send of the same name explains it."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for (topic, name), records in named_records(history).items():
            aborted = [each for each in records.placeless if each.outcome is Outcome.FAIL]
            if aborted and len(records.unexplained) > len(records.placeless) - len(aborted):
                transaction = aborted[0].value.transaction
                what = f"{name} of {topic} was sent in {transaction}, which was aborted, and is read at "
                yield Anomaly(type(self).__name__, what + places_text(records.unexplained), records.proof())


class RecordsAreProcessedOnce:
    """A group processes a record once, if it records what it processes."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for (group, partition), view in group_views(history).items():
            for offset, operations in sorted(view.processed.items()):
                done = [each for each in operations if each.outcome is Outcome.OK]
                if len(done) > 1:
                    what = f"{group} has processed offset {offset} of {name_of(partition)} {times(len(done))}"
                    yield Anomaly(type(self).__name__, what, tuple(done))


def times(count: int) -> str:
    """How often something happened."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def places_text(places: Iterable[Place]) -> str:
    """Places as a text: the offsets by their partitions."""
    by_partition: dict[TopicPartition, list[str]] = defaultdict(list)
    for partition, offset in places:
        by_partition[partition].append(str(offset))
    return " and ".join(f"{', '.join(offsets)} of {name_of(each)}" for each, offsets in by_partition.items())


def _place(item: tuple[Place, Operation]) -> Place:
    return item[0]
