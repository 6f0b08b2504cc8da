"""Records with consecutive numbers in one partition: a writer at full speed and a reader that follows, in processes.

The writer is idempotent and writes in order. So the reader must find ascending numbers, each at most once, and all
acknowledged ones.
"""

import multiprocessing
import struct
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


def longest_gap(moments: list[float], begin: float, end: float) -> float:
    """The longest time without an acknowledgement that began or ended between two moments, in seconds."""
    known = [begin, *(moment for moment in moments if begin < moment)]
    gaps = [later - earlier for earlier, later in pairwise(known) if earlier < end]
    return max(gaps, default=end - begin)


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


def write(pipe: Connection, bootstrap: str, topic: str, size_bytes: int) -> None:
    """A worker: write until told to stop, flush, and return Written."""
    written = Written(bytearray(), [])
    producer = _producer(bootstrap)
    padding = bytes(size_bytes - _NUMBER.size)
    fates, moments = written.fates, written.moments
    last = 0.0

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal last
        value = message.value()
        assert isinstance(value, bytes), "it was written as bytes"
        number = _NUMBER.unpack_from(value)[0]
        fates[number] = _ACKNOWLEDGED if error is None else _FAILED
        now = time.monotonic()
        if error is None and now - last >= _RESOLUTION_S:
            moments.append(now)
            last = now

    while not pipe.poll():
        try:
            for _ in range(_AT_ONCE):
                producer.produce(topic, _NUMBER.pack(len(fates)) + padding, partition=0, on_delivery=on_delivery)
                fates.append(0)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    producer.flush(_FLUSH_TIMEOUT_S)
    pipe.send(written)


def _producer(bootstrap: str) -> Producer:
    """A producer with confluent-kafka's defaults, except that records do not expire during faults."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "delivery.timeout.ms": 300_000,
        "log_level": 0,
    }
    return Producer(settings)


def read(pipe: Connection, bootstrap: str, topic: str) -> None:
    """A worker: follow the partition from its start. When told its end, read up to there and return Read.

    The message is the number of written records, of which the last was acknowledged.
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
    while end is None or len(found.seen) < end:
        if end is None and pipe.poll():
            end = pipe.recv()
        for message in consumer.consume(10_000, 0.1):
            if message.error() is None:
                _note(found, message)
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
