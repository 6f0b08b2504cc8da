"""Promises that acknowledged records are not lost."""

from collections import defaultdict
from collections.abc import Iterator

import attrs

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.records import TopicPartition, durable_sends, excerpt, final_reads, name_of, observations
from jepsen.history import History, Operation, Outcome


class AcknowledgedRecordsStay:
    """No write is lost: an acknowledged record is at its offset if later records were read. ("lost-write")

    This holds without limit in a flushed topic, and until the next power cut in others.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        for partition, operation in durable_sends(history, finals):
            final = finals.get(partition)
            if final is None or operation.result is None:
                continue
            for offset, value in enumerate(operation.value.values, operation.result):
                found = final.records.get(offset)
                if found != value and offset < final.end:
                    what = f"{value} was acknowledged at {offset}, where there is {found or 'nothing'}"
                    yield Anomaly(type(self).__name__, what, (operation, final.around(offset)))


class AcknowledgedRecordsAreRead:
    """The final read returns every acknowledged record. ("unseen")"""

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        seen = {partition: frozenset(final.records.values()) for partition, final in finals.items()}
        unread: dict[TopicPartition, Operation] = {}
        for partition, operation in durable_sends(history, finals):
            if partition not in finals:
                unread.setdefault(partition, operation)
                continue
            there = seen[partition]
            if not there.issuperset(operation.value.values):
                missing = next(value for value in operation.value.values if value not in there)
                final = finals[partition]
                what = f"{missing} was acknowledged, but is not among the {len(final.records)} records at the end"
                yield Anomaly(type(self).__name__, what, (operation, final.around(operation.result or final.end)))
        for partition, operation in unread.items():
            yield Anomaly(type(self).__name__, f"{name_of(partition)} could not be read at the end", (operation,))


class OnlySuffixesAreLost:
    """The remaining records of an incarnation are a prefix of it: a lost record takes all later ones with it.

    A record that was not acknowledged in that incarnation may have been sent again, and stored at the same offset.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        acknowledged: dict[str, int] = {}
        for (partition, incarnation), records in _records_by_incarnation(history).items():
            if partition not in finals:
                continue
            kept = finals[partition].records
            lost = {offset for offset, value in records.items() if kept.get(offset) != value}
            if not lost:
                continue
            first_lost, acknowledged = min(lost), acknowledged or _incarnations_of_acknowledged(history)
            later = [
                offset
                for offset, value in records.items()
                if offset > first_lost
                and offset not in lost
                and acknowledged.get(value, incarnation + 1) <= incarnation
            ]
            if later:
                what = (
                    f"{name_of(partition)} lost offset {first_lost} of incarnation {incarnation}, and kept {min(later)}"
                )
                proof = [
                    _last_observation(history, partition, incarnation, offset) for offset in (first_lost, min(later))
                ]
                yield Anomaly(type(self).__name__, what, (*proof, finals[partition].around(first_lost)))


def _records_by_incarnation(history: History) -> dict[tuple[TopicPartition, int], dict[int, str]]:
    incarnations: dict[tuple[TopicPartition, int], dict[int, str]] = defaultdict(dict)
    for partition, records, operation in observations(history):
        incarnations[partition, operation.incarnation].update(records)
    return incarnations


def _incarnations_of_acknowledged(history: History) -> dict[str, int]:
    """Map each acknowledged value to the incarnation of its acknowledgement."""
    return {
        value: operation.incarnation
        for operation in history.of("send", outcome=Outcome.OK)
        for value in operation.value.values
    }


def _last_observation(history: History, partition: TopicPartition, incarnation: int, offset: int) -> Operation:
    """The last operation that shows the record at an offset, as an excerpt."""
    *_, last = (
        operation
        for where, records, operation in observations(history)
        if where == partition and operation.incarnation == incarnation and any(at == offset for at, _ in records)
    )
    return excerpt(last, offset)


@attrs.frozen
class Losses:
    """The number of acknowledged records that are missing at the end, for runs in which losses are allowed (acks=1)."""

    acknowledged: int
    lost: int

    def __str__(self) -> str:
        share = self.lost / self.acknowledged if self.acknowledged else 0.0
        return f"{self.lost:,} of {self.acknowledged:,} acknowledged records ({share:.3%})"


def count_losses(history: History) -> Losses:
    """Count the acknowledged records that the final reads do not have."""
    finals = final_reads(history)
    seen = {partition: frozenset(final.records.values()) for partition, final in finals.items()}
    total = lost = 0
    for operation in history.of("send", outcome=Outcome.OK):
        there = seen.get((operation.value.topic, operation.value.partition))
        if there is not None:
            total += len(operation.value.values)
            lost += sum(value not in there for value in operation.value.values)
    return Losses(total, lost)
