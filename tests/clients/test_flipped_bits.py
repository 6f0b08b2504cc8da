"""Bits flip in the logs of three running nodes, and clients that check no checksums go on reading.

A consumer of librdkafka with check.crcs=false may read a wrong value until the damage is known, and never after that.
"""

from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer, KafkaError, TopicPartition

from broker.cli.commands.cluster_health import ClusterHealth, examine_cluster
from broker.client import Admin, Producer
from broker.client import Consumer as LibraryConsumer
from broker.client import TopicPartition as LibraryPartition
from broker.coordinator.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from tests.broker.replication.test_damaged_replicas import (
    BATCHES,
    SMALL_SEGMENTS,
    VALUE,
    events,
    fill,
    flip,
    partition_of,
    read_all,
    until_repaired,
)
from tests.support.replicated_topics import create_replicated, described, until_described, until_led_by_another
from tests.support.running_admin import bootstrap_servers
from tests.support.running_cluster import COMBINED, RunningCluster, running_cluster

pytestmark = pytest.mark.clients


def consume(servers: str, first_offset: int, end_offset: int) -> tuple[list[bytes | None], list[KafkaError]]:
    """The values from `first_offset` on, until the one before `end_offset` or an error."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": "readers",
        "enable.auto.commit": False,
        "check.crcs": False,
        "auto.offset.reset": "error",
    }
    consumer = Consumer(settings)
    values: list[bytes | None] = []
    errors: list[KafkaError] = []
    try:
        consumer.assign([TopicPartition("topic", 0, first_offset)])
        while first_offset + len(values) < end_offset and not errors:
            message = consumer.poll(20)
            assert message is not None, f"nothing after {len(values)} records"
            error = message.error()
            if error is not None:
                errors.append(error)
            else:
                values.append(message.value())
    finally:
        consumer.close()
    return values, errors


async def consumed(
    cluster: RunningCluster, first_offset: int, end_offset: int
) -> tuple[list[bytes | None], list[KafkaError]]:
    servers = ",".join(bootstrap_servers(cluster))
    return await trio.to_thread.run_sync(consume, servers, first_offset, end_offset)


async def health(cluster: RunningCluster) -> ClusterHealth:
    async with Admin(",".join(bootstrap_servers(cluster))) as admin:
        return await examine_cluster(admin)


@pytest.mark.parametrize("configs", [SMALL_SEGMENTS, {"index.interval.bytes": "100"}], ids=["closed", "active"])
async def test_consumer_reads_no_wrong_value_once_the_damage_is_known(tmp_path: Path, configs: dict[str, str]) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, configs=configs)
        values = await fill(cluster)
        assert (await health(cluster)).problems == []
        flip(tmp_path, 1, 10, VALUE)
        before, errors = await consumed(cluster, 0, BATCHES)
        assert errors == []
        assert [number for number in range(BATCHES) if before[number] != values[number]] in ([], [10])
        partition = partition_of(cluster, 1)
        partition.tasks.check_log(partition, 10)
        await until_led_by_another(cluster, 2, former=1)
        assert await consumed(cluster, 0, BATCHES) == (values, [])
        await until_repaired(cluster, tmp_path, 1)
        assert await read_all(cluster) == values
        healed = await health(cluster)
        assert (healed.problems, healed.damaged_replicas) == ([], 0)


async def test_only_replica_is_named_by_health_until_its_damage_is_trimmed(tmp_path: Path) -> None:
    """A consumer gets an error that names the partition, and reads on after the damage if it seeks there."""
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1]], configs={**SMALL_SEGMENTS, "min.insync.replicas": "1"})
        values = await fill(cluster)
        flip(tmp_path, 1, 10, VALUE)
        partition = partition_of(cluster, 1)
        partition.tasks.check_log(partition, 10)
        await cluster.until(lambda: events(cluster, 1, "partition_damage_stays") != [])
        found, errors = await consumed(cluster, 0, BATCHES)
        assert found == values[:10]
        assert [error.code() for error in errors] == [KafkaError.INVALID_MSG]
        assert await consumed(cluster, 11, BATCHES) == (values[11:], [])
        (problem,) = (await health(cluster)).problems
        assert problem.startswith("topic-0 is damaged on broker 1, at offsets 10 to 10 in ")
        assert "kraft topics trim topic:0 --before-offset 11" in problem
        async with Admin(",".join(bootstrap_servers(cluster))) as admin:
            (await admin.delete_records({("topic", 0): 11})).raise_first()
        await cluster.until(lambda: events(cluster, 1, "partition_repaired") != [])
        assert (await health(cluster)).problems == []
        assert await consumed(cluster, 11, BATCHES) == (values[11:], [])


async def test_lagging_replicas_are_in_sync_again_after_the_damage_is_trimmed(tmp_path: Path) -> None:
    """The only replica in sync is damaged where the others have not been yet."""
    async with running_cluster(tmp_path, {1: COMBINED, 2: "broker", 3: "broker"}) as cluster:
        await create_replicated(cluster, configs={**SMALL_SEGMENTS, "min.insync.replicas": "1"})
        for node_id in (2, 3):
            await cluster.nodes[node_id].crash()
        await cluster.until(lambda: partition_isr(cluster) == (1,))
        values = await fill(cluster)
        flip(tmp_path, 1, 10, VALUE)
        await cluster.start()
        await cluster.until(lambda: events(cluster, 1, "partition_damage_stays") != [])
        await cluster.until(
            lambda: all(
                any(each["offset"] == 10 for each in events(cluster, node_id, "replica_fetch_damaged"))
                for node_id in (2, 3)
            )
        )
        problems = (await health(cluster)).problems
        assert "topic-0 is damaged on broker 1" in problems[0]
        assert (await described(cluster, 1)).leader_id == 1
        async with Admin(",".join(bootstrap_servers(cluster))) as admin:
            (await admin.delete_records({("topic", 0): 11})).raise_first()
        await cluster.until(lambda: events(cluster, 1, "partition_repaired") != [])
        await until_described(cluster, 1, isr=[1, 2, 3])
        assert await consumed(cluster, 11, BATCHES) == (values[11:], [])
        assert (await health(cluster)).problems == []


def partition_isr(cluster: RunningCluster) -> tuple[int, ...]:
    role = partition_of(cluster, 1).role
    return role.in_sync.isr if isinstance(role, LeaderRole) else ()


def commit(servers: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "group"})
    try:
        consumer.commit(offsets=[TopicPartition("topic", 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def committed_offset(servers: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "group"})
    try:
        (found,) = consumer.committed([TopicPartition("topic", 0)], timeout=20)
        return int(found.offset)
    finally:
        consumer.close()


async def test_coordinator_that_cannot_load_hands_its_partition_over(tmp_path: Path) -> None:
    """`__consumer_offsets` is compacted, so it is repaired from its start."""
    overrides = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    async with running_cluster(tmp_path, overrides=overrides) as cluster:
        await create_replicated(cluster)
        servers = ",".join(bootstrap_servers(cluster))
        for offset in range(5):
            await trio.to_thread.run_sync(commit, servers, offset)
        partitions = {node_id: internal_partition(cluster, node_id) for node_id in (1, 2, 3)}
        former = partitions[1].leader_id
        damaged = next(
            node_id for node_id in replicas_of(cluster, CONSUMER_OFFSETS) if node_id != former
        )  # the controller elects the first replica in sync
        await cluster.until(lambda: len({log_end(each) for each in partitions.values()}) == 1)
        path = tmp_path / f"node-{damaged}" / "__consumer_offsets-0" / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        content[VALUE] ^= 0x10
        path.write_bytes(content)
        await cluster.nodes[former].stop()
        await cluster.until(lambda: events(cluster, damaged, "partition_damaged") != [])
        assert await trio.to_thread.run_sync(committed_offset, servers) == 4
        await cluster.start(former)
        await cluster.until(lambda: events(cluster, damaged, "partition_repaired") != [])
        assert internal_partition(cluster, damaged).leader_id != damaged
        assert await trio.to_thread.run_sync(committed_offset, servers) == 4


async def write_transaction(servers: str, value: bytes) -> None:
    async with Producer(servers, transactional_id="writer") as producer, producer.transaction():
        await producer.send("topic", value)


async def test_transaction_coordinator_that_cannot_load_hands_its_partition_over(tmp_path: Path) -> None:
    """The producer goes on with its transactional id, and no committed record is missing or there twice."""
    overrides = {
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "1",
    }
    async with running_cluster(tmp_path, overrides=overrides) as cluster:
        await create_replicated(cluster)
        servers = ",".join(bootstrap_servers(cluster))
        for number in range(3):
            await write_transaction(servers, b"%d" % number)
        partitions = {node_id: internal_partition(cluster, node_id, TRANSACTION_STATE) for node_id in (1, 2, 3)}
        former = partitions[1].leader_id
        damaged = next(each for each in replicas_of(cluster, TRANSACTION_STATE) if each != former)
        await cluster.until(lambda: len({log_end(each) for each in partitions.values()}) == 1)
        path = tmp_path / f"node-{damaged}" / f"{TRANSACTION_STATE}-0" / f"{0:020d}.log"
        content = bytearray(path.read_bytes())
        content[VALUE] ^= 0x10
        path.write_bytes(content)
        await cluster.nodes[former].stop()
        await cluster.until(lambda: events(cluster, damaged, "partition_damaged") != [])
        await write_transaction(servers, b"3")
        await cluster.start(former)
        await cluster.until(lambda: events(cluster, damaged, "partition_repaired") != [])
        await write_transaction(servers, b"4")
        assert internal_partition(cluster, damaged, TRANSACTION_STATE).leader_id != damaged
        async with LibraryConsumer(servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
            consumer.assign([LibraryPartition("topic", 0)])
            values: list[bytes | None] = []
            while len(values) < 5:
                values += [record.value for record in await consumer.fetch(timeout_s=10)]
        assert values == [b"%d" % number for number in range(5)]


def internal_partition(cluster: RunningCluster, node_id: int, topic: str = CONSUMER_OFFSETS) -> Partition:
    node = cluster.nodes[node_id].node
    assert node is not None
    assert node.broker is not None
    return node.broker.partitions.get(topic, 0)


def replicas_of(cluster: RunningCluster, topic: str) -> tuple[int, ...]:
    node = cluster.nodes[1].node
    assert node is not None
    assert node.loader is not None
    return node.loader.image.topics.by_name[topic].partitions[0].replicas


def log_end(partition: Partition) -> int:
    return -1 if partition.log is None else partition.log.log_end_offset
