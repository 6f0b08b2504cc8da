"""Behaviour that clients rely on: acknowledgements, limits, timestamps, waits, and offsets out of range."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AiokafkaTopic
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaProducer

from tests.support.confluent_driver import create_topic, new_consumer

pytestmark = pytest.mark.clients


@pytest.fixture
def reader(bootstrap: str, topic: str) -> Iterator[Callable[..., Consumer]]:
    """Open a consumer on partition 0 of the test's topic at an offset. It is closed at the end of the test."""
    consumers: list[Consumer] = []

    def open_at(offset: int, **settings: object) -> Consumer:
        consumer = new_consumer(bootstrap, **settings)
        consumers.append(consumer)
        consumer.assign([TopicPartition(topic, 0, offset)])
        return consumer

    yield open_at
    for consumer in consumers:
        consumer.close()


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: object) -> list[KafkaError | int]:
    """Write to partition 0. Returns the offset or the error of each record, in order of delivery."""
    outcomes: list[KafkaError | int] = []

    def report(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        outcomes.append(error if error is not None else -1 if offset is None else offset)

    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=report)
    assert producer.flush(60) == 0
    return outcomes


def next_message(consumer: Consumer, timeout: float = 20) -> Message:
    message = consumer.poll(timeout)
    assert message is not None, f"nothing came in {timeout} s"
    return message


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_whatever_the_acknowledgement(
    acks: str, bootstrap: str, topic: str, reader: Callable[..., Consumer]
) -> None:
    create_topic(bootstrap, topic, 1)
    values = [b"%d" % number for number in range(500)]
    outcomes = produce(bootstrap, topic, values, acks=acks, **{"max.in.flight": 1})
    assert not [outcome for outcome in outcomes if isinstance(outcome, KafkaError)]
    if acks != "0":
        assert outcomes == list(range(500))
    consumer = reader(0)
    assert [next_message(consumer).value() for _ in values] == values


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_kafka_python_sends_with_every_acknowledgement(
    acks: int | str, bootstrap: str, topic: str, reader: Callable[..., Consumer]
) -> None:
    create_topic(bootstrap, topic, 1)
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=acks, enable_idempotence=False)
    try:
        sent = [producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
        producer.flush(timeout=30)
        if acks != 0:
            assert [future.get(timeout=10).offset for future in sent] == list(range(100))
    finally:
        producer.close()
    consumer = reader(0)
    assert [next_message(consumer).value() for _ in range(100)] == [b"%d" % number for number in range(100)]


def test_a_record_of_almost_the_largest_size_passes(
    bootstrap: str, topic: str, reader: Callable[..., Consumer]
) -> None:
    create_topic(bootstrap, topic, 1)
    value = bytes(range(256)) * 3_900
    assert produce(bootstrap, topic, [value, b"after"]) == [0, 1]
    consumer = reader(0, **{"max.partition.fetch.bytes": 1_000, "fetch.max.bytes": 1_000_000})
    assert next_message(consumer).value() == value
    assert next_message(consumer).value() == b"after"


def test_a_record_that_is_too_large_is_refused_and_harms_no_other(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1, max_message_bytes=10_000)
    (refused,) = produce(bootstrap, topic, [b"x" * 20_000])
    assert isinstance(refused, KafkaError)
    assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert produce(bootstrap, topic, [b"x" * 5_000]) == [0]


def test_append_time_replaces_the_time_of_the_client(
    bootstrap: str, topic: str, reader: Callable[..., Consumer]
) -> None:
    create_topic(bootstrap, topic, 1, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"old", partition=0, timestamp=1_000)
    assert producer.flush(30) == 0
    kind, timestamp_ms = next_message(reader(0)).timestamp()
    assert kind == 2
    assert before_ms <= timestamp_ms <= int(time.time() * 1000)


def test_a_timestamp_too_far_ahead_is_refused(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    ahead_ms = int(time.time() * 1000) + 2 * 3_600_000
    producer.produce(topic, b"x", timestamp=ahead_ms, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    (error,) = errors
    assert error is not None
    assert error.code() == KafkaError.INVALID_TIMESTAMP


def test_a_partition_that_does_not_exist_is_an_error(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"x", partition=7, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    (error,) = errors
    assert error is not None
    assert error.code() == KafkaError._UNKNOWN_PARTITION


def test_an_offset_out_of_range_is_said_or_reset(bootstrap: str, topic: str, reader: Callable[..., Consumer]) -> None:
    create_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [b"a", b"b"])
    error = next_message(reader(77)).error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    assert "out of range" in error.str()
    assert next_message(reader(77, **{"auto.offset.reset": "earliest"})).value() == b"a"


def test_the_end_of_a_partition_is_where_its_last_record_is(
    bootstrap: str, topic: str, reader: Callable[..., Consumer]
) -> None:
    create_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [b"a", b"b"])
    consumer = reader(1, **{"enable.partition.eof": True})
    assert next_message(consumer).value() == b"b"
    error = next_message(consumer).error()
    assert error is not None
    assert error.code() == KafkaError._PARTITION_EOF
    assert consumer.position([TopicPartition(topic, 0)])[0].offset == 2


def test_a_waiting_reader_gets_a_record_when_it_comes(
    bootstrap: str, topic: str, reader: Callable[..., Consumer]
) -> None:
    """A fetch that waits up to ten seconds must end when the record arrives."""
    create_topic(bootstrap, topic, 1)
    produce(bootstrap, topic, [b"first"])
    consumer = reader(0, **{"fetch.wait.max.ms": 10_000})
    assert next_message(consumer).value() == b"first"
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.list_topics(topic, timeout=30)
    for number in range(3):
        assert consumer.poll(0.3) is None
        began = time.monotonic()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.poll(0)
        assert next_message(consumer).value() == b"%d" % number
        assert time.monotonic() - began < 5


def test_a_reader_follows_a_writer(bootstrap: str, topic: str, reader: Callable[..., Consumer]) -> None:
    create_topic(bootstrap, topic, 1)
    values = [b"%d" % number for number in range(20_000)]
    writer = threading.Thread(target=produce, args=(bootstrap, topic, values), kwargs={"linger.ms": 1})
    consumer = reader(0)
    writer.start()
    try:
        assert [next_message(consumer).value() for _ in values] == values
    finally:
        writer.join()


def test_many_partitions_are_read_in_one_session(bootstrap: str, topic: str) -> None:
    """More partitions than one fetch returns. Some are empty, and one is written to long after the session began."""
    create_topic(bootstrap, topic, 40)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(0, 40, 2):
        for number in range(50):
            producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(30) == 0
    consumer = new_consumer(bootstrap, **{"fetch.max.bytes": 1_000, "message.max.bytes": 1_000})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(40)])
        read: dict[int | None, list[bytes | None]] = {}
        for _ in range(20 * 50):
            message = next_message(consumer)
            read.setdefault(message.partition(), []).append(message.value())
        assert set(read) == set(range(0, 40, 2))
        assert all(values == [b"%d" % number for number in range(50)] for values in read.values())
        producer.produce(topic, b"late", partition=39)
        assert producer.flush(30) == 0
        late = next_message(consumer)
        assert (late.partition(), late.value()) == (39, b"late")
    finally:
        consumer.close()


def test_aiokafka_creates_writes_waits_and_reads(bootstrap: str, topic: str) -> None:
    async def live() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([AiokafkaTopic(topic, 2, 1)])
            assert topic in await admin.list_topics()
        finally:
            await admin.close()
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=10_000)
        await producer.start()
        await consumer.start()
        try:
            partition = AiokafkaPartition(topic, 1)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            waiting = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.3)
            sent = await producer.send_and_wait(topic, b"v", key=b"k", partition=1)
            found = await asyncio.wait_for(waiting, 5)
            assert (sent.offset, found.offset, found.key, found.value) == (0, 0, b"k", b"v")
            assert await consumer.end_offsets([partition]) == {partition: 1}
            assert (await consumer.offsets_for_times({partition: 0}))[partition].offset == 0
        finally:
            await consumer.stop()
            await producer.stop()

    asyncio.run(asyncio.wait_for(live(), 60))
