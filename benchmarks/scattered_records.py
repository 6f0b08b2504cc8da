"""Numbered records in all partitions of a topic: a writer at a constant rate, and a reader of all records at the end.

Number n goes to partition n modulo the number of partitions, so numbers ascend within a partition. The writer is
idempotent, so each number occurs at most once, and all acknowledged ones must be there.
"""

import struct
import time
from multiprocessing.connection import Connection
from typing import Any, Final

import attrs
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks.loadgen import LoadFailed

_NUMBER: Final = struct.Struct(">q")
_FLUSH_TIMEOUT_S: Final = 120.0
_READ_TIMEOUT_S: Final = 120.0
_AT_ONCE: Final = 10_000


@attrs.define
class Scattered:
    """The writer's result. `fates` has the time at which each number was acknowledged, 0 if it was not, -1 if it
    failed.

    `sent_at` has the times of sending. Times are by `time.monotonic`.
    """

    fates: list[float] = attrs.field(factory=list)
    sent_at: list[float] = attrs.field(factory=list)

    @property
    def acknowledged(self) -> list[int]:
        return [number for number, moment in enumerate(self.fates) if moment > 0]

    def latencies_ms(self, begin: float, end: float) -> list[float]:
        """The latencies, in ascending order, of acknowledged records that were sent between two moments."""
        pairs = zip(self.sent_at, self.fates, strict=True)
        return sorted(1000 * (fate - sent) for sent, fate in pairs if fate > 0 and begin <= sent < end)


@attrs.frozen
class Found:
    """The reader's result: the numbers that it read, and duplicates and numbers out of order."""

    seen: set[int]
    wrongs: list[str]


def write(pipe: Connection, bootstrap: str, topic: str, partitions: int, size_bytes: int, per_second: float) -> None:
    """A worker: write until told to stop, flush, and return Scattered."""
    producer = Producer(_producer_settings(bootstrap))
    padding = bytes(size_bytes - _NUMBER.size)
    scattered = Scattered()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes), "it was written as bytes"
        number = _NUMBER.unpack_from(value)[0]
        scattered.fates[number] = time.monotonic() if error is None else -1

    began = time.monotonic()
    while not pipe.poll():
        number = len(scattered.sent_at)
        if number > (time.monotonic() - began) * per_second:
            producer.poll(0.001)
            continue
        try:
            producer.produce(
                topic, _NUMBER.pack(number) + padding, partition=number % partitions, on_delivery=on_delivery
            )
        except BufferError:
            producer.poll(0.01)
            continue
        scattered.fates.append(0)
        scattered.sent_at.append(time.monotonic())
        producer.poll(0)
    pipe.recv()
    producer.flush(_FLUSH_TIMEOUT_S)
    pipe.send(scattered)


def _producer_settings(bootstrap: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "delivery.timeout.ms": 300_000,
        "linger.ms": 5,
        "log_level": 0,
    }


def fill(bootstrap: str, topic: str, partitions: int, bytes_each: int, record_bytes: int) -> None:
    """Write `bytes_each` to every partition, in records with a negative number. Raises LoadFailed."""
    producer = Producer({**_producer_settings(bootstrap), "queue.buffering.max.messages": 20_000})
    value = _NUMBER.pack(-1) + bytes(record_bytes - _NUMBER.size)
    for _ in range(bytes_each // record_bytes):
        for partition in range(partitions):
            while True:
                try:
                    producer.produce(topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    if producer.flush(_FLUSH_TIMEOUT_S):
        raise LoadFailed("not everything was acknowledged")


def read_all(bootstrap: str, topic: str, partitions: int) -> Found:
    """Read all present records, from offset zero."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "scattered", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(settings)
    ends = {
        partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1]
        for partition in range(partitions)
    }
    consumer.assign([TopicPartition(topic, partition, 0) for partition, end in ends.items() if end])
    found, latest = Found(set(), []), dict[int, int]()
    open_ends = {partition: end for partition, end in ends.items() if end}
    deadline = time.monotonic() + _READ_TIMEOUT_S
    while open_ends and time.monotonic() < deadline:
        for message in consumer.consume(_AT_ONCE, 0.5):
            if message.error() is not None:
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            _note(found, latest, partition, message)
            if offset + 1 >= open_ends.get(partition, offset + 2):
                del open_ends[partition]
    consumer.close()
    found.wrongs.extend(f"partition {partition} cannot be read to its end" for partition in open_ends)
    return found


def _note(found: Found, latest: dict[int, int], partition: int, message: Message) -> None:
    value = message.value()
    assert isinstance(value, bytes), "it was written as bytes"
    number = _NUMBER.unpack_from(value)[0]
    if number < 0:
        return
    if number in found.seen:
        found.wrongs.append(f"record {number} was read a second time, at offset {message.offset()}")
    elif number < latest.get(partition, -1):
        found.wrongs.append(f"record {number} was read behind {latest[partition]}, at offset {message.offset()}")
    found.seen.add(number)
    latest[partition] = max(number, latest.get(partition, -1))
