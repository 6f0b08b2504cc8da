"""Loads of transactional clients: commits, aborted records to be passed over, and numbered idempotent batches."""

import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import attrs
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks import protocol
from benchmarks.loadgen import LoadFailed
from broker.client import Consumer as OwnConsumer
from broker.client import TopicPartition as OwnPartition
from kraft.checksums import crc32c

_TIMEOUT_S: Final = 60
_RECORDS_AT_ONCE: Final = 10_000
# Where a frame of `protocol.produce` has its batch, counted from the end: three tagged fields follow the batch.
_AFTER_BATCH: Final = 3
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT, _SEQUENCE_AT = 17, 21, 43, 53
_PRODUCER: Final = struct.Struct(">qhi")
_CRC: Final = struct.Struct(">I")
# A transaction that is committed follows so many that are aborted.
COMMITTED_EVERY: Final = 100


@attrs.frozen
class Commits:
    """The transactions of all producers together, and the times from begin to the return of commit, ascending."""

    per_s: float
    latencies_s: Sequence[float]

    def quantile_ms(self, q: float) -> float:
        return 1e3 * self.latencies_s[min(len(self.latencies_s) - 1, int(len(self.latencies_s) * q))]


def _transactional(bootstrap: str, transactional_id: str) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "linger.ms": 0,
        "log_level": 3,
    }
    producer = Producer(settings)
    producer.init_transactions(_TIMEOUT_S)
    return producer


def commit(
    bootstrap: str, topic: str, producers: int, records: int, size_bytes: int, seconds: float, name: str
) -> Commits:
    """Commit transactions of `records` records for some seconds, one after the other with each producer."""
    value = bytes(size_bytes)
    ready = threading.Barrier(producers + 1)

    def run(number: int) -> list[float]:
        producer = _transactional(bootstrap, f"{name}-{number}")
        _transact(producer, topic, [value])  # connects to the leader and registers the partition
        ready.wait()
        latencies: list[float] = []
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            _transact(producer, topic, [value] * records)
            latencies.append(time.perf_counter() - began)
        return latencies

    with ThreadPoolExecutor(producers) as pool:
        running = [pool.submit(run, number) for number in range(producers)]
        try:
            ready.wait(_TIMEOUT_S)
        except threading.BrokenBarrierError:
            ready.abort()
        began = time.perf_counter()
        latencies = sorted(latency for each in running for latency in each.result())
        return Commits(len(latencies) / (time.perf_counter() - began), latencies)


def _transact(producer: Producer, topic: str, values: Sequence[bytes], *, aborts: bool = False) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    if aborts:
        if producer.flush(_TIMEOUT_S):  # an abort drops records that are not sent yet
            raise LoadFailed("the records of a transaction were not acknowledged")
        producer.abort_transaction(_TIMEOUT_S)
    else:
        producer.commit_transaction(_TIMEOUT_S)


def fill_aborted(bootstrap: str, topic: str, transactions: int, records: int, producers: int) -> int:
    """Write `transactions` aborted transactions of `records` records of 100 bytes to partition 0.

    The first and the last transaction, and one after each `COMMITTED_EVERY`, are committed, of one record. Returns
    their number.
    """
    value = bytes(100)
    _transact(_transactional(bootstrap, f"{topic}-first"), topic, [value])

    def run(number: int) -> int:
        producer = _transactional(bootstrap, f"{topic}-{number}")
        committed = 0
        for at in range(number, transactions, producers):
            _transact(producer, topic, [value] * records, aborts=True)
            if at % COMMITTED_EVERY == 0:
                _transact(producer, topic, [value])
                committed += 1
        return committed

    with ThreadPoolExecutor(producers) as pool:
        committed = sum(pool.map(run, range(producers)))
    _transact(_transactional(bootstrap, f"{topic}-last"), topic, [value])
    return committed + 2


def read_committed_confluent(bootstrap: str, topic: str, committed: int) -> float:
    """Read all committed records of partition 0 with confluent-kafka. Returns the seconds from the first of them on."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "fetch.queue.backoff.ms": 1,  # by default librdkafka stops for a second when the application is slow
        "log_level": 3,
    }
    consumer = Consumer(settings)

    def read(wanted: int) -> int:
        messages = consumer.consume(min(_RECORDS_AT_ONCE, wanted), 0.5)
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
        return len(messages)

    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return _timed(read, committed)
    finally:
        consumer.close()


def _timed(read: Callable[[int], int], wanted: int) -> float:
    deadline = time.perf_counter() + _TIMEOUT_S
    left = wanted
    while left == wanted and time.perf_counter() < deadline:
        left -= read(1)
    began = time.perf_counter()
    while left and time.perf_counter() < deadline:
        left -= read(left)
    if left:
        raise LoadFailed(f"{left} of {wanted} committed records did not come")
    return time.perf_counter() - began


def read_committed_own(bootstrap: str, topic: str, committed: int) -> float:
    """As `read_committed_confluent`, with this project's client."""

    async def run() -> float:
        async with OwnConsumer(bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            consumer.assign([OwnPartition(topic, 0)])
            left = committed
            with trio.fail_after(_TIMEOUT_S):
                while left == committed:
                    left -= len(await consumer.fetch(1, 0.5))
                began = time.perf_counter()
                while left:
                    left -= len(await consumer.fetch(min(_RECORDS_AT_ONCE, left), 0.5))
            return time.perf_counter() - began

    return trio.run(run)


def numbered_requests(topic: str, batch: bytes, count: int, producer_id: int) -> bytes:
    """`count` frames of Produce requests to partition 0, whose batches of one record have rising sequence numbers."""
    frame = bytearray(protocol.produce(topic, 0, batch))
    start = len(frame) - _AFTER_BATCH - len(batch)
    end = start + len(batch)
    frames = []
    for sequence in range(count):
        _PRODUCER.pack_into(frame, start + _PRODUCER_AT, producer_id, 0, sequence)
        _CRC.pack_into(frame, start + _CRC_AT, crc32c(memoryview(frame)[start + _ATTRIBUTES_AT : end]))
        frames.append(bytes(frame))
    return protocol.join(frames)
