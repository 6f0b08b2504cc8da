"""Records that the client library produces, with three nodes of ours or of Apache Kafka."""

from collections import Counter
from typing import Any

import confluent_kafka
import pytest

from broker.client import (
    BadPartition,
    BufferFull,
    JsonSerializer,
    KafkaError,
    Producer,
    RecordTooLarge,
    RoundRobinPartitioner,
    StringSerializer,
    TimedOut,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import TimestampType
from tests.support.client_peers import NOON_MS, WITHIN_S, ClientPeer

pytestmark = pytest.mark.clients


@pytest.mark.parametrize(
    ("compression", "acks"),
    [("none", "all"), ("gzip", "all"), ("snappy", "all"), ("lz4", "all"), ("zstd", "all"), ("lz4", 1), ("gzip", 0)],
)
async def test_records_come_back_as_they_were_sent(peer: ClientPeer, topic: str, compression: Any, acks: Any) -> None:
    (partition,) = await peer.create(topic)
    headers = [("source", b"tour"), ("source", b""), ("none", None), ("é", bytes(range(256)))]
    sent: list[dict[str, Any]] = [
        {"value": b"value", "key": b"key", "headers": headers, "timestamp_ms": NOON_MS},
        {"value": None, "key": b"tombstone", "timestamp_ms": NOON_MS - 1},
        {"value": b"", "key": b"", "timestamp_ms": NOON_MS + 1},
        {"value": None, "key": None, "timestamp_ms": 0},
        *({"value": b"%d" % number * 40, "timestamp_ms": NOON_MS + number} for number in range(500)),
    ]
    async with Producer(peer.bootstrap, compression_type=compression, acks=acks, batch_size=4096) as producer:
        deliveries = [producer.send_soon(topic, **each) for each in sent]
        await producer.flush()
        offsets = [(await each).offset for each in deliveries]
        assert offsets == ([-1] * len(sent) if acks == 0 else list(range(len(sent))))
    records = await peer.read([partition], len(sent))
    assert [record.offset for record in records] == list(range(len(sent)))
    assert [
        (
            record.value,
            record.key,
            list(record.headers),
            record.timestamp_ms,
            record.timestamp_type,
            record.leader_epoch,
        )
        for record in records
    ] == [
        (each["value"], each.get("key"), each.get("headers", []), each["timestamp_ms"], TimestampType.CREATE_TIME, 0)
        for each in sent
    ]


async def test_keys_go_to_the_partitions_that_librdkafkas_murmur2_chooses(peer: ClientPeer, topic: str) -> None:
    partitions = await peer.create(topic, 7)
    keys = [b"key-%d" % number for number in range(200)]
    async with Producer(peer.bootstrap) as producer:
        deliveries = [producer.send_soon(topic, b"ours", key=key) for key in keys]
        ours = {key: (await each).partition for key, each in zip(keys, deliveries, strict=True)}
    theirs = confluent_kafka.Producer({"bootstrap.servers": peer.bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        theirs.produce(topic, b"theirs", key)
    assert theirs.flush(WITHIN_S) == 0
    records = await peer.read(partitions, 2 * len(keys))
    assert {(record.key, record.partition) for record in records} == set(ours.items())
    assert len(set(ours.values())) == 7


async def test_partitioners_spread_records_without_keys(peer: ClientPeer, topic: str) -> None:
    await peer.create(topic, 3)

    async def spread(**settings: Any) -> Counter[int]:
        async with Producer(peer.bootstrap, linger_ms=0, **settings) as producer:
            await producer.partitions_for(topic)
            deliveries = [producer.send_soon(topic, bytes(100), key=b"one") for _ in range(90)]
            return Counter([(await each).partition for each in deliveries])

    assert await spread(partitioner=RoundRobinPartitioner()) == {0: 30, 1: 30, 2: 30}
    assert await spread(partitioner=lambda _topic, _key, _value, partitions: partitions.count - 1) == {2: 90}
    assert set(await spread(partitioner_ignore_keys=True, batch_size=300)) == {0, 1, 2}
    assert len(await spread()) == 1
    async with Producer(peer.bootstrap) as producer:
        assert (await producer.send(topic, partition=1)).partition == 1
    async with Producer(peer.bootstrap, max_block_ms=300) as producer:
        with pytest.raises(TimedOut, match="the partition that was asked for is none of them"):
            await producer.send(topic, partition=3)
    async with Producer(peer.bootstrap, partitioner=lambda *_: 3) as producer:
        with pytest.raises(BadPartition):
            await producer.send(topic)


async def test_large_records_are_written_up_to_the_limits(peer: ClientPeer, topic: str) -> None:
    (wide,) = await peer.create(topic, configs={"max.message.bytes": str(8 << 20)})
    (narrow,) = await peer.create(f"{topic}-narrow", configs={"max.message.bytes": "20000"})
    async with Producer(peer.bootstrap, max_request_size=8 << 20) as producer:
        await producer.send(topic, bytes(5 << 20))
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            await producer.send(topic, bytes(9 << 20))
        with pytest.raises(KafkaError) as caught:
            await producer.send(narrow.topic, bytes(30_000))
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    # A batch that is too large as a whole is split and sent again (KIP-126).
    async with Producer(peer.bootstrap, batch_size=100_000, linger_ms=50) as producer:
        deliveries = [producer.send_soon(narrow.topic, b"%04d" % number * 200) for number in range(100)]
        assert [(await each).offset for each in deliveries] == list(range(100))
    records = await peer.read([narrow], 100)
    assert [record.value for record in records] == [b"%04d" % number * 200 for number in range(100)]
    assert len((await peer.read([wide], 1, max_partition_fetch_bytes=1))[0].value or b"") == 5 << 20


async def test_refused_records_fail_with_the_brokers_error(peer: ClientPeer, topic: str) -> None:
    (compacted,) = await peer.create(topic, configs={"cleanup.policy": "compact"})
    (timed,) = await peer.create(f"{topic}-timed", configs={"message.timestamp.after.max.ms": "60000"})
    (stamped,) = await peer.create(f"{topic}-stamped", configs={"message.timestamp.type": "LogAppendTime"})

    async def code_of(name: str, **record: Any) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            await producer.send(name, b"value", **record)
        return caught.value.code

    async with Producer(peer.bootstrap) as producer:
        assert await code_of(compacted.topic) == ErrorCode.INVALID_RECORD
        assert await code_of(timed.topic, timestamp_ms=4_000_000_000_000) == ErrorCode.INVALID_TIMESTAMP
        assert await code_of("not/allowed") == ErrorCode.INVALID_TOPIC_EXCEPTION
        # The producer continues after each error.
        assert (await producer.send(compacted.topic, b"value", key=b"key")).offset == 0
        assert (await producer.send(timed.topic, b"value")).offset == 0
        written = await producer.send(stamped.topic, b"value", timestamp_ms=NOON_MS)
    (record,) = await peer.read([stamped], 1)
    assert record.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert record.timestamp_ms == written.timestamp_ms > NOON_MS


async def test_topics_are_created_on_demand_and_the_buffer_is_bounded(peer: ClientPeer, topic: str) -> None:
    async with Producer(peer.bootstrap, buffer_memory=100_000, linger_ms=10_000, batch_size=100_000) as producer:
        deliveries = [producer.send_soon(topic, bytes(1000)) for _ in range(95)]
        with pytest.raises(BufferFull):
            producer.send_soon(topic, bytes(10_000))
        await producer.flush()
        assert [(await each).offset for each in deliveries] == list(range(len(deliveries)))
        producer.send_soon(topic, bytes(10_000))


async def test_serializers_and_deserializers_are_applied(peer: ClientPeer, topic: str) -> None:
    (partition,) = await peer.create(topic)
    key, value = StringSerializer(), JsonSerializer()
    async with Producer(peer.bootstrap, key_serializer=key, value_serializer=value) as producer:
        await producer.send(topic, {"name": "Ada"}, key="é")
        await producer.send(topic, None, key="gone")
    records = await peer.read([partition], 2, key_deserializer=key, value_deserializer=value)
    assert [(record.key, record.value) for record in records] == [("é", {"name": "Ada"}), ("gone", None)]
