"""A program as applications have them, with keys and values of its own types. mypy reads it; nothing runs it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, assert_type

from broker.client import (
    AcknowledgeType,
    AsyncioAdmin,
    AsyncioConsumer,
    AsyncioProducer,
    AsyncioShareConsumer,
    ClientError,
    Consumer,
    ConsumerRecord,
    ErrorCode,
    JsonDeserializer,
    JsonSerializer,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RecordMetadata,
    ShareConsumer,
    ShareRecord,
    StringDeserializer,
    StringSerializer,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    SyncShareConsumer,
    TopicPartition,
)

SERVERS = ["PLAINTEXT://localhost:9092"]


@dataclass(frozen=True)
class Reading:
    """A value of an application."""

    room: str
    degrees: float


class ReadingSerializer:
    def serialize(self, topic: str, value: Reading, /) -> bytes:
        return f"{value.room},{value.degrees}".encode()

    def deserialize(self, topic: str, data: bytes, /) -> Reading:
        room, degrees = data.decode().split(",")
        return Reading(room, float(degrees))


@asynccontextmanager
async def readings_producer() -> AsyncIterator[Producer[str, Reading]]:
    async with Producer(
        SERVERS, key_serializer=StringSerializer(), value_serializer=ReadingSerializer(), transactional_id="readings"
    ) as producer:
        yield producer


@asynccontextmanager
async def readings_consumer() -> AsyncIterator[Consumer[str, Reading]]:
    async with Consumer(
        SERVERS,
        topics=["readings"],
        group_id="alarms",
        key_deserializer=StringDeserializer(),
        value_deserializer=ReadingSerializer(),
    ) as consumer:
        yield consumer


def is_hot(record: ConsumerRecord[str, Reading]) -> bool:
    return record.value is not None and record.value.degrees > 30


async def copy_alarms() -> None:
    async with readings_consumer() as consumer, readings_producer() as producer:
        for record in await consumer.fetch(max_records=100, timeout_s=1.0):
            assert_type(record.key, str | None)
            if is_hot(record):
                async with producer.transaction():
                    assert_type(await producer.send("alarms", record.value, key=record.key), RecordMetadata)
                    offsets = {TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1)}
                    await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        async for record in consumer:
            assert_type(record.value, Reading | None)


async def defaults() -> None:
    async with Producer("localhost:9092") as producer:
        assert_type(producer, Producer[bytes, bytes])
        await producer.send("readings", b"value", key=b"key")
        await producer.send("readings", None)
        await producer.send("readings", "text")  # type: ignore[arg-type]
    async with Producer("localhost:9092", value_serializer=JsonSerializer()) as of_json:
        assert_type(of_json, Producer[bytes, Any])
        of_json.send_soon("readings", {"degrees": 20.5}, key="text")  # type: ignore[arg-type]
    async with Consumer("localhost:9092", value_deserializer=JsonDeserializer()) as consumer:
        assert_type(consumer, Consumer[bytes, Any])
        assert_type(await anext(consumer), ConsumerRecord[bytes, Any])


async def share_workers() -> None:
    async with ShareConsumer(
        SERVERS,
        topics=["readings"],
        group_id="workers",
        share_acknowledgement_mode="explicit",
        key_deserializer=StringDeserializer(),
        value_deserializer=ReadingSerializer(),
    ) as worker:
        for record in await worker.fetch(timeout_s=1.0):
            assert_type(record, ShareRecord[str, Reading])
            worker.acknowledge(record, AcknowledgeType.RELEASE if record.delivery_count < 3 else AcknowledgeType.REJECT)
        assert_type((await worker.commit()).raise_first(), dict[TopicPartition, None])
        worker.acknowledge(record, "accept")  # type: ignore[arg-type]
    async with AsyncioShareConsumer(SERVERS, group_id="workers", value_deserializer=ReadingSerializer()) as of_asyncio:
        async for reading in of_asyncio:
            assert_type(reading, ShareRecord[bytes, Reading])
            await of_asyncio.acknowledge(reading)
    with SyncShareConsumer(SERVERS, group_id="workers", key_deserializer=StringDeserializer()) as blocking_one:
        for keyed in blocking_one:
            assert_type(keyed, ShareRecord[str, bytes])
            blocking_one.acknowledge(keyed, AcknowledgeType.RENEW)
            assert_type(blocking_one.commit().value(TopicPartition("readings", 0)), None)
        assert_type(blocking_one.acquisition_lock_timeout_ms(), int | None)
    ShareConsumer(SERVERS, group_id="workers", auto_offset_reset="earliest")  # type: ignore[call-arg]


def plain(record: ConsumerRecord) -> bytes:
    return record.value or b""


@contextmanager
def fixture() -> Iterator[SyncProducer]:
    with SyncAdmin("localhost:9092") as admin:
        created = admin.create_topics([NewTopic("readings", num_partitions=1)]).raise_first()
        assert_type(created["readings"].num_partitions, int)
    with SyncProducer("localhost:9092") as producer:
        yield producer


async def asyncio_clients() -> None:
    async with AsyncioProducer("localhost:9092", value_serializer=StringSerializer()) as texts:
        assert_type(texts, AsyncioProducer[bytes, str])
        assert_type(await texts.send("readings", "text"), RecordMetadata)
        assert_type(await texts.send_soon("readings", "text"), RecordMetadata)
        await texts.send("readings", b"value")  # type: ignore[arg-type]
    async with AsyncioConsumer("localhost:9092", key_deserializer=StringDeserializer()) as keyed:
        assert_type(await keyed.fetch(), list[ConsumerRecord[str, bytes]])
        async for record in keyed:
            assert_type(record, ConsumerRecord[str, bytes])
    async with AsyncioAdmin("localhost:9092") as admin:
        created = await admin.create_topics([NewTopic("readings", num_partitions=1)])
        assert_type(created.raise_first()["readings"].num_partitions, int)


def blocking() -> int:
    failures = 0
    with fixture() as producer, SyncConsumer("localhost:9092") as consumer:
        try:
            producer.send("readings", b"value")
        except (KafkaError, ClientError) as error:
            failures += not error.retriable
            if isinstance(error, KafkaError) and error.code is ErrorCode.MESSAGE_TOO_LARGE:
                raise
        for record in consumer:
            plain(record)
            assert_type(record.value, bytes | None)
    with SyncProducer("localhost:9092", value_serializer=StringSerializer()) as texts:
        assert_type(texts, SyncProducer[bytes, str])
        texts.send_soon("readings", b"value")  # type: ignore[arg-type]
    with SyncConsumer("localhost:9092", key_deserializer=StringDeserializer()) as keyed:
        assert_type(keyed.fetch(), list[ConsumerRecord[str, bytes]])
    return failures
