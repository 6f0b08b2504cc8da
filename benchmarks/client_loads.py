"""Loads as in an application: confluent-kafka with its defaults (except one) and with idempotence.

The client runs in this process, so its threads share the machine with the server. With small records Python is the
limit, not the node. No consumer joins a group: partitions are assigned by hand.
"""

import json
import random
import time
from collections.abc import Sequence
from typing import Any

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from benchmarks.loadgen import LoadFailed

_FLUSH_TIMEOUT_S = 30
_FIRST_RECORD_TIMEOUT_S = 20
# Longer than it takes to fill a batch of each partition.
_FILL_LINGER_MS = 1000
_RECORDS_AT_ONCE = 10_000
# The values that a producer writes in turn, between two looks at the clock.
_VALUES = 1000
# When 64 MB are unread by the application, librdkafka stops fetching for a second, however fast the application then
# reads. With this default, a faster cluster would spend more of the time waiting.
_FULL_QUEUE_PAUSE_MS = 1


@attrs.frozen
class Throughput:
    records: int
    seconds: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds


@attrs.frozen
class Latency:
    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds


def zeros(size_bytes: int) -> list[bytes]:
    """Values for records of one size that are not compressed."""
    return [bytes(size_bytes)] * _VALUES


def documents(size_bytes: int) -> list[bytes]:
    """Different JSON documents of one size, which lz4 and zstd compress as they do an application's events.

    A batch of librdkafka has no value twice.
    """
    drawn = random.Random(size_bytes)
    values = []
    for number in range(_VALUES):
        fields = {f"field-{i}": drawn.choice(("a string", drawn.random(), i * number)) for i in range(size_bytes // 10)}
        values.append(json.dumps({"id": number, **fields}).encode()[:size_bytes])
    return values


def _producer(bootstrap: str, **config: object) -> Producer:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 3, **config}
    return Producer(settings)


def _warm(producer: Producer, topic: str) -> None:
    """Produce one record, so that connecting and InitProducerId are not measured."""
    producer.produce(topic, b"first")
    if producer.flush(_FLUSH_TIMEOUT_S):
        raise LoadFailed("the first record was not acknowledged")


def produce(bootstrap: str, topic: str, values: Sequence[bytes], seconds: float, **config: object) -> Throughput:
    """Produce for some seconds as fast as the client takes records, and wait until all are acknowledged.

    The records have these values in turn.
    """
    failed = 0

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        nonlocal failed
        failed += error is not None

    producer = _producer(bootstrap, on_delivery=on_delivery, **config)
    _warm(producer, topic)
    sent = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        try:
            for value in values:
                producer.produce(topic, value)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    left = producer.flush(_FLUSH_TIMEOUT_S)
    if left or failed:
        raise LoadFailed(f"{failed} of {sent} records failed, {left} were never acknowledged")
    return Throughput(sent, time.perf_counter() - began)


def fill(bootstrap: str, topic: str, partitions: int, records: int, values: Sequence[bytes], **config: object) -> None:
    """Produce records to all partitions in turn, in the largest batches that the client makes.

    So consumers of different servers read the same batches. Otherwise the client would choose partitions at random, and
    a server that acknowledges later would get larger batches.
    """
    producer = _producer(bootstrap, **{"linger.ms": _FILL_LINGER_MS, **config})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number // partitions % len(values)], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.01)
    if left := producer.flush(_FLUSH_TIMEOUT_S):
        raise LoadFailed(f"{left} of {records} records were never acknowledged")


def consume(bootstrap: str, topic: str, partitions: int, records: int, seconds: float, **config: object) -> Throughput:
    """Read a topic from its start: all `records`, or as many as some seconds allow. Timed from the first record."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": _FULL_QUEUE_PAUSE_MS,
        "log_level": 3,
        **config,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        first = consumer.consume(1, _FIRST_RECORD_TIMEOUT_S)
        if not first:
            raise LoadFailed("no record came")
        got = 0
        last = began = time.perf_counter()
        while got < records - 1 and last - began < seconds:
            messages = consumer.consume(min(_RECORDS_AT_ONCE, records - 1 - got), 0.5)
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
            got += len(messages)
            last = time.perf_counter()
        return Throughput(got, last - began)
    finally:
        consumer.close()


def _percentiles(latencies_s: list[float], seconds: float) -> Latency:
    ordered = sorted(latencies_s)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * q))] * 1e3 for q in (0.5, 0.99)]
    return Latency(len(ordered), seconds, *at)


class _Timed:
    """Measures the time from when a record was due to its delivery report."""

    def __init__(self, bootstrap: str, topic: str, size_bytes: int, **config: object) -> None:
        self.producer = _producer(bootstrap, **{"linger.ms": 0, "batch.num.messages": 1, **config})
        self.latencies_s: list[float] = []
        self.outstanding = 0
        self._topic = topic
        self._value = bytes(size_bytes)
        _warm(self.producer, topic)

    def send(self, due: float) -> None:
        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            self.latencies_s.append(time.perf_counter() - due)
            self.outstanding -= 1

        self.outstanding += 1
        self.producer.produce(self._topic, self._value, on_delivery=on_delivery)


def one_record_requests(bootstrap: str, topic: str, in_flight: int, seconds: float, **config: object) -> Latency:
    """Produce with linger.ms=0, one record per request, and a fixed number of requests in flight."""
    timed = _Timed(bootstrap, topic, 100, **{"max.in.flight": in_flight, **config})
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        while timed.outstanding < in_flight:
            timed.send(now)
        timed.producer.poll(0.1)
    elapsed = time.perf_counter() - began
    timed.producer.flush(_FLUSH_TIMEOUT_S)
    return _percentiles(timed.latencies_s, elapsed)


def paced_requests(bootstrap: str, topic: str, rate: int, seconds: float) -> Latency:
    """Produce one record per request at a fixed rate. Each is timed from when it was due, even if earlier ones are
    late.
    """
    timed = _Timed(bootstrap, topic, 100)
    began = time.perf_counter()
    for i in range(int(rate * seconds)):
        due = began + i / rate
        while (left := due - time.perf_counter()) > 0:
            timed.producer.poll(left)
        timed.send(due)
    timed.producer.flush(_FLUSH_TIMEOUT_S)
    return _percentiles(timed.latencies_s, time.perf_counter() - began)
