"""One load with one client library, in a process of its own, so that the measured CPU time is the client's alone.

python -m benchmarks.library_loads produce kraft 127.0.0.1:9092 topic --size 100 --seconds 2 --batch-size 131072

prints the result as JSON. All libraries get the same settings: acks=all, idempotence, linger.ms 5, no compression.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import pyarrow as pa
import trio
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from benchmarks.loadgen import LoadFailed
from broker.client import AsyncioProducer, BufferFull, Producer

LINGER_MS: Final = 5
# The number of records between two checks of the time.
_AT_ONCE: Final = 1_000
# A producer whose buffer is full continues when this much of it is free.
_ROOM_BYTES: Final = 1 << 20
_FLUSH_TIMEOUT_S: Final = 60
_TABLE_BYTES: Final = 16 << 20
# Tasks that wait for the outcome of each record, as requests of a web service do.
_TASKS: Final = 500


@attrs.frozen
class Load:
    """The settings of a load."""

    bootstrap: str
    topic: str
    size_bytes: int
    seconds: float
    batch_size: int
    records: int = 0  # the number of records to read


@attrs.frozen
class LoadResult:
    """The result of a load: its records, and the elapsed and CPU seconds that it took."""

    records: int
    seconds: float
    cpu_seconds: float


class Stopwatch:
    """Measures elapsed and CPU time from its creation on."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    def done(self, records: int) -> LoadResult:
        return LoadResult(records, self.seconds, time.process_time() - self._cpu)


class Sending:
    """Counts the records that tasks send, until the time is over."""

    def __init__(self, load: Load) -> None:
        self._topic = load.topic
        self._value = bytes(load.size_bytes)
        self._seconds = load.seconds
        self._sent = 0
        self._watch = Stopwatch()

    async def send_by(self, send: Callable[[str, bytes], Awaitable[object]]) -> None:
        while self._watch.seconds < self._seconds:
            await send(self._topic, self._value)
            self._sent += 1

    def done(self) -> LoadResult:
        return self._watch.done(self._sent)


def produce_kraft(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with Producer(load.bootstrap, linger_ms=LINGER_MS, batch_size=load.batch_size) as producer:
            await producer.send(load.topic, b"first")
            value = bytes(load.size_bytes)
            watch, sent = Stopwatch(), 0
            while watch.seconds < load.seconds:
                try:
                    for _ in range(_AT_ONCE):
                        producer.send_soon(load.topic, value)
                        sent += 1
                except BufferFull:
                    await producer.wait_for_room(_ROOM_BYTES)
            await producer.flush()
            return watch.done(sent)

    return trio.run(run)


def produce_kraft_asyncio(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with AsyncioProducer(load.bootstrap, linger_ms=LINGER_MS, batch_size=load.batch_size) as producer:
            await producer.send(load.topic, b"first")
            value = bytes(load.size_bytes)
            watch, sent = Stopwatch(), 0
            while watch.seconds < load.seconds:
                try:
                    for _ in range(_AT_ONCE):
                        producer.send_soon(load.topic, value)
                        sent += 1
                except BufferFull:
                    await producer.wait_for_room()
            await producer.flush()
            return watch.done(sent)

    return asyncio.run(run())


def send_kraft(load: Load) -> LoadResult:
    """Many tasks that wait for the outcome of each record."""

    async def run() -> LoadResult:
        async with Producer(load.bootstrap, linger_ms=LINGER_MS, batch_size=load.batch_size) as producer:
            await producer.send(load.topic, b"first")
            sending = Sending(load)
            async with trio.open_nursery() as nursery:
                for _ in range(_TASKS):
                    nursery.start_soon(sending.send_by, producer.send)
            return sending.done()

    return trio.run(run)


def send_kraft_asyncio(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with AsyncioProducer(load.bootstrap, linger_ms=LINGER_MS, batch_size=load.batch_size) as producer:
            await producer.send(load.topic, b"first")
            sending = Sending(load)
            await asyncio.gather(*(sending.send_by(producer.send) for _ in range(_TASKS)))
            return sending.done()

    return asyncio.run(run())


def send_aiokafka(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with _aiokafka(load) as producer:
            sending = Sending(load)
            await asyncio.gather(*(sending.send_by(producer.send_and_wait) for _ in range(_TASKS)))
            return sending.done()

    return asyncio.run(run())


def produce_kraft_arrow(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with Producer(load.bootstrap, linger_ms=LINGER_MS) as producer:
            await producer.send(load.topic, b"first")
            table = pa.table({"value": [bytes(load.size_bytes)] * (_TABLE_BYTES // load.size_bytes)})
            watch, sent = Stopwatch(), 0
            while watch.seconds < load.seconds:
                await producer.produce_arrow(load.topic, table)
                sent += table.num_rows
            return watch.done(sent)

    return trio.run(run)


def produce_confluent(load: Load) -> LoadResult:
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = _confluent_producer(load, on_delivery)
    producer.produce(load.topic, b"first")
    producer.flush(_FLUSH_TIMEOUT_S)
    value = bytes(load.size_bytes)
    watch, sent = Stopwatch(), 0
    while watch.seconds < load.seconds:
        try:
            for _ in range(_AT_ONCE):
                producer.produce(load.topic, value)
                sent += 1
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    left = producer.flush(_FLUSH_TIMEOUT_S)
    if left or failures:
        raise LoadFailed(f"{len(failures)} of {sent} records failed, {left} were never acknowledged")
    return watch.done(sent)


def _confluent_producer(load: Load, on_delivery: Callable[[KafkaError | None, Message], None]) -> ConfluentProducer:
    settings: dict[str, Any] = {
        "bootstrap.servers": load.bootstrap,
        "enable.idempotence": True,
        "linger.ms": LINGER_MS,
        "batch.size": load.batch_size,
        "on_delivery": on_delivery,
        "log_level": 3,
    }
    return ConfluentProducer(settings)


def produce_kafka_python(load: Load) -> LoadResult:
    producer = KafkaProducer(
        bootstrap_servers=load.bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        batch_size=load.batch_size,
    )
    producer.send(load.topic, b"first").get(_FLUSH_TIMEOUT_S)
    value = bytes(load.size_bytes)
    watch, sent = Stopwatch(), 0
    while watch.seconds < load.seconds:
        for _ in range(_AT_ONCE):
            last = producer.send(load.topic, value)
        sent += _AT_ONCE
    producer.flush(_FLUSH_TIMEOUT_S)
    last.get(_FLUSH_TIMEOUT_S)
    done = watch.done(sent)
    producer.close()
    return done


@asynccontextmanager
async def _aiokafka(load: Load) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(
        bootstrap_servers=load.bootstrap,
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        max_batch_size=load.batch_size,
    )
    await producer.start()
    try:
        await producer.send_and_wait(load.topic, b"first")
        yield producer
    finally:
        await producer.stop()


def produce_aiokafka(load: Load) -> LoadResult:
    async def run() -> LoadResult:
        async with _aiokafka(load) as producer:
            value = bytes(load.size_bytes)
            watch, sent = Stopwatch(), 0
            while watch.seconds < load.seconds:
                for _ in range(_AT_ONCE):
                    await producer.send(load.topic, value)
                sent += _AT_ONCE
            await producer.flush()
            return watch.done(sent)

    return asyncio.run(run())


# The loads by operation and library.
LOADS: Final[dict[str, dict[str, Callable[[Load], LoadResult]]]] = {
    "produce": {
        "kraft": produce_kraft,
        "kraft (asyncio)": produce_kraft_asyncio,
        "kraft (Arrow)": produce_kraft_arrow,
        "confluent-kafka": produce_confluent,
        "kafka-python": produce_kafka_python,
        "aiokafka": produce_aiokafka,
    },
    "send": {"kraft": send_kraft, "kraft (asyncio)": send_kraft_asyncio, "aiokafka": send_aiokafka},
}


def main(
    arguments: Sequence[str] | None = None, loads: Mapping[str, Mapping[str, Callable[[Load], LoadResult]]] = LOADS
) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=loads)
    parser.add_argument("library")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--batch-size", type=int, default=131_072)
    parser.add_argument("--records", type=int, default=0, help="as many are there to be read")
    given = parser.parse_args(arguments)
    load = Load(given.bootstrap, given.topic, given.size, given.seconds, given.batch_size, given.records)
    print(json.dumps(attrs.asdict(loads[given.what][given.library](load))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
