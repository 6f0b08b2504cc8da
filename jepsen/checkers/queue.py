"""What is promised about records. Values are unique, and partitions have no gaps, so offsets say everything.

A "life" lies between two power cuts. What a log without flush.messages had at the end of one may be lost, but only
from the end backwards.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TypeAlias

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.history import History, Operation, Outcome

TopicPartition: TypeAlias = tuple[str, int]


class AcknowledgedRecordsStay:
    """An acknowledged record is there, at its offset: for good in a flushed topic, else up to the next power cut."""

    def check(self, history: History) -> Iterator[Anomaly]:
        final, flushed = final_records(history), flushed_topics(history)
        for operation in history.of("send", outcome=Outcome.OK):
            sending = operation.value
            read = final.get((sending.topic, sending.partition))
            if read is None:
                continue
            records, last_life = read
            if sending.topic not in flushed and operation.life != last_life:
                continue
            for at, value in enumerate(sending.values):
                if records.get(operation.result + at) != value:
                    found = records.get(operation.result + at)
                    what = f"{value} was acknowledged at {operation.result + at}, where there is {found}"
                    yield Anomaly(type(self).__name__, what, (operation,))


class OffsetsNeverChange:
    """Within a life, everyone who reads an offset reads the same."""

    def check(self, history: History) -> Iterator[Anomaly]:
        seen: dict[tuple[TopicPartition, int, int], tuple[str, Operation]] = {}
        for partition, offset, value, operation in observations(history):
            first, by = seen.setdefault((partition, operation.life, offset), (value, operation))
            if first != value:
                yield Anomaly(
                    type(self).__name__, f"offset {offset} of {partition} is {first}, and {value}", (by, operation)
                )


class LossesAreOfTheEnd:
    """What is left of a life is a prefix of it: a record that is gone takes all later ones with it.

    A record that was not acknowledged in that life may have been sent again, and have come to the same offset.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        final = final_records(history)
        acknowledged = {
            value: operation.life
            for operation in history.of("send", outcome=Outcome.OK)
            for value in operation.value.values
        }
        lives: dict[tuple[TopicPartition, int], dict[int, str]] = defaultdict(dict)
        for partition, offset, value, operation in observations(history):
            lives[partition, operation.life][offset] = value
        for (partition, life), records in lives.items():
            kept = final.get(partition, ({}, 0))[0]
            lost = {offset for offset, value in records.items() if kept.get(offset) != value}
            first_lost = min(lost, default=None)
            if first_lost is None or partition not in final:
                continue
            later = [
                offset
                for offset, value in records.items()
                if offset > first_lost and offset not in lost and acknowledged.get(value, life + 1) <= life
            ]
            if later:
                what = f"{partition} lost offset {first_lost} of life {life}, and kept {min(later)}"
                yield Anomaly(type(self).__name__, what)


class NothingTwice:
    """A value is at one offset of one partition at most: retries of an idempotent producer do not show."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for partition, (records, _) in final_records(history).items():
            offsets: dict[str, int] = {}
            for offset, value in records.items():
                first = offsets.setdefault(value, offset)
                if first != offset:
                    yield Anomaly(type(self).__name__, f"{value} is in {partition} at {first} and at {offset}")


class NothingFromNowhere:
    """What is read was sent."""

    def check(self, history: History) -> Iterator[Anomaly]:
        sent = {value for operation in history.of("send") for value in operation.value.values}
        for partition, offset, value, operation in observations(history):
            if value not in sent:
                what = f"offset {offset} of {partition} holds {value!r}, which nobody sent"
                yield Anomaly(type(self).__name__, what, (operation,))


class SessionsAreInOrder:
    """The records of an idempotent session are in a partition in its order, and without a gap from its first.

    A partition that has lost all of a producer's records to a power cut knows nothing of the producer, and takes any
    sequence number from it, as Kafka does.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        flushed = flushed_topics(history)
        for partition, (records, last_life) in final_records(history).items():
            may_be_cut = last_life > 0 and partition[0] not in flushed
            expected: dict[str, int] = {}
            for _, value in sorted(records.items()):
                session, _, sequence = value.rpartition("/")
                if int(sequence) != expected.setdefault(session, int(sequence) if may_be_cut else 0):
                    what = f"{value} is in {partition} where sequence {expected[session]} belongs"
                    yield Anomaly(type(self).__name__, what)
                expected[session] = int(sequence) + 1


class PollsSkipNothing:
    """A poll returns the records from the offset on that was asked for, one after the other."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("poll", "final-read", outcome=Outcome.OK):
            first = operation.value.offset if operation.function == "poll" else 0
            offsets = [offset for offset, _ in operation.result]
            if offsets != list(range(first, first + len(offsets))):
                yield Anomaly(type(self).__name__, f"from {first} on there came {offsets[:20]}", (operation,))


class NothingIsCorrupt:
    """Whatever a node serves are whole batches with the right checksums."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for operation in history.of("poll", "final-read", outcome=Outcome.FAIL):
            yield Anomaly(type(self).__name__, str(operation.result), (operation,))


def final_records(history: History) -> dict[TopicPartition, tuple[dict[int, str], int]]:
    """Each partition's records by offset, as they were after the end of all troubles, and the life of that."""
    return {
        operation.value: (dict(operation.result), operation.life)
        for operation in history.of("final-read", outcome=Outcome.OK)
    }


def observations(history: History) -> Iterator[tuple[TopicPartition, int, str, Operation]]:
    """Everything anyone was told to be at an offset: acknowledged sends, and reads."""
    for operation in history.of("send", "poll", "final-read", outcome=Outcome.OK):
        if operation.function == "send":
            sending = operation.value
            for at, value in enumerate(sending.values):
                yield (sending.topic, sending.partition), operation.result + at, value, operation
        else:
            value = operation.value
            partition = value if operation.function == "final-read" else (value.topic, value.partition)
            for offset, content in operation.result:
                yield partition, offset, content, operation


def flushed_topics(history: History) -> set[str]:
    return {operation.value.name for operation in history.of("create-topic") if operation.value.is_flushed}


QUEUE_CHECKERS: tuple[Checker, ...] = (
    AcknowledgedRecordsStay(),
    OffsetsNeverChange(),
    LossesAreOfTheEnd(),
    NothingTwice(),
    NothingFromNowhere(),
    SessionsAreInOrder(),
    PollsSkipNothing(),
    NothingIsCorrupt(),
)
