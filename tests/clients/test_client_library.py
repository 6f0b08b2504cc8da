"""The client library against a cluster of three nodes: the same tests for ours and for Apache Kafka's.

Apache Kafka's part runs with `make test-client-kafka`, or with --full.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any, Final

import confluent_kafka
import pyarrow
import pytest
import trio
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from benchmarks import apache_kafka
from broker.client import (
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    BadPartition,
    BufferFull,
    ClientQuota,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    Consumer,
    ElectionType,
    FeatureUpdate,
    JsonSerializer,
    KafkaError,
    NewPartitions,
    NewTopic,
    NoOffsetForPartition,
    OffsetAndMetadata,
    OffsetOutOfRange,
    OffsetSpec,
    Producer,
    RebalanceListener,
    RecordTooLarge,
    ResourceType,
    RoundRobinPartitioner,
    StringSerializer,
    SyncAdmin,
    SyncConsumer,
    SyncProducer,
    TimedOut,
    TopicPartition,
)
from broker.wire.errors import ErrorCode
from broker.wire.records import TimestampType
from tests.support.client_peers import APACHE_KAFKA, OURS, WITHIN_S, ClientPeer, cluster_of

pytestmark = pytest.mark.clients

NOON_MS: Final = 1_700_000_000_000


@pytest.fixture(scope="module", params=[OURS, APACHE_KAFKA])
def peer(request: pytest.FixtureRequest, full: bool) -> Iterator[ClientPeer]:
    is_apache_kafka = request.param == APACHE_KAFKA
    if is_apache_kafka:
        if not full and not request.config.getoption("--apache-kafka"):
            pytest.skip("`make test-client-kafka`, or --full, runs this against Apache Kafka")
        try:
            apache_kafka.jars()
        except apache_kafka.Unavailable as why:
            pytest.skip(str(why))
    with cluster_of(request.param) as cluster:
        yield ClientPeer(cluster, is_apache_kafka)
        # Orderly shutdowns would take longer than the tests: the last node waits for a majority that is gone.
        for member in cluster.members:
            member.kill()


@pytest.fixture
def peer_with_transactions(peer: ClientPeer) -> ClientPeer:
    if not peer.is_apache_kafka:
        pytest.skip("only Apache Kafka has transactions")
    return peer


@pytest.fixture
def group(topic: str) -> str:
    """The name of a group that was not used before."""
    return f"group-{topic}"


# Producing


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
        with pytest.raises(TimedOut, match=r"is not in the metadata after 300 ms"):
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
        # The producer goes on after each of them.
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


# Consuming


async def fill(peer: ClientPeer, partitions: Sequence[TopicPartition], count: int) -> None:
    """Writes `count` records, numbered and a second apart, to each partition."""
    async with Producer(peer.bootstrap) as producer:
        deliveries = [
            producer.send_soon(
                partition.topic,
                b"%d" % number,
                partition=partition.partition,
                timestamp_ms=NOON_MS + 1000 * number,
            )
            for partition in partitions
            for number in range(count)
        ]
        for delivery in deliveries:
            await delivery


async def test_positions_are_sought_read_and_looked_up(peer: ClientPeer, topic: str) -> None:
    partitions = first, second, empty = await peer.create(topic, 3)
    await fill(peer, [first, second], 20)
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        assert consumer.assignment() == set(partitions)
        assert await consumer.position(first) == 0
        consumer.seek(first, 15)
        consumer.seek(second, OffsetAndMetadata(18, 0))
        records = await peer.take(consumer, 7)
        assert Counter(record.partition for record in records) == {0: 5, 1: 2}
        assert consumer.current_lag(first) == 0
        assert await consumer.lag() == dict.fromkeys(partitions, 0)

        consumer.seek_to_beginning([first])
        consumer.seek_to_end([second])
        assert (await consumer.position(first), await consumer.position(second)) == (0, 20)
        assert await consumer.lag([first]) == {first: 20}
        assert [record.offset for record in await peer.take(consumer, 20)] == list(range(20))

        assert await consumer.beginning_offsets(partitions) == {first: 0, second: 0, empty: 0}
        assert await consumer.end_offsets(partitions) == {first: 20, second: 20, empty: 0}
        times = {first: NOON_MS + 4500, second: NOON_MS + 60_000, empty: 0}
        found = await consumer.offsets_for_times(times)
        assert found == {first: (5, NOON_MS + 5000, 0), second: None, empty: None}

        assert [each.partition for each in await consumer.partitions_for(topic)] == [0, 1, 2]
        assert len((await consumer.topics())[topic]) == 3


async def test_paused_partitions_return_nothing_until_resumed(peer: ClientPeer, topic: str) -> None:
    partitions = first, _ = await peer.create(topic, 2)
    await fill(peer, partitions, 10)
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest", max_poll_records=3) as consumer:
        consumer.assign(partitions)
        consumer.pause([first])
        assert {record.partition for record in await peer.take(consumer, 10)} == {1}
        assert await consumer.fetch(timeout_s=0.3) == []
        assert consumer.paused() == {first}
        consumer.resume([first])
        assert [record.offset for record in await peer.take(consumer, 10)] == list(range(10))


async def test_reset_policies_choose_where_to_begin(peer: ClientPeer, topic: str) -> None:
    (partition,) = await peer.create(topic)
    async with Producer(peer.bootstrap) as producer:
        for number in range(5):
            await producer.send(topic, b"old", timestamp_ms=NOON_MS + number)
        await producer.send(topic, b"new")

    async def begin(policy: str, **settings: Any) -> int:
        async with Consumer(peer.bootstrap, auto_offset_reset=policy, **settings) as consumer:
            consumer.assign([partition])
            return await consumer.position(partition)

    assert await begin("earliest") == 0
    assert await begin("latest") == 6
    assert await begin("by_duration:PT1H") == 5
    assert await begin("by_duration:P30000D") == 0
    with pytest.raises(NoOffsetForPartition):
        await begin("none", group_id=f"group-{topic}")
    async with Admin(peer.bootstrap) as admin:
        assert (await admin.delete_records({partition: 3})).value(partition) == 3
    assert await begin("earliest") == 3
    for policy, expected in (("earliest", [3]), ("by_duration:PT1H", [5])):
        async with Consumer(peer.bootstrap, auto_offset_reset=policy, max_poll_records=1) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 1)
            assert [record.offset for record in await peer.take(consumer, 1)] == expected
    async with Consumer(peer.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 100)
        with pytest.raises(OffsetOutOfRange), trio.fail_after(WITHIN_S):
            await consumer.fetch()


async def test_read_committed_returns_no_record_of_open_and_aborted_transactions(
    peer_with_transactions: ClientPeer, topic: str
) -> None:
    peer = peer_with_transactions
    (partition,) = await peer.create(topic)
    open_for_ever = {"bootstrap.servers": peer.bootstrap, "transactional.id": topic, "linger.ms": 0}
    writer = confluent_kafka.Producer(open_for_ever)
    await trio.to_thread.run_sync(writer.init_transactions)
    for name, ending in (("a", writer.commit_transaction), ("b", writer.abort_transaction), ("c", None)):
        writer.begin_transaction()
        for number in range(5):
            writer.produce(topic, f"{name}{number}".encode(), partition=0)
        await trio.to_thread.run_sync(writer.flush)
        if ending is not None:
            await trio.to_thread.run_sync(ending)
    # Offsets 5 and 11 are control records.
    records = await peer.read([partition], 15)
    assert [record.offset for record in records] == [*range(5), *range(6, 11), *range(12, 17)]
    committed = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with Consumer(peer.bootstrap, **committed) as consumer:
        consumer.assign([partition])
        records = await peer.take(consumer, 5)
        assert [record.value for record in records] == [b"a0", b"a1", b"a2", b"a3", b"a4"]
        assert await consumer.fetch(timeout_s=0.5) == []
        assert await consumer.end_offsets([partition]) == {partition: 12}
        assert (await consumer.position(partition), consumer.current_lag(partition)) == (12, 0)
        async with Admin(peer.bootstrap) as admin:
            (listed,) = [each for each in (await admin.list_transactions()).chained() if each.transactional_id == topic]
            described = (await admin.describe_transactions([topic])).value(topic)
            (state,) = (await admin.describe_producers([partition])).value(partition)
        assert (listed.state, described.state, described.partitions) == ("Ongoing", "Ongoing", (partition,))
        assert state.producer_id == described.producer_id == listed.producer_id
        assert state.transaction_start_offset == 12
        await trio.to_thread.run_sync(writer.commit_transaction)
        assert [record.value for record in await peer.take(consumer, 5)] == [b"c0", b"c1", b"c2", b"c3", b"c4"]
        async with Admin(peer.bootstrap) as admin:
            fenced = (await admin.fence_producers([topic])).value(topic)
        assert fenced.producer_id == described.producer_id
        assert fenced.epoch > described.producer_epoch
    async with Consumer(peer.bootstrap, **committed) as consumer:
        consumer.assign([partition])
        table = await consumer.fetch_arrow(timeout_s=WITHIN_S)
        assert table.column("offset").to_pylist() == [*range(5), *range(12, 17)]


async def test_fetch_sessions_follow_the_assignment_and_a_topic_made_again(peer: ClientPeer, topic: str) -> None:
    partitions = await peer.create(topic, 12)
    await fill(peer, partitions, 5)
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest", metadata_max_age_ms=500) as consumer:
        for begin, end in ((0, 4), (0, 12), (6, 9), (3, 12)):
            chosen = partitions[begin:end]
            consumer.assign(chosen)
            consumer.seek_to_beginning()
            records = await peer.take(consumer, 5 * len(chosen))
            assert Counter(record.partition for record in records) == dict.fromkeys(range(begin, end), 5)
        async with Admin(peer.bootstrap) as admin:
            (await admin.delete_topics([topic])).raise_first()
        await peer.create(topic, 12)
        await fill(peer, partitions[3:12], 2)
        consumer.seek_to_beginning()
        records = await peer.take(consumer, 18)
        assert Counter(record.partition for record in records) == dict.fromkeys(range(3, 12), 2)


async def test_iteration_and_fetch_take_turns_and_lose_nothing(peer: ClientPeer, topic: str) -> None:
    (partition,) = await peer.create(topic)
    await fill(peer, [partition], 100)
    small = {"fetch_max_bytes": 500, "max_partition_fetch_bytes": 500, "fetch_buffer_bytes": 1}
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest", **small) as consumer:
        consumer.assign([partition])
        offsets: list[int] = []
        with trio.fail_after(WITHIN_S):
            async for record in consumer:
                offsets.append(record.offset)
                if len(offsets) % 10 == 0:
                    offsets += [each.offset for each in await consumer.fetch(max_records=7)]
                    with trio.move_on_after(0):
                        await consumer.fetch()
                if len(offsets) >= 90:
                    break
        assert await consumer.position(partition) == len(offsets)
        offsets += [record.offset for record in await peer.take(consumer, 100 - len(offsets))]
    assert offsets == list(range(100))


# Groups


class Told(RebalanceListener):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("assigned", len(partitions)))

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("revoked", len(partitions)))

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", len(partitions)))


async def until_shared(consumers: Sequence[Consumer], sizes: Sequence[int]) -> list[Any]:
    """Fetches with every consumer until their assignments have these sizes; returns the records."""
    records: list[Any] = []
    with trio.fail_after(WITHIN_S):
        while sorted(len(each.assignment()) for each in consumers) != sorted(sizes):
            for each in consumers:
                records += await each.fetch(timeout_s=0.05)
    return records


PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "range": {"group_protocol": "classic", "partition_assignment_strategy": "range"},
    "roundrobin": {"group_protocol": "classic", "partition_assignment_strategy": "roundrobin"},
    "sticky": {"group_protocol": "classic", "partition_assignment_strategy": "sticky"},
    "cooperative-sticky": {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"},
    "kip-848-uniform": {"group_protocol": "consumer", "group_remote_assignor": "uniform"},
    "kip-848-range": {"group_protocol": "consumer", "group_remote_assignor": "range"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_members_share_a_group_and_each_record_is_read_once(
    protocol: str, peer: ClientPeer, topic: str, group: str
) -> None:
    partitions = await peer.create(topic, 6)
    await fill(peer, partitions, 5)
    listener = Told()
    settings = {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 200, **PROTOCOLS[protocol]}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Consumer(peer.bootstrap, **settings))
        first.subscribe([topic], listener=listener)
        records = await until_shared([first], [6])
        records += await peer.take(first, 30 - len(records))
        second = await stack.enter_async_context(Consumer(peer.bootstrap, topics=[topic], **settings))
        assert await until_shared([first, second], [3, 3]) == []
        assert listener.events[0] == ("assigned", 6)
        cooperates = protocol.startswith(("cooperative", "kip"))
        assert ("revoked", 3 if cooperates else 6) in listener.events
        await fill(peer, partitions, 1)
        with trio.fail_after(WITHIN_S):
            while len(records) < 36:
                records += [*await first.fetch(timeout_s=0.05), *await second.fetch(timeout_s=0.05)]
        async with Admin(peer.bootstrap) as admin:
            described = (await admin.describe_groups([group])).value(group)
        assert described.state == "Stable"
        assert sorted(each for member in described.members for each in member.assignment) == partitions
        expected = protocol.removeprefix("kip-848-")
        assert described.assignor == expected
        assert described.type == ("consumer" if protocol.startswith("kip") else "classic")
    assert len({(record.partition, record.offset) for record in records}) == len(records) == 36
    async with Consumer(peer.bootstrap, **settings) as consumer:
        committed = await consumer.committed(partitions)
        assert [each.offset for each in committed.values() if each is not None] == [6] * 6


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "kip-848-uniform"])
async def test_static_members_come_back_to_their_partitions(
    protocol: str, peer: ClientPeer, topic: str, group: str
) -> None:
    await peer.create(topic, 4)
    settings = {"group_id": group, "topics": [topic], "heartbeat_interval_ms": 200, **PROTOCOLS[protocol]}

    def member(name: str, **more: Any) -> Consumer:
        return Consumer(peer.bootstrap, group_instance_id=name, **settings, **more)

    listener = Told()
    async with member("a", listener=listener) as stays:
        async with member("b") as leaves:
            await until_shared([stays, leaves], [2, 2])
            before, theirs, told = leaves.assignment(), stays.assignment(), list(listener.events)
        async with member("b") as back:
            await until_shared([stays, back], [2, 2])
            assert (back.assignment(), stays.assignment()) == (before, theirs)
            assert [event for event in listener.events[len(told) :] if event[1]] == []
    async with Admin(peer.bootstrap) as admin:
        described = (await admin.describe_groups([group])).value(group)
        assert {each.instance_id for each in described.members} == {"a", "b"}
        removed = await admin.remove_members_from_group(group, ["a", "b", "c"])
        assert set(removed.succeeded) == {"a", "b"}


@pytest.mark.parametrize("protocol", ["range", "kip-848-uniform"])
@pytest.mark.parametrize("is_compiled", [True, False], ids=["compiled", "text"])
async def test_patterns_choose_topics_and_compiled_ones_also_later_topics(
    protocol: str, is_compiled: bool, peer: ClientPeer, topic: str, group: str
) -> None:
    """Coordinators evaluate text, and look for new topics only every ten seconds."""
    pattern: Any = re.compile(f"{topic}-[0-9]+") if is_compiled else f"{topic}-[0-9]+"
    settings = {"group_id": group, "auto_offset_reset": "earliest", "metadata_max_age_ms": 500, **PROTOCOLS[protocol]}
    chosen = await peer.create(f"{topic}-1")
    await peer.create(f"{topic}-other")
    if not is_compiled:
        chosen += await peer.create(f"{topic}-2")
    async with Consumer(peer.bootstrap, pattern=pattern, heartbeat_interval_ms=200, **settings) as consumer:
        await until_shared([consumer], [len(chosen)])
        assert consumer.assignment() == set(chosen)
        if is_compiled:
            chosen += await peer.create(f"{topic}-2")
        await fill(peer, chosen, 1)
        assert {record.topic for record in await peer.take(consumer, 2)} == {f"{topic}-1", f"{topic}-2"}


async def test_committed_offsets_are_where_the_group_goes_on(peer: ClientPeer, topic: str, group: str) -> None:
    partitions = first, second = await peer.create(topic, 2)
    await fill(peer, partitions, 10)
    settings: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest"}
    outcomes: list[Any] = []
    async with Consumer(peer.bootstrap, enable_auto_commit=False, **settings) as consumer:
        consumer.assign([first])
        assert await consumer.committed(partitions) == {first: None, second: None}
        await consumer.fetch(max_records=4, timeout_s=WITHIN_S)
        await consumer.commit()
        consumer.commit_soon({second: OffsetAndMetadata(7, 0, "note")}, lambda *told: outcomes.append(told))
        await consumer.commit({})
        assert await consumer.committed(partitions) == {first: (4, 0, ""), second: (7, 0, "note")}
        assert [error for _, error in outcomes] == [None]
    async with Consumer(peer.bootstrap, topics=[topic], auto_commit_interval_ms=100, **settings) as consumer:
        records = await peer.take(consumer, 9)
        assert sorted((record.partition, record.offset) for record in records) == [
            *((0, offset) for offset in range(4, 10)),
            *((1, offset) for offset in range(7, 10)),
        ]
        assert consumer.group_metadata().group_id == group
        await consumer.unsubscribe()
        assert consumer.assignment() == set()
    async with Admin(peer.bootstrap) as admin:
        offsets = (await admin.list_group_offsets({group: None})).value(group).raise_first()
        assert {each: offset and offset.offset for each, offset in offsets.items()} == {first: 10, second: 10}


async def test_an_exception_leaves_the_record_that_was_worked_on_uncommitted(
    peer: ClientPeer, topic: str, group: str
) -> None:
    (partition,) = await peer.create(topic)
    await fill(peer, [partition], 5)
    settings: dict[str, Any] = {"group_id": group, "topics": [topic], "auto_offset_reset": "earliest"}

    async def work_until_failure() -> None:
        with trio.fail_after(WITHIN_S):
            async with Consumer(peer.bootstrap, **settings) as consumer:
                async for record in consumer:
                    if record.offset == 2:
                        raise LookupError("the work on the record failed")

    with pytest.raises(LookupError):
        await work_until_failure()
    async with Consumer(peer.bootstrap, **settings) as consumer:
        assert (await consumer.fetch(timeout_s=WITHIN_S))[0].offset == 2


# Administration


async def test_topics_are_administered(peer: ClientPeer, topic: str) -> None:
    async with Admin(peer.bootstrap) as admin:
        wanted = [
            NewTopic(topic, 2, 3, configs={"retention.ms": "1000000"}),
            NewTopic(f"{topic}-placed", assignments={0: [2, 3], 1: [3, 1]}),
            NewTopic("not/allowed"),
            NewTopic(f"{topic}-unknown-config", configs={"no.such.config": "1"}),
            NewTopic(f"{topic}-too-many", 1, 4),
        ]
        checked = await admin.create_topics(wanted[:1], validate_only=True)
        assert checked.value(topic).num_partitions == 2
        created = await admin.create_topics(wanted)
        assert {name: outcome.code for name, outcome in created.failed.items() if isinstance(outcome, KafkaError)} == {
            "not/allowed": ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"{topic}-unknown-config": ErrorCode.INVALID_CONFIG,
            f"{topic}-too-many": ErrorCode.INVALID_REPLICATION_FACTOR,
        }
        made = created.value(topic)
        assert (made.num_partitions, made.replication_factor, len(made.topic_id)) == (2, 3, 16)
        again = await admin.create_topics([wanted[0]])
        assert code_of(again[topic]) == ErrorCode.TOPIC_ALREADY_EXISTS

        grown = await admin.create_partitions({topic: 4, f"{topic}-placed": NewPartitions(3, [[1, 2]]), "absent": 2})
        assert code_of(grown["absent"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert code_of((await admin.create_partitions({topic: 1}))[topic]) == ErrorCode.INVALID_PARTITIONS
        with trio.fail_after(WITHIN_S):
            while len((await admin.describe_topics([topic])).value(topic).partitions) < 4:
                await trio.sleep(0.05)
        described = await admin.describe_topics([made.topic_id, f"{topic}-placed", "absent"])
        assert code_of(described["absent"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert described.value(made.topic_id).name == topic
        placed = described.value(f"{topic}-placed").partitions
        assert [each.replicas for each in placed] == [(2, 3), (3, 1), (1, 2)]
        listed = {each.name: each for each in await admin.list_topics()}
        assert listed[topic].topic_id == made.topic_id
        assert not any(each.is_internal for each in listed.values())

        deleted = await admin.delete_topics([made.topic_id, f"{topic}-placed", "absent"])
        assert code_of(deleted["absent"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(deleted.succeeded) == 2


def code_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code


async def test_configs_are_described_and_altered(peer: ClientPeer, topic: str, group: str) -> None:
    await peer.create(topic)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    broker = ConfigResource(ConfigResourceType.BROKER, "2")
    of_group = ConfigResource(ConfigResourceType.GROUP, group)
    absent = ConfigResource(ConfigResourceType.TOPIC, "absent")
    append = ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)
    changes = {
        resource: [ConfigChange("retention.ms", "123456789"), append],
        of_group: [ConfigChange("consumer.session.timeout.ms", "50000")],
        broker: [ConfigChange("log.segment.bytes", "987654321")],
        absent: [ConfigChange("retention.ms", "1")],
    }
    async with Admin(peer.bootstrap) as admin:
        altered = await admin.incremental_alter_configs(changes)
        assert {each: code_of(error) for each, error in altered.failed.items()} == {
            absent: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        bad = await admin.incremental_alter_configs({resource: [ConfigChange("retention.ms", "x")]}, validate_only=True)
        assert code_of(bad[resource]) == ErrorCode.INVALID_CONFIG
        with trio.fail_after(WITHIN_S):
            while True:
                described = await admin.describe_configs(
                    [resource, broker, of_group], include_synonyms=True, include_documentation=True
                )
                entries = described.value(resource)
                if entries["retention.ms"].value == "123456789":
                    break
                await trio.sleep(0.05)
        assert entries["retention.ms"].source == ConfigSource.TOPIC
        assert entries["retention.ms"].synonyms[0].value == "123456789"
        assert entries["cleanup.policy"].value == "delete,compact"
        assert entries["retention.ms"].documentation
        assert described.value(of_group)["consumer.session.timeout.ms"].value == "50000"
        assert described.value(broker)["log.segment.bytes"].source == ConfigSource.BROKER
        assert described.value(broker)["node.id"].is_read_only
        named = await admin.describe_configs([resource], names=["segment.bytes"])
        assert list(named.value(resource)) == ["segment.bytes"]
        assert of_group in await admin.list_config_resources([ConfigResourceType.GROUP])
        undo = {
            each: [ConfigChange(change.name, None, ConfigOperation.DELETE) for change in changes[each]]
            for each in (of_group, broker)
        }
        (await admin.incremental_alter_configs(undo)).raise_first()


async def test_the_cluster_and_its_quorum_are_described(peer: ClientPeer) -> None:
    async with Admin(peer.bootstrap) as admin:
        cluster = await admin.describe_cluster(include_fenced_brokers=True, include_authorized_operations=True)
        assert cluster.cluster_id == apache_kafka.CLUSTER_ID
        assert [each.port for each in sorted(cluster.nodes)] == [each.port for each in peer.cluster.members]
        assert cluster.controller_id in (1, 2, 3)
        assert cluster.fenced == frozenset()
        quorum = await admin.describe_metadata_quorum()
        assert sorted(each.id for each in quorum.voters) == [1, 2, 3]
        assert quorum.leader_id in (1, 2, 3)
        assert quorum.high_watermark > 0
        versions = (await admin.describe_api_versions()).raise_first()
        assert sorted(versions) == [1, 2, 3]
        assert versions[1].apis[18].highest >= 4
        features = await admin.describe_features()
        level = features.finalized["metadata.version"].highest
        assert features.supported["metadata.version"].highest >= level >= 25
        updated = await admin.update_features({"metadata.version": FeatureUpdate(level)}, validate_only=True)
        updated.raise_first()
        with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
            await admin.unregister_broker(99)
        # Apache Kafka's nodes, formatted with controller.quorum.voters, have a quorum that cannot be changed.
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION" if peer.is_apache_kafka else "VOTER_NOT_FOUND"):
            await admin.remove_raft_voter(99, bytes(range(16)))
        directories = (await admin.describe_log_dirs()).raise_first()
        assert sorted(directories) == [1, 2, 3]
        assert all(each.error is None and each.total_bytes for dirs in directories.values() for each in dirs.values())
    controllers = ",".join(f"127.0.0.1:{each.controller_port}" for each in peer.cluster.members)
    async with Admin(bootstrap_controllers=controllers) as admin:
        assert (await admin.describe_metadata_quorum()).leader_id == quorum.leader_id


async def test_groups_and_their_offsets_are_administered(peer: ClientPeer, topic: str, group: str) -> None:
    partitions = first, second = await peer.create(topic, 2)
    await fill(peer, partitions, 10)
    async with Admin(peer.bootstrap) as admin:
        (await admin.alter_group_offsets(group, {first: 3, second: OffsetAndMetadata(4, 0, "note")})).raise_first()
        offsets = (await admin.list_group_offsets({group: partitions}, require_stable=True)).value(group)
        assert {each: offset and (offset.offset, offset.metadata) for each, offset in offsets.succeeded.items()} == {
            first: (3, ""),
            second: (4, "note"),
        }
        listed = {each.group_id: each for each in (await admin.list_groups(states=["Empty"])).chained()}
        assert (listed[group].type, listed[group].state) == ("classic", "Empty")
        (await admin.delete_group_offsets(group, [second])).raise_first()
        async with Consumer(peer.bootstrap, group_id=group, topics=[topic], auto_offset_reset="earliest") as consumer:
            assert len(await peer.take(consumer, 17)) == 17
            described = (await admin.describe_groups([group, "absent"])).value(group)
            assert (described.state, described.type, len(described.members)) == ("Stable", "consumer", 1)
            refused = await admin.alter_group_offsets(group, {first: 0})
            assert code_of(refused[first]) in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP)
            assert code_of((await admin.delete_groups([group]))[group]) == ErrorCode.NON_EMPTY_GROUP
        deleted = await admin.delete_groups([group, "absent"])
        assert deleted.value(group) is None
        assert code_of(deleted["absent"]) == ErrorCode.GROUP_ID_NOT_FOUND
        assert group not in {each.group_id for each in (await admin.list_groups()).chained()}


async def test_partitions_are_moved_elected_and_measured(peer: ClientPeer, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    async with Admin(peer.bootstrap) as admin:
        (await admin.create_topics([NewTopic(topic, assignments={0: [1, 2]})])).raise_first()
        await fill(peer, [partition], 10)
        specs = {partition: OffsetSpec.LATEST}
        assert ((await admin.list_offsets(specs)).value(partition) or (0,))[0] == 10
        for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.MAX_TIMESTAMP, 9), (NOON_MS + 3500, 4)):
            assert ((await admin.list_offsets({partition: spec})).value(partition) or (0,))[0] == offset

        moved = await admin.alter_partition_reassignments({partition: [3, 2]})
        moved.raise_first()
        with trio.fail_after(WITHIN_S):
            while partition in await admin.list_partition_reassignments():
                await trio.sleep(0.05)
            while (await admin.describe_topics([topic])).value(topic).partitions[0].isr != (3, 2):
                state = (await admin.describe_topics([topic])).value(topic).partitions[0]
                if set(state.isr) == {2, 3} and state.replicas == (3, 2):
                    break
                await trio.sleep(0.05)
        nothing = await admin.alter_partition_reassignments({partition: None})
        assert code_of(nothing[partition]) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        outcome = (await admin.elect_leaders([partition]))[partition]
        assert outcome is None or code_of(outcome) == ErrorCode.ELECTION_NOT_NEEDED
        unclean = await admin.elect_leaders([partition], election_type=ElectionType.UNCLEAN)
        assert code_of(unclean[partition]) == ErrorCode.ELECTION_NOT_NEEDED
        with trio.fail_after(WITHIN_S):
            while (await admin.describe_topics([topic])).value(topic).partitions[0].leader != 3:
                await trio.sleep(0.05)
        directories = (await admin.describe_log_dirs([2, 3], partitions=[partition])).raise_first()
        for of_broker in directories.values():
            (replica,) = [each.replicas[partition] for each in of_broker.values() if partition in each.replicas]
            assert replica.size_bytes > 0
            assert not replica.is_future
        (producer,) = (await admin.describe_producers([partition])).value(partition)
        assert (producer.last_sequence, producer.transaction_start_offset) == (9, None)
        deleted = await admin.delete_records({partition: -1, TopicPartition(topic, 7): 1})
        assert deleted.value(partition) == 10
        assert len(deleted.failed) == 1


async def test_access_control_quotas_and_credentials_are_described(peer: ClientPeer, topic: str) -> None:
    binding = AclBinding(ResourceType.TOPIC, topic, "User:ada", AclOperation.READ)
    of_topic = AclFilter(ResourceType.TOPIC, topic)
    async with Admin(peer.bootstrap) as admin:
        assert await admin.describe_client_quotas() == []
        assert dict(await admin.describe_user_scram_credentials()) == {}
        absent = await admin.describe_user_scram_credentials(["ada"])
        assert code_of(absent["ada"]) == ErrorCode.RESOURCE_NOT_FOUND
        if not peer.is_apache_kafka:
            with pytest.raises(KafkaError) as caught:
                await admin.describe_acls()
            assert caught.value.code == ErrorCode.SECURITY_DISABLED
            return
        (await admin.create_acls([binding])).raise_first()
        with trio.fail_after(WITHIN_S):
            while await admin.describe_acls(of_topic) != [binding]:
                await trio.sleep(0.05)
        assert (await admin.delete_acls([of_topic])).value(of_topic) == [binding]

        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        alteration = UserScramCredentialUpsertion("ada", credential, b"secret")
        theirs = AdminClient({"bootstrap.servers": peer.bootstrap})
        altered = theirs.alter_user_scram_credentials([alteration])["ada"]
        await trio.to_thread.run_sync(altered.result)
        quota = ["--alter", "--add-config", "producer_byte_rate=1000", "--entity-type", "users", "--entity-name", "ada"]
        tool = apache_kafka.java("kafka.admin.ConfigCommand", "--bootstrap-server", peer.bootstrap, *quota)
        await trio.run_process(tool, capture_stdout=True)
        with trio.fail_after(WITHIN_S):
            while await admin.describe_client_quotas() != [
                ClientQuota({"user": "ada"}, {"producer_byte_rate": 1000.0})
            ]:
                await trio.sleep(0.05)
            while not (credentials := (await admin.describe_user_scram_credentials()).succeeded):
                await trio.sleep(0.05)
        assert [
            (user, [(each.mechanism.name, each.iterations) for each in of_user])
            for user, of_user in credentials.items()
        ] == [("ada", [("SCRAM_SHA_512", 8192)])]


# The blocking faces and Arrow


def test_blocking_faces_produce_consume_and_administer(peer: ClientPeer, topic: str, group: str) -> None:
    with SyncAdmin(peer.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 2, 3)]).raise_first()
        assert len(admin.describe_cluster().nodes) == 3
    with SyncProducer(peer.bootstrap, compression_type="lz4") as producer:
        assert producer.send(topic, b"first", key=b"key", partition=0).offset == 0
        deliveries = [producer.send_soon(topic, b"%d" % number, partition=1) for number in range(1000)]
        producer.flush()
        assert [each.result().offset for each in deliveries] == list(range(1000))
        with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION"):
            producer.send("not/allowed", b"")
    with SyncConsumer(peer.bootstrap, topics=[topic], group_id=group, auto_offset_reset="earliest") as consumer:
        assert len(list(islice(consumer, 1001))) == 1001
        consumer.commit()
    with SyncConsumer(peer.bootstrap, group_id=group) as consumer:
        partition = TopicPartition(topic, 1)
        assert (consumer.committed([partition])[partition] or (None,))[0] == 1000
        consumer.assign([partition])
        consumer.seek(partition, 990)
        assert [record.value for record in consumer.fetch(timeout_s=WITHIN_S)] == [b"%d" % n for n in range(990, 1000)]
        consumer.seek_to_beginning()
        assert consumer.fetch_arrow(timeout_s=WITHIN_S).num_rows > 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_arrow_tables_come_back_as_they_were_written(peer: ClientPeer, topic: str, compression: Any) -> None:
    partitions = await peer.create(topic, 3)
    rows = 3000
    table = pyarrow.table(
        {
            "key": [None if number % 5 == 0 else b"key-%d" % (number % 50) for number in range(rows)],
            "value": [None if number % 7 == 0 else b"value-%d" % number for number in range(rows)],
            "timestamp": [NOON_MS + number for number in range(rows)],
            "headers": [[{"key": "n", "value": b"%d" % number}] if number % 3 == 0 else [] for number in range(rows)],
            "partition": [number % 3 for number in range(rows)],
        }
    )
    async with Producer(peer.bootstrap, compression_type=compression) as producer:
        written = await producer.produce_arrow(topic, table)
    assert {each: [list(run) for run in runs] for each, runs in written.items()} == {
        each: [list(range(rows // 3))] for each in partitions
    }
    columns = ["key", "value", "timestamp", "headers", "partition", "offset"]
    tables = []
    async with Consumer(peer.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        with trio.fail_after(WITHIN_S):
            while sum(each.num_rows for each in tables) < rows:
                tables.append(await consumer.fetch_arrow(columns=columns))
    read = pyarrow.concat_tables(tables).sort_by([("offset", "ascending"), ("partition", "ascending")])
    for name in ("key", "value", "partition"):
        assert read.column(name).to_pylist() == table.column(name).to_pylist()
    records = await peer.read(partitions, rows)
    in_order = sorted(records, key=lambda record: (record.offset, record.partition))
    assert [record.timestamp_ms for record in in_order] == table.column("timestamp").to_pylist()
    assert [[*map(list, record.headers)] for record in in_order] == [
        [[header["key"], header["value"]] for header in of_row] for of_row in table.column("headers").to_pylist()
    ]


# Leader loss


@pytest.fixture
def kill(peer: ClientPeer) -> Iterator[Callable[[int], None]]:
    """Kill a node; it is started again after the test."""
    killed: list[Any] = []

    def kill_node(node_id: int) -> None:
        killed.append(peer.cluster.by_id(node_id))
        killed[-1].kill()

    yield kill_node
    for member in killed:
        member.launch()
        member.wait_serving(len(peer.cluster.members))


async def test_records_survive_a_killed_leader_once_and_in_order(
    peer: ClientPeer, topic: str, group: str, kill: Callable[[int], None]
) -> None:
    partitions = await peer.create(topic, 3)
    total, killed_at = 3000, 1000
    read: dict[int, list[tuple[int, bytes | None]]] = {each.partition: [] for each in partitions}
    is_killed = trio.Event()
    settings: dict[str, Any] = {"group_id": group, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 200}

    async def produce() -> None:
        async with Producer(peer.bootstrap, linger_ms=1, batch_size=2000) as producer:
            for number in range(total):
                for partition in partitions:
                    producer.send_soon(topic, b"%d" % number, partition=partition.partition)
                if number == killed_at:
                    leader = next(each.leader_id for each in await producer.partitions_for(topic))
                    await trio.to_thread.run_sync(kill, leader)
                    is_killed.set()
                if number % 50 == 0:
                    await trio.sleep(0.01)

    async def consume() -> None:
        async with Consumer(peer.bootstrap, topics=[topic], **settings) as consumer:
            while sum(map(len, read.values())) < 3 * total:
                for record in await consumer.fetch():
                    read[record.partition].append((record.offset, record.value))

    with trio.fail_after(2 * WITHIN_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consume)
            nursery.start_soon(produce)
    assert is_killed.is_set()
    expected = [(number, b"%d" % number) for number in range(total)]
    assert [read[partition.partition] == expected for partition in partitions] == [True] * 3
