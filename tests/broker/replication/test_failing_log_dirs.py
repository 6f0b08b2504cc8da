"""A failed log directory takes only its own replicas offline, and no other replica of its broker (KIP-858)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from broker.wire.errors import ErrorCode
from metadata.ids import UNASSIGNED_DIRECTORY
from metadata.image import PartitionImage
from tests.support.faulty_disk import FaultyDisk
from tests.support.replicated_topics import create_replicated, read, send, until_described
from tests.support.requests import batch, produce_request
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.wire_client import connected, only

ALL = (1, 2, 3)


@asynccontextmanager
async def cluster_of_three(path: Path, disk: FaultyDisk) -> AsyncIterator[RunningCluster]:
    """A cluster whose node 1 has two log directories on this disk."""
    two = {1: {"log.dirs": f"{path / 'one'},{path / 'two'}"}}
    async with running_cluster(path, disks={1: disk}, of_nodes=two) as cluster:
        yield cluster


def index_in(directory: Path) -> int:
    """The partition of "topic" in a log directory that holds one of two."""
    return int(only([each.name for each in directory.iterdir() if each.name.startswith("topic-")]).rpartition("-")[2])


def partition(cluster: RunningCluster, index: int, node_id: int = 2) -> PartitionImage:
    """The partition in a node's metadata."""
    node = cluster.nodes[node_id].node
    assert node is not None
    assert node.loader is not None
    return node.loader.image.topics.by_name["topic"].partitions[index]


async def until_told(cluster: RunningCluster) -> None:
    """Wait until every broker knows the directories of the replicas."""
    await cluster.until(
        lambda: (
            not any(
                UNASSIGNED_DIRECTORY in partition(cluster, index, node_id).directories
                for index in (0, 1)
                for node_id in ALL
            )
        )
    )


async def fail(cluster: RunningCluster, disk: FaultyDisk, directory: Path, index: int) -> None:
    """Let the directory fail, and make node 1 notice it with a write."""
    disk.failing = (str(directory),)
    async with connected(cluster.port(1)) as client:
        await client.send(produce_request(batch(b"lost"), index=index), 9)
        await client.expect_close()


async def test_other_brokers_lead_the_partitions_of_a_failed_directory(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with cluster_of_three(tmp_path, disk) as cluster:
        await create_replicated(cluster, [ALL, ALL])
        await until_told(cluster)
        lost, left = index_in(tmp_path / "two"), index_in(tmp_path / "one")
        for index in (lost, left):
            assert await send(cluster, 1, b"before", index=index) == 0
        await fail(cluster, disk, tmp_path / "two", lost)

        described = await until_described(cluster, 3, lost, isr=(2, 3))
        assert described.leader_id in (2, 3)
        assert described.offline_replicas == [1]
        assert await send(cluster, described.leader_id, b"after", index=lost) == 0
        assert await read(cluster, described.leader_id, lost) == [b"before", b"after"]

        await until_described(cluster, 1, left, leader=1, isr=ALL)
        assert await send(cluster, 1, b"after", index=left) == 0
        assert await read(cluster, 1, left) == [b"before", b"after"]
        assert await send(cluster, 1, b"lost", index=lost) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_repaired_directory_is_used_after_a_restart(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with cluster_of_three(tmp_path, disk) as cluster:
        await create_replicated(cluster, [ALL, ALL])
        await until_told(cluster)
        lost = index_in(tmp_path / "two")
        assert await send(cluster, 1, b"before", index=lost) == 0
        await fail(cluster, disk, tmp_path / "two", lost)
        leader = (await until_described(cluster, 3, lost, isr=(2, 3))).leader_id
        assert await send(cluster, leader, b"after", index=lost) == 0

        await cluster.nodes[1].stop()
        disk.failing = ()
        before = partition(cluster, lost)
        await cluster.start(1)
        await until_described(cluster, leader, lost, isr=ALL)
        assert partition(cluster, lost).directories == before.directories


async def test_partition_whose_only_replica_is_in_a_failed_directory_has_no_leader(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with cluster_of_three(tmp_path, disk) as cluster:
        await create_replicated(cluster, [(1,), (1,)])
        await until_told(cluster)
        lost, left = index_in(tmp_path / "two"), index_in(tmp_path / "one")
        await fail(cluster, disk, tmp_path / "two", lost)
        described = await until_described(cluster, 2, lost, leader=-1)
        assert described.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (await until_described(cluster, 2, left)).leader_id == 1


@pytest.mark.parametrize("configs", [{}, {"segment.ms": "1"}], ids=["while writing", "while rolling"])
async def test_follower_with_a_failed_directory_leaves_the_isr(tmp_path: Path, configs: dict[str, str]) -> None:
    disk = FaultyDisk()
    async with cluster_of_three(tmp_path, disk) as cluster:
        await create_replicated(cluster, [(2, 1, 3), (2, 1, 3)], configs)
        await until_told(cluster)
        lost, left = index_in(tmp_path / "two"), index_in(tmp_path / "one")
        assert await send(cluster, 2, b"before", index=lost) == 0
        disk.failing = (str(tmp_path / "two"),)
        assert await send(cluster, 2, b"value", index=lost) == 0  # as soon as the follower has left the ISR
        described = await until_described(cluster, 2, lost, leader=2, isr=(2, 3))
        assert described.offline_replicas == [1]
        assert await send(cluster, 2, b"value", index=left) == 0
        await until_described(cluster, 2, left, leader=2, isr=ALL)


async def test_restart_does_not_report_known_directories(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with cluster_of_three(tmp_path, disk) as cluster:
        await create_replicated(cluster, [(1,), (1,)])
        await until_told(cluster)
        before = [partition(cluster, index).directories for index in (0, 1)]
        await cluster.nodes[1].stop()
        await cluster.start(1)
        await until_described(cluster, 2, 0, leader=1)
        await trio.sleep(0.2)
        assert [partition(cluster, index).directories for index in (0, 1)] == before
        assert not cluster.nodes[1].traced.of("directory_assignment_refused")
