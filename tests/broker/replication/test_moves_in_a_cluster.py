"""Leaders and followers of a cluster move between log directories while records are written; none is lost (KIP-113)."""

from collections.abc import Sequence
from pathlib import Path

import trio

from broker.client import Admin, Consumer, NewTopic, Producer, TopicPartition, TopicPartitionReplica
from tests.support.running_admin import bootstrap_servers
from tests.support.running_cluster import RunningCluster, running_cluster

PARTITION = TopicPartition("topic", 0)
WITHIN_S = 40.0
MOVES = 3


def log_dir(path: Path, node_id: int, name: str) -> str:
    return str(path / f"node-{node_id}-{name}")


async def move_repeatedly(
    path: Path, cluster: RunningCluster, admin: Admin, node_id: int, written: Sequence[bytes]
) -> None:
    """Move the replica of a node from one directory to the other and back, each time after another record."""
    replica = TopicPartitionReplica("topic", 0, node_id)
    for number in range(MOVES):
        await cluster.until(lambda count=number: len(written) > count)
        destination = log_dir(path, node_id, ("two", "one")[number % 2])
        (await admin.alter_replica_log_dirs({replica: destination})).raise_first()
        traced = cluster.nodes[node_id].traced
        await cluster.until(lambda traced=traced, count=number + 1: len(traced.of("replica_moved")) >= count)
        described = (await admin.describe_log_dirs([node_id])).value(node_id)
        assert not described[destination].replicas[PARTITION].is_future


async def test_all_replicas_move_while_records_are_written_and_stay_in_sync(tmp_path: Path) -> None:
    of_nodes = {
        node_id: {"log.dirs": ",".join(log_dir(tmp_path, node_id, name) for name in ("one", "two"))}
        for node_id in (1, 2, 3)
    }
    overrides = {"min.insync.replicas": "3"}
    async with running_cluster(tmp_path, of_nodes=of_nodes, overrides=overrides) as cluster:
        servers, written = bootstrap_servers(cluster), list[bytes]()
        async with Admin(servers) as admin, Producer(servers, acks=-1) as producer:
            (await admin.create_topics([NewTopic("topic", assignments={0: [1, 2, 3]})])).raise_first()
            await cluster.until_images_match()

            async def write() -> None:
                while True:
                    value = b"%d" % len(written)
                    await producer.send("topic", value, partition=0)
                    written.append(value)

            with trio.fail_after(WITHIN_S):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(write)
                    async with trio.open_nursery() as moving:
                        for node_id in cluster.nodes:
                            moving.start_soon(move_repeatedly, tmp_path, cluster, admin, node_id, written)
                    nursery.cancel_scope.cancel()
            partition = (await admin.describe_topics(["topic"])).value("topic").partitions[0]
            assert sorted(partition.isr) == [1, 2, 3]
        async with Consumer(servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([PARTITION])
            read = list[bytes]()
            with trio.fail_after(WITHIN_S):
                while len(read) < len(written):
                    read += [record.value or b"" for record in await consumer.fetch(timeout_s=1)]
        assert read[: len(written)] == written
