"""Dead letters while the leader of the source partition, or that of the dead-letter topic, is killed (KIP-1191)."""

from collections import Counter
from pathlib import Path

import pytest
import trio

from broker.client import AcknowledgeType, Admin, NewTopic, ShareConsumer
from tests.support.replicated_topics import create_replicated, send
from tests.support.requests import fetch, records_of
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.share_member import GROUP, set_group_config
from tests.support.wire_client import connected

DEAD_LETTERS = "dlq.topic"
RECORDS = 200
WITHIN_S = 60.0
LOCK_MS = 1_000
OVERRIDES = {
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.delivery.count.limit": "10",
}
# Members reject these, and accept the others.
FAILING = frozenset(range(0, RECORDS, 3))


def servers_of(cluster: RunningCluster) -> str:
    return ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes.values())


async def consume(cluster: RunningCluster, is_half_done: trio.Event) -> None:
    """Take records until cancelled. One of two consumers sees at least a quarter of them."""
    delivered = 0
    consumer: ShareConsumer[bytes, bytes] = ShareConsumer(
        servers_of(cluster),
        topics=["topic"],
        group_id=GROUP,
        share_acknowledgement_mode="explicit",
        max_poll_records=10,
        share_acquire_mode="record_limit",
    )
    async with consumer:
        while True:
            for record in await consumer.fetch(0.2):
                is_failing = record.offset in FAILING
                consumer.acknowledge(record, AcknowledgeType.REJECT if is_failing else AcknowledgeType.ACCEPT)
                delivered += 1
            await consumer.commit()
            if delivered > RECORDS // 4:
                is_half_done.set()


async def copied(cluster: RunningCluster, node_id: int) -> Counter[int]:
    """The number of dead letters by the offset of their record, as a node has them; none if it does not lead."""
    async with connected(cluster.port(node_id)) as client:
        partition = await fetch(client, topic=DEAD_LETTERS)
    records = [] if partition.error_code else records_of(partition)
    return Counter(int(dict(each.headers)["__dlq.errors.offset"] or b"-1") for each in records)


@pytest.mark.parametrize("victim", [1, 2], ids=["source-leader", "dead-letter-leader"])
async def test_every_rejected_record_is_copied_and_no_other_though_a_leader_is_killed(
    tmp_path: Path, victim: int
) -> None:
    async with running_cluster(tmp_path, 3, overrides=OVERRIDES) as cluster:
        await create_replicated(cluster, ((1, 2, 3),))
        async with Admin(servers_of(cluster)) as admin:
            configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": "2"}
            topic = NewTopic(DEAD_LETTERS, assignments={0: [2, 3, 1]}, configs=configs)
            (await admin.create_topics([topic])).raise_first()
        async with connected(cluster.port(3)) as client:
            await set_group_config(client, "share.auto.offset.reset", "earliest")
            await set_group_config(client, "errors.deadletterqueue.topic.name", DEAD_LETTERS)
        await cluster.until_images_match()
        found: Counter[int] = Counter()
        with trio.fail_after(WITHIN_S):
            async with trio.open_nursery() as nursery:
                is_half_done = trio.Event()
                for _ in range(2):
                    nursery.start_soon(consume, cluster, is_half_done)
                for _ in range(RECORDS // 10):
                    assert await send(cluster, 1, *[b"value"] * 10) == 0
                await is_half_done.wait()
                await cluster.nodes[victim].crash()
                await cluster.start(victim)
                while found.keys() != FAILING:
                    assert found.keys() <= FAILING, "only rejected records are copied"
                    for node_id in cluster.nodes:
                        found = await copied(cluster, node_id) or found
                    await trio.sleep(0.05)
                nursery.cancel_scope.cancel()
        assert not any(node.traced.of("dead_letters_lost") for node in cluster.nodes.values())
