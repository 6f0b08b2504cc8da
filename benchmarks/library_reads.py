"""One load that reads with one client library, in a process of its own, like `library_loads`, which writes.

python -m benchmarks.library_reads consume kraft 127.0.0.1:9092 topic --seconds 2 --records 1000000

All partitions are read without a group, from the beginning: in batches ("consume"), or record by record ("iterate").
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import trio
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer

from benchmarks.library_loads import Load, LoadResult, Stopwatch, main
from benchmarks.loadgen import LoadFailed
from broker.client import AsyncioConsumer, Consumer, TopicPartition

_BATCH_RECORDS: Final = 10_000
_WAIT_S: Final = 0.5
_FIRST_RECORD_TIMEOUT_S: Final = 20
# The number of records after which the time is checked at the latest.
_CLOCK_EVERY: Final = 1_000


class Reading:
    """Counts the records read, without the first ones, which are not timed."""

    def __init__(self, load: Load, first: int) -> None:
        self._wanted = load.records - first
        self._seconds = load.seconds
        self._read = 0
        self._watch = Stopwatch()

    @property
    def goes_on(self) -> bool:
        """False when all records are read or the time is over."""
        if self._read >= self._wanted:
            return False
        return self._watch.seconds < self._seconds

    def add(self, count: int) -> None:
        self._read += count

    def done(self) -> LoadResult:
        return self._watch.done(self._read)


async def _assign_all(consumer: Consumer, topic: str) -> None:
    consumer.assign([TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)])


def consume_kraft(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with Consumer(load.bootstrap, auto_offset_reset="earliest") as consumer:
            await _assign_all(consumer, load.topic)
            reading = Reading(load, len(await consumer.fetch(1)))
            while reading.goes_on:
                reading.add(len(await consumer.fetch(_BATCH_RECORDS, _WAIT_S)))
            return reading.done()

    return trio.run(run)


def consume_kraft_asyncio(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with AsyncioConsumer(load.bootstrap, auto_offset_reset="earliest") as consumer:
            await _assign_all_asyncio(consumer, load.topic)
            reading = Reading(load, len(await consumer.fetch(1)))
            while reading.goes_on:
                reading.add(len(await consumer.fetch(_BATCH_RECORDS, _WAIT_S)))
            return reading.done()

    return asyncio.run(run())


def iterate_kraft_asyncio(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with AsyncioConsumer(load.bootstrap, auto_offset_reset="earliest") as consumer:
            await _assign_all_asyncio(consumer, load.topic)
            reading = Reading(load, len(await consumer.fetch(1)))
            while reading.goes_on:
                read = 0
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_WAIT_S):
                        async for _ in consumer:
                            read += 1
                            if read == _CLOCK_EVERY:
                                break
                reading.add(read)
            return reading.done()

    return asyncio.run(run())


async def _assign_all_asyncio(consumer: AsyncioConsumer, topic: str) -> None:
    await consumer.assign([TopicPartition(topic, each.partition) for each in await consumer.partitions_for(topic)])


def consume_kraft_arrow(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with Consumer(load.bootstrap, auto_offset_reset="earliest") as consumer:
            await _assign_all(consumer, load.topic)
            reading = Reading(load, len(await consumer.fetch(1)))
            while reading.goes_on:
                table = await consumer.fetch_arrow(timeout_s=_WAIT_S)
                reading.add(table.num_rows)
            return reading.done()

    return trio.run(run)


def iterate_kraft(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with Consumer(load.bootstrap, auto_offset_reset="earliest") as consumer:
            await _assign_all(consumer, load.topic)
            reading = Reading(load, len(await consumer.fetch(1)))
            while reading.goes_on:
                read = 0
                with trio.move_on_after(_WAIT_S):
                    async for _ in consumer:
                        read += 1
                        if read == _CLOCK_EVERY:
                            break
                reading.add(read)
            return reading.done()

    return trio.run(run)


@contextlib.contextmanager
def _confluent(load: Load) -> Iterator[ConfluentConsumer]:
    settings: dict[str, Any] = {
        "bootstrap.servers": load.bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 1,  # by default librdkafka stops for a second when the application is slow
        "log_level": 3,
    }
    consumer = ConfluentConsumer(settings)
    try:
        partitions = consumer.list_topics(load.topic, _FIRST_RECORD_TIMEOUT_S).topics[load.topic].partitions
        consumer.assign([ConfluentPartition(load.topic, partition, 0) for partition in partitions])
        yield consumer
    finally:
        consumer.close()


def consume_confluent(load: Load) -> LoadResult:
    with _confluent(load) as consumer:
        reading = Reading(load, len(consumer.consume(1, _FIRST_RECORD_TIMEOUT_S)))
        while reading.goes_on:
            messages = consumer.consume(_BATCH_RECORDS, _WAIT_S)
            for message in messages:
                message.value()
            reading.add(len(messages))
        return reading.done()


def iterate_confluent(load: Load) -> LoadResult:
    with _confluent(load) as consumer:
        reading = Reading(load, len(consumer.consume(1, _FIRST_RECORD_TIMEOUT_S)))
        while reading.goes_on:
            for _ in range(_CLOCK_EVERY):
                message = consumer.poll(_WAIT_S)
                if message is None:
                    break
                message.value()
                reading.add(1)
        return reading.done()


def consume_kafka_python(load: Load) -> LoadResult:
    consumer = _kafka_python(load)
    reading = Reading(load, _first_of_kafka_python(consumer))
    while reading.goes_on:
        batches = consumer.poll(timeout_ms=int(_WAIT_S * 1000), max_records=_BATCH_RECORDS)
        reading.add(sum(map(len, batches.values())))
    done = reading.done()
    consumer.close()
    return done


def iterate_kafka_python(load: Load) -> LoadResult:
    consumer = _kafka_python(load)
    reading = Reading(load, _first_of_kafka_python(consumer))
    while reading.goes_on:
        read = 0
        for _ in consumer:
            read += 1
            if read == _CLOCK_EVERY:
                break
        reading.add(read)
    done = reading.done()
    consumer.close()
    return done


def _kafka_python(load: Load) -> Any:
    return KafkaConsumer(
        load.topic,
        bootstrap_servers=load.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(_WAIT_S * 1000),
    )


def _first_of_kafka_python(consumer: Any) -> int:
    first = consumer.poll(timeout_ms=_FIRST_RECORD_TIMEOUT_S * 1000, max_records=1)
    if not first:
        raise LoadFailed("no record came")
    return 1


def consume_aiokafka(load: Load) -> LoadResult:
    async def run(consumer: Any, reading: Reading) -> None:
        while reading.goes_on:
            batches = await consumer.getmany(timeout_ms=int(_WAIT_S * 1000), max_records=_BATCH_RECORDS)
            reading.add(sum(map(len, batches.values())))

    return _aiokafka(load, run)


def iterate_aiokafka(load: Load) -> LoadResult:
    async def run(consumer: Any, reading: Reading) -> None:
        while reading.goes_on:
            with contextlib.suppress(TimeoutError):
                reading.add(await asyncio.wait_for(read_some(consumer), _WAIT_S))

    async def read_some(consumer: Any) -> int:
        read = 0
        async for _ in consumer:
            read += 1
            if read == _CLOCK_EVERY:
                break
        return read

    return _aiokafka(load, run)


def _aiokafka(load: Load, read: Callable[[Any, Reading], Any]) -> LoadResult:
    async def run() -> LoadResult:
        consumer = AIOKafkaConsumer(
            load.topic, bootstrap_servers=load.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            await asyncio.wait_for(consumer.getone(), _FIRST_RECORD_TIMEOUT_S)
            reading = Reading(load, 1)
            await read(consumer, reading)
            return reading.done()
        finally:
            await consumer.stop()

    return asyncio.run(run())


READS: Final[dict[str, dict[str, Callable[[Load], LoadResult]]]] = {
    "consume": {
        "kraft": consume_kraft,
        "kraft (asyncio)": consume_kraft_asyncio,
        "kraft (Arrow)": consume_kraft_arrow,
        "confluent-kafka": consume_confluent,
        "kafka-python": consume_kafka_python,
        "aiokafka": consume_aiokafka,
    },
    "iterate": {
        "kraft": iterate_kraft,
        "kraft (asyncio)": iterate_kraft_asyncio,
        "confluent-kafka": iterate_confluent,
        "kafka-python": iterate_kafka_python,
        "aiokafka": iterate_aiokafka,
    },
}


if __name__ == "__main__":
    sys.exit(main(loads=READS))
