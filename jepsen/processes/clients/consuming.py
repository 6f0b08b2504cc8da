"""A consumer with all partitions assigned, which starts again at offsets of its choice; and the final reader."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from jepsen.history import Operation
from jepsen.processes.clients.client import Client
from jepsen.values import Polling

_BATCH: Final = 1_000
_WAIT_SECONDS: Final = 0.3
# How long one assignment lasts, in seconds.
_LIVES: Final = (5.0, 20.0)
# How far back a new assignment goes at most, where it does not begin at zero.
_BACK_MAX: Final = 20_000
# The final read starts again after an error. After this time, it is recorded as unanswered.
_FINAL_SECONDS: Final = 60.0
# A leader that was deposed, and has not heard of it, does not know the epoch of what its successor wrote. A client that
# has just started may be told of no other leader, and takes that for a log that was cut (KIP-320 has no error for it).
_UNKNOWN_EPOCH: Final = "broker end offset is -1 "
# Errors about lost or damaged records, which do not pass.
_BREACHES: Final = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._LOG_TRUNCATION,
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError.OFFSET_OUT_OF_RANGE,
)


def consume(client: Client) -> None:
    """Consume until the client has to stop."""
    known = {partition: _Known() for partition in range(client.plan.partitions)}
    lives = 0
    while not client.stopping.is_set():
        starts = {partition: _start(client, read) for partition, read in known.items()}
        reader = _Reader(client, f"{client.plan.name}.{lives}", starts)
        until = client.now() + client.rng.uniform(*_LIVES)
        while not client.stopping.is_set() and client.now() < until and reader.is_whole:
            reader.poll()
        reader.close()
        for partition, epochs in reader.epochs.items():
            known[partition].add(epochs)
        lives += 1


def read_to_the_end(client: Client) -> None:
    """Everything of every partition from offset zero to the high watermark; recorded as `final-read`."""
    for partition in range(client.plan.partitions):
        at = TopicPartition(client.plan.topic, partition, 0)
        operation = client.history.invoke(client.plan.name, "final-read", (at.topic, partition))
        deadline = time.monotonic() + _FINAL_SECONDS
        while time.monotonic() < deadline:
            try:
                client.history.ok(operation, _read_all(client, at))
                break
            except KafkaException as error:
                reason = error.args[0]
                if isinstance(reason, KafkaError) and reason.code() in _BREACHES:
                    client.history.fail(operation, str(reason))
                    break
        else:
            client.history.info(operation, "no answer")


def _read_all(client: Client, at: TopicPartition) -> list[tuple[int, str]]:
    """Raises KafkaException."""
    consumer = Consumer(_settings(client))
    records: list[tuple[int, str]] = []
    try:
        consumer.assign([at])
        _, end = consumer.get_watermark_offsets(at, timeout=5)
        while not records or records[-1][0] < end - 1:
            if end == 0:
                break
            messages = consumer.consume(_BATCH, _WAIT_SECONDS)
            for message in messages:
                _raise_error_of(message)
                records.append(record_of(message))
    finally:
        consumer.close()
    return records


@attrs.frozen
class _Position:
    """Where to go on, and the leader epoch of the record before: librdkafka asks whether that is still there.

    Without the epoch, a leader that was deposed and has not heard of it could say that there is no such offset.
    """

    offset: int
    epoch: int = -1


class _Known:
    """The records that were read of a partition, which are all from its beginning to `end`, and their leader epochs."""

    def __init__(self) -> None:
        self.end = 0
        self._first_of: dict[int, int] = {}

    def add(self, epochs: Sequence[tuple[int, int, int]]) -> None:
        """Runs of records: first offset, last offset, epoch."""
        for first, last, epoch in epochs:
            self._first_of[epoch] = min(first, self._first_of.get(epoch, first))
            self.end = max(self.end, last + 1)

    def position(self, offset: int) -> _Position:
        before = [epoch for epoch, first in self._first_of.items() if first < offset]
        return _Position(offset, max(before, default=-1))


class _Reader:
    """One assignment. Only polls that return something are operations; and, at its end, which leader epochs it saw."""

    def __init__(self, client: Client, name: str, starts: Mapping[int, _Position]) -> None:
        self.positions = dict(starts)
        self.is_whole = True
        # (first offset, last offset, epoch), by partition.
        self.epochs: dict[int, list[tuple[int, int, int]]] = {}
        self._client = client
        self._name = name
        self._consumer = Consumer(_settings(client))
        topic = client.plan.topic
        self._consumer.assign(
            [
                TopicPartition(topic, partition, start.offset, leader_epoch=start.epoch)
                for partition, start in starts.items()
            ]
        )

    def poll(self) -> None:
        began = self._client.now()
        messages = self._consumer.consume(_BATCH, _WAIT_SECONDS)
        by_partition: dict[int, list[Message]] = {}
        for message in messages:
            by_partition.setdefault(message.partition() or 0, []).append(message)
        for partition, its_messages in by_partition.items():
            self._record(partition, its_messages, began)

    def close(self) -> None:
        self._consumer.close()
        history = self._client.history
        for partition, epochs in self.epochs.items():
            seen = history.invoke(self._name, "see-epochs", (self._client.plan.topic, partition))
            history.ok(seen, epochs)

    def _record(self, partition: int, messages: Sequence[Message], began: float) -> None:
        history = self._client.history
        polling = Polling(self._client.plan.topic, partition, self.positions[partition].offset)
        good = [message for message in messages if message.error() is None]
        if good:
            records = [record_of(message) for message in good]
            history.ok(self._invoked(polling, began), records)
            self.positions[partition] = _Position(records[-1][0] + 1, self._see_epochs(partition, good))
        for error in filter(None, (message.error() for message in messages)):
            is_breach = error.code() in _BREACHES
            self.is_whole = self.is_whole and not is_breach
            if is_breach and _UNKNOWN_EPOCH not in str(error):
                history.fail(self._invoked(polling, began), str(error))
            else:
                history.info(self._invoked(polling, began), error.name())

    def _see_epochs(self, partition: int, messages: Sequence[Message]) -> int:
        """Record the leader epochs of the messages, and return the last one; -1 if the messages have none."""
        runs = self.epochs.setdefault(partition, [])
        epoch = -1
        for message in messages:
            told, offset = message.leader_epoch(), message.offset()
            epoch = -1 if told is None else told
            assert offset is not None, "a record"
            if runs and runs[-1][2] == epoch:
                runs[-1] = (runs[-1][0], offset, epoch)
            else:
                runs.append((offset, offset, epoch))
        return epoch

    def _invoked(self, polling: Polling, began: float) -> Operation:
        return self._client.history.invoke(self._name, "poll", polling, at=began)


def _settings(client: Client) -> dict[str, object]:
    return {
        **client.settings(),
        # Asked for by librdkafka; no group is ever joined.
        "group.id": client.plan.name,
        "enable.auto.commit": "false",
        "auto.offset.reset": "error",
        "check.crcs": "true",
        "fetch.wait.max.ms": 250,
        "fetch.error.backoff.ms": 50,
    }


def _start(client: Client, known: _Known) -> _Position:
    chance = client.rng.random()
    if chance < 0.3:
        return known.position(0)
    if chance < 0.6:
        return known.position(known.end)
    return known.position(client.rng.randint(max(0, known.end - _BACK_MAX), known.end))


def record_of(message: Message) -> tuple[int, str]:
    """A record's offset and its value without padding."""
    offset, content = message.offset(), message.value()
    assert offset is not None, "a record"
    assert isinstance(content, bytes), "a record of ours"
    return offset, content.rpartition(b"/")[0].decode()


def _raise_error_of(message: Message) -> None:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
