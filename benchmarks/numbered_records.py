"""Records with consecutive numbers in one partition: a writer and a reader that follows, in processes of their own.

The writer is idempotent and writes in order. So the reader must find ascending numbers, each at most once, and all
acknowledged ones.
"""

import multiprocessing
import os
import struct
import sys
import time
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import attrs
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_NUMBER: Final = struct.Struct(">q")
_FLUSH_TIMEOUT_S: Final = 120.0
# Acknowledgements within this time after a recorded one are not recorded. A gap is far longer.
_RESOLUTION_S: Final = 0.001
_AT_ONCE: Final = 200
_PAUSE_S: Final = 0.001
# A reader that is told its end, and gets no record for so long, returns what it has: the others are lost.
_SILENCE_S: Final = 30.0
_ACKNOWLEDGED: Final = 1
_FAILED: Final = 2

T = TypeVar("T")


@attrs.frozen
class Written:
    """The writer's result. `fates` has a byte per number: acknowledged, failed, or neither. `moments` are the times of
    acknowledgements by `time.monotonic`, at least a millisecond apart.
    """

    fates: bytearray
    moments: list[float]

    @property
    def acknowledged(self) -> int:
        return self.fates.count(_ACKNOWLEDGED)

    @property
    def failed(self) -> int:
        return self.fates.count(_FAILED)


@attrs.frozen
class Read:
    """The reader's result. `seen` has a byte per number: whether it was read. `wrongs` are duplicates and records out
    of order.
    """

    seen: bytearray
    wrongs: list[str]


def lost(written: Written, read: Read) -> list[int]:
    """The numbers that were acknowledged and never read."""
    seen = read.seen.ljust(len(written.fates), b"\0")
    return [number for number, fate in enumerate(written.fates) if fate == _ACKNOWLEDGED and not seen[number]]


@attrs.frozen
class Gap:
    """A time without acknowledgements."""

    begin: float
    seconds: float


def longest_gap(moments: list[float], begin: float, end: float) -> Gap:
    """The longest time without an acknowledgement between two moments."""
    known = [begin, *(moment for moment in moments if begin < moment < end), end]
    gaps = [Gap(earlier, later - earlier) for earlier, later in pairwise(known)]
    return max(gaps, key=lambda gap: gap.seconds)


class Worker(Generic[T]):
    """A process that works until it is told to stop, and then returns its result."""

    def __init__(self, target: Any, *arguments: object) -> None:
        context: SpawnContext = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=target, args=(theirs, *arguments))

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def finish(self, last_word: object = None) -> T:
        """Stop the worker and return its result."""
        self._ours.send(last_word)
        found: T = self._ours.recv()
        return found

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        self._process.terminate()
        self._process.join()


def write(
    pipe: Connection, bootstrap: str, topic: str, size_bytes: int, rate: float, backoff_ms: int, log: str
) -> None:
    """A worker: write `rate` records a second until told to stop, flush, and return Written.

    A rate of 0 stands for full speed. The producer waits `backoff_ms` before it repeats a request. librdkafka's log of
    its connections and partitions is written to the file `log`.
    """
    written = Written(bytearray(), [])
    producer = _producer(bootstrap, backoff_ms, log)
    padding = bytes(size_bytes - _NUMBER.size)
    fates, moments = written.fates, written.moments

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes), "it was written as bytes"
        number = _NUMBER.unpack_from(value)[0]
        fates[number] = _ACKNOWLEDGED if error is None else _FAILED
        now = time.monotonic()
        if error is None and (not moments or now - moments[-1] >= _RESOLUTION_S):
            moments.append(now)

    began = time.monotonic()
    while not pipe.poll():
        due = int((time.monotonic() - began) * rate) - len(fates) if rate else _AT_ONCE
        try:
            for _ in range(min(due, _AT_ONCE)):
                producer.produce(topic, _NUMBER.pack(len(fates)) + padding, partition=0, on_delivery=on_delivery)
                fates.append(0)
            producer.poll(0 if due > 0 else _PAUSE_S)
        except BufferError:
            producer.poll(0.01)
    producer.flush(_FLUSH_TIMEOUT_S)
    pipe.send(written)


def _producer(bootstrap: str, backoff_ms: int, log: str) -> Producer:
    """A producer with confluent-kafka's defaults, except that records do not expire during faults."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), sys.stderr.fileno())
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "delivery.timeout.ms": 300_000,
        "retry.backoff.ms": backoff_ms,
        "debug": "broker,topic",
        "log_level": 7,
    }
    return Producer(settings)


def read(pipe: Connection, bootstrap: str, topic: str) -> None:
    """A worker: follow the partition from its start. When told its end, read up to there and return Read.

    The message is the number of written records. Without a record for `_SILENCE_S` seconds after it, the rest is lost.
    """
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "numbered-records",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = Read(bytearray(), [])
    end: int | None = None
    silent_since = time.monotonic()
    while end is None or (len(found.seen) < end and time.monotonic() < silent_since + _SILENCE_S):
        if end is None and pipe.poll():
            end, silent_since = pipe.recv(), time.monotonic()
        for message in consumer.consume(10_000, 0.1):
            if message.error() is None:
                _note(found, message)
                silent_since = time.monotonic()
    consumer.close()
    pipe.send(found)


def _note(found: Read, message: Message) -> None:
    value = message.value()
    assert isinstance(value, bytes), "it was written as bytes"
    number = _NUMBER.unpack_from(value)[0]
    seen = found.seen
    if number == len(seen):
        seen.append(1)
    elif number > len(seen):
        seen.extend(bytes(number - len(seen)))
        seen.append(1)
    else:
        what = "a second time" if seen[number] else f"behind {len(seen) - 1}"
        found.wrongs.append(f"record {number} was read {what}, at offset {message.offset()}")
