"""Share consumers of the client library, with three nodes of ours or of Apache Kafka (KIP-932)."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from broker.client import (
    AcknowledgeType,
    Admin,
    AsyncioShareConsumer,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    Consumer,
    FeatureUpdate,
    KafkaError,
    Producer,
    ShareConsumer,
    ShareRecord,
    SyncAdmin,
    SyncShareConsumer,
    TopicPartition,
)
from broker.wire.errors import ErrorCode
from tests.support.client_peers import WITHIN_S, ClientPeer, code_of, fill

pytestmark = pytest.mark.clients

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
LEVEL = {"share.version": FeatureUpdate(1)}


@pytest.fixture(scope="module", autouse=True)
def share_groups(peer: ClientPeer) -> None:
    """Has the cluster serve share groups, and waits until every broker knows."""
    with SyncAdmin(peer.bootstrap) as admin:
        if not admin.describe_features().finalized.get("share.version"):
            admin.update_features(LEVEL).raise_first()
    for member in peer.cluster.members:
        with SyncAdmin(member.bootstrap) as admin:
            while not admin.describe_features().finalized.get("share.version"):
                time.sleep(0.05)


@pytest.fixture
def kill(peer: ClientPeer) -> Iterator[Callable[[int], None]]:
    """Kill a node, which is restarted after the test."""
    killed: list[Any] = []

    def kill_node(node_id: int) -> None:
        killed.append(peer.cluster.by_id(node_id))
        killed[-1].kill()

    yield kill_node
    for member in killed:
        member.launch()
        member.wait_serving(len(peer.cluster.members))


async def configure(peer: ClientPeer, group: str, **configs: str) -> None:
    """Has the group begin with the first record, and sets other configs of it."""
    changes = [ConfigChange("share.auto.offset.reset", "earliest")]
    changes += [ConfigChange(f"share.{key.replace('_', '.')}", value) for key, value in configs.items()]
    async with Admin(peer.bootstrap) as admin:
        (
            await admin.incremental_alter_configs({ConfigResource(ConfigResourceType.GROUP, group): changes})
        ).raise_first()


@asynccontextmanager
async def worker(peer: ClientPeer, topic: str, group: str, **settings: Any) -> AsyncIterator[ShareConsumer]:
    async with ShareConsumer(peer.bootstrap, topics=[topic], group_id=group, **settings) as consumer:
        yield consumer


async def fetch(consumer: ShareConsumer) -> list[ShareRecord]:
    with trio.fail_after(WITHIN_S):
        return await consumer.fetch()


async def test_workers_share_a_partition_and_each_record_is_done_once(peer: ClientPeer, topic: str, group: str) -> None:
    partitions = await peer.create(topic, 1)
    await configure(peer, group)
    await fill(peer, partitions, 200)
    done: list[int] = []
    workers: set[str] = set()
    both_work = trio.Event()

    async def work(name: str) -> None:
        settings = {"share_acquire_mode": "record_limit", "max_poll_records": 10}
        async with worker(peer, topic, group, **settings) as consumer:
            while len(done) < 200:
                records = await consumer.fetch(timeout_s=0.2)
                assert len(records) <= 10
                if records:
                    workers.add(name)
                    if len(workers) == 2:
                        both_work.set()
                    await both_work.wait()
                    (await consumer.commit()).raise_first()
                    done.extend(record.offset for record in records)

    with trio.fail_after(WITHIN_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, "first")
            nursery.start_soon(work, "second")
    assert sorted(done) == list(range(200))


async def test_outcomes_decide_which_records_come_again_kip_932(peer: ClientPeer, topic: str, group: str) -> None:
    (partition,) = await peer.create(topic, 1)
    await configure(peer, group)
    await fill(peer, [partition], 4)
    outcomes = [AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW]
    async with worker(peer, topic, group, **EXPLICIT) as consumer:
        records = await fetch(consumer)
        for record, outcome in zip(records, outcomes, strict=True):
            consumer.acknowledge(record, outcome)
        assert (await consumer.commit()).raise_first() == {partition: None}
        renewed = await fetch(consumer)
        assert [(each.offset, each.delivery_count) for each in renewed] == [(3, 1)]
        consumer.acknowledge(renewed[0])
        released = await fetch(consumer)
        assert [(each.offset, each.delivery_count) for each in released] == [(1, 2)]
    async with worker(peer, topic, group) as consumer:
        again = await fetch(consumer)
        assert [(each.offset, each.delivery_count) for each in again] == [(1, 3)]
        (await consumer.commit()).raise_first()
        assert await consumer.fetch(timeout_s=0.5) == []
    async with Admin(peer.bootstrap) as admin:
        offset = (await admin.list_share_group_offsets({group: [partition]})).value(group).value(partition)
        assert offset is not None
        assert offset.lag == 0


async def test_a_lock_that_has_timed_out_is_no_longer_the_worker_s(peer: ClientPeer, topic: str, group: str) -> None:
    (partition,) = await peer.create(topic, 1)
    await configure(peer, group, record_lock_duration_ms="1000")
    await fill(peer, [partition], 1)
    async with worker(peer, topic, group) as slow, worker(peer, topic, group) as other:
        (record,) = await fetch(slow)
        assert slow.acquisition_lock_timeout_ms() == 1_000
        (again,) = await fetch(other)
        assert (again.offset, again.delivery_count) == (record.offset, 2)
        assert code_of((await slow.commit())[partition]) == ErrorCode.INVALID_RECORD_STATE
        (await other.commit()).raise_first()


async def test_a_group_of_another_type_is_refused(peer: ClientPeer, topic: str, group: str) -> None:
    await peer.create(topic, 1)
    async with Consumer(peer.bootstrap, topics=[topic], group_id=group) as consumer:
        with trio.fail_after(WITHIN_S):
            while not consumer.assignment():
                await consumer.fetch(timeout_s=0.05)
        async with worker(peer, topic, group) as refused:
            with pytest.raises(KafkaError) as raised:
                await fetch(refused)
            assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_jobs_survive_a_killed_leader_at_least_once(
    peer: ClientPeer, topic: str, group: str, kill: Callable[[int], None]
) -> None:
    partitions = await peer.create(topic, 3)
    await configure(peer, group)
    await fill(peer, partitions, 100)
    done: set[tuple[int, int]] = set()
    is_killed = False
    async with Producer(peer.bootstrap) as producer:
        leader = next(each.leader_id for each in await producer.partitions_for(topic))
    async with worker(peer, topic, group, max_poll_records=10, share_acquire_mode="record_limit") as consumer:
        with trio.fail_after(2 * WITHIN_S):
            while len(done) < 300:
                records = await consumer.fetch(timeout_s=1)
                if records and not is_killed:
                    is_killed = True
                    await trio.to_thread.run_sync(kill, leader)
                results = await consumer.commit()
                for record in records:
                    if results[TopicPartition(record.topic, record.partition)] is None:
                        done.add((record.partition, record.offset))
    assert is_killed


def test_blocking_and_asyncio_faces_take_and_acknowledge_records(peer: ClientPeer, topic: str, group: str) -> None:
    async def prepare() -> None:
        await fill(peer, await peer.create(topic, 1), 6)
        await configure(peer, group)

    trio.run(prepare)
    with SyncShareConsumer(peer.bootstrap, topics=[topic], group_id=group, **EXPLICIT) as consumer:
        assert consumer.subscription() == {topic}
        first = next(consumer)
        consumer.acknowledge(first, AcknowledgeType.REJECT)
        (partition,) = consumer.commit().raise_first()
        assert partition == TopicPartition(topic, 0)

    async def take() -> list[int]:
        offsets = []
        async with AsyncioShareConsumer(peer.bootstrap, topics=[topic], group_id=group) as consumer:
            async for record in consumer:
                offsets.append(record.offset)
                if len(offsets) == 5:
                    break
            (await consumer.commit()).raise_first()
        return offsets

    assert first.offset == 0
    assert asyncio.run(asyncio.wait_for(take(), WITHIN_S)) == [1, 2, 3, 4, 5]
