"""Topics for the benchmarks of Spark, filled by librdkafka."""

import random
import time
from collections.abc import Iterator
from typing import Final

import attrs
from confluent_kafka import Producer

from benchmarks.loadgen import LoadFailed

PARTITIONS: Final = 6
TIMEOUT_S: Final = 900
_CONTENT_BYTES: Final = 16 << 20
_STEP: Final = 7_919_003


@attrs.frozen
class Load:
    """The records that a topic is filled with."""

    name: str
    records: int
    size_bytes: int
    compression: str


def _values(load: Load) -> Iterator[bytes]:
    """Distinct values, which compress to half their size."""
    content = random.Random(1).randbytes(_CONTENT_BYTES // 2).hex().encode()
    last = len(content) - load.size_bytes
    for number in range(load.records):
        at = number * _STEP % last
        yield content[at : at + load.size_bytes]


def fill(bootstrap: str, topic: str, load: Load) -> float:
    """Write the records, each with its number as the key. Returns the elapsed seconds."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": load.compression,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 3,
        }
    )
    began = time.perf_counter()
    for number, value in enumerate(_values(load)):
        while True:
            try:
                producer.produce(topic, value, b"%d" % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
        if not number % 10_000:
            producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise LoadFailed("records were not acknowledged")
    return time.perf_counter() - began
