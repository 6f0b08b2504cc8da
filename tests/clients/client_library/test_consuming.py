"""The client library reads partitions without a group, from three nodes of ours or of Apache Kafka."""

from collections import Counter
from typing import Any

import confluent_kafka
import pytest
import trio

from broker.client import (
    Admin,
    Consumer,
    NoOffsetForPartition,
    OffsetAndMetadata,
    OffsetOutOfRange,
    Producer,
)
from tests.support.client_peers import NOON_MS, WITHIN_S, ClientPeer, fill

pytestmark = pytest.mark.clients


@pytest.fixture
def peer_with_transactions(peer: ClientPeer) -> ClientPeer:
    if not peer.is_apache_kafka:
        pytest.skip("only Apache Kafka has transactions")
    return peer


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
