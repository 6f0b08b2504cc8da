"""Promises to share groups with a dead-letter topic (KIP-1191)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.records import final_reads
from jepsen.checkers.share_records import Delivery, SharedRecords, SharePartition, completed, group_settings
from jepsen.history import History, Operation, Outcome
from jepsen.share_values import DeadLetter
from metadata.protocol import AcknowledgeType


class DeadLettersAreOfFailedRecords:
    """A dead letter is a copy of a record that was rejected, or delivered as often as the limit says."""

    def check(self, history: History) -> Iterator[Anomaly]:
        records, groups, finals = SharedRecords(history), group_settings(history), final_reads(history)
        for operation, letter in _dead_letters(history):
            partition = SharePartition(letter.group, letter.topic, letter.partition)
            final = finals.get((letter.topic, letter.partition))
            if final is None:
                continue
            if final.records.get(letter.offset) != letter.value:
                what = f"{partition}: the dead letter of {letter.offset} is {letter.value}"
                yield Anomaly(type(self).__name__, what, (final.around(letter.offset),))
            deliveries = records.of(partition, letter.offset)
            possible = len(deliveries) + records.unknown_before(partition, completed(operation))
            if not _may_be_rejected(deliveries) and possible < groups[letter.group].delivery_count_limit:
                what = f"{partition}: {letter.offset} is a dead letter, and has not failed"
                yield Anomaly(type(self).__name__, what, tuple(_outcomes(deliveries)))


class FailedRecordsAreDeadLetters:
    """At the end, each record that no member may have accepted is in the dead-letter topic of its group.

    Only those are missing that a node has reported as lost.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        copied = {
            (SharePartition(letter.group, letter.topic, letter.partition), letter.offset)
            for _, letter in _dead_letters(history)
        }
        if not any(True for _ in history.of("dead-letters", outcome=Outcome.OK)):
            return
        records, lost = SharedRecords(history), _lost(history)
        for (topic, index), final in final_reads(history).items():
            for group, settings in group_settings(history).items():
                partition = SharePartition(group, topic, index)
                for offset in final.records if settings.dead_letter_topic else ():
                    deliveries = records.of(partition, offset)
                    is_reported = any(first <= offset <= last for first, last in lost.get(partition, ()))
                    if (partition, offset) not in copied and not is_reported and not _may_be_accepted(deliveries):
                        what = f"{partition}: {offset} has failed, and is no dead letter"
                        yield Anomaly(type(self).__name__, what, tuple(_outcomes(deliveries)))


def _dead_letters(history: History) -> Iterator[tuple[Operation, DeadLetter]]:
    for operation in history.of("dead-letters", outcome=Outcome.OK):
        for letter in operation.result:
            yield operation, letter


def _lost(history: History) -> Mapping[SharePartition, Sequence[tuple[int, int]]]:
    """The first and the last offset of records that nodes could not copy."""
    lost: dict[SharePartition, list[tuple[int, int]]] = {}
    for operation in history.of("dead-letters-lost"):
        value = operation.value
        partition = SharePartition(value.group, value.topic, value.partition)
        lost.setdefault(partition, []).append((value.first_offset, value.last_offset))
    return lost


def _may_be_rejected(deliveries: Sequence[Delivery]) -> bool:
    return _may_be(deliveries, AcknowledgeType.REJECT)


def _may_be_accepted(deliveries: Sequence[Delivery]) -> bool:
    return _may_be(deliveries, AcknowledgeType.ACCEPT)


def _may_be(deliveries: Sequence[Delivery], kind: AcknowledgeType) -> bool:
    return any(each.kind is kind and each.may_be_stored for one in deliveries for each in one.acknowledgements)


def _outcomes(deliveries: Sequence[Delivery]) -> Iterator[Operation]:
    return (each.operation for delivery in deliveries for each in delivery.acknowledgements)


DEAD_LETTER_CHECKERS: Final[tuple[Checker, ...]] = (DeadLettersAreOfFailedRecords(), FailedRecordsAreDeadLetters())
