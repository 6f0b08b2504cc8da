"""Repairs of a follower's log that meet further damage, a full disk, or the deletion of the topic."""

import errno
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.client import Admin, NewTopic, Producer
from kraft.env import Buffer, File, RealDisk
from tests.broker.replication.test_damaged_replicas import (
    SMALL_SEGMENTS,
    VALUE,
    events,
    fill,
    flip,
    partition_of,
    read_all,
    until_repaired,
)
from tests.support.replicated_topics import create_replicated, send, until_replicated
from tests.support.running_admin import bootstrap_servers
from tests.support.running_cluster import RunningCluster, running_cluster


class Aborted(Exception):
    """Ends a transaction."""


async def fill_with_transactions(cluster: RunningCluster) -> None:
    """Commit and abort transactions of one record in turn, several segments of them."""
    async with Producer(",".join(bootstrap_servers(cluster)), transactional_id="writer") as producer:
        for number in range(20):
            try:
                async with producer.transaction():
                    await producer.send("topic", b"value-%04d" % number, partition=0)
                    if number % 2:
                        raise Aborted
            except Aborted:
                pass


@pytest.mark.parametrize("damage", ["flipped bit", "cut"])
async def test_segment_is_repaired_although_its_transaction_index_is_damaged_too(tmp_path: Path, damage: str) -> None:
    """The index is made again from the repaired batches, and not before: the damaged ones may lack a transaction."""
    async with running_cluster(tmp_path, overrides={"log.initial.task.delay.ms": "0"}) as cluster:
        await create_replicated(cluster, configs=SMALL_SEGMENTS)
        await fill_with_transactions(cluster)
        await until_replicated(cluster, tmp_path, [1, 2, 3])
        path = min((tmp_path / "node-3" / "topic-0").glob("*.txnindex"))
        content = path.read_bytes()
        partition = partition_of(cluster, 3)
        assert partition.log is not None
        partition.log.segments.release()
        changed = bytearray(content)
        changed[12] ^= 4
        path.write_bytes(changed if damage == "flipped bit" else content[:-5])
        flip(tmp_path, 3, 4, VALUE)
        partition.tasks.check_log(partition, 4)
        await until_repaired(cluster, tmp_path, 3)
        await cluster.until(lambda: path.read_bytes() == content)


class HookedDisk(RealDisk):
    """Calls `before_sync` before the batches of a replacement are synced, once; `is_full` refuses writes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.before_sync: Callable[[], Awaitable[None]] | None = None
        self.is_full = False

    def open(self, path: str, *, create: bool = False) -> File:  # type: ignore[override]
        file = super().open(path, create=create)
        return HookedFile(file, self) if path.endswith(".log.cleaned") else file  # type: ignore[return-value]


class HookedFile:
    def __init__(self, file: File, disk: HookedDisk) -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        if self._disk.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.write(offset, buffers)

    async def sync(self) -> None:
        hook, self._disk.before_sync = self._disk.before_sync, None
        if hook is not None:
            await hook()
        await self._file.sync()


async def test_repair_waits_for_space_while_the_replica_goes_on(tmp_path: Path) -> None:
    disk = HookedDisk()
    async with running_cluster(tmp_path, disks={3: disk}) as cluster:
        await create_replicated(cluster, configs=SMALL_SEGMENTS)
        values = await fill(cluster)
        await until_replicated(cluster, tmp_path, [1, 2, 3])
        disk.is_full = True
        flip(tmp_path, 3, 4, VALUE)
        partition = partition_of(cluster, 3)
        partition.tasks.check_log(partition, 4)
        await cluster.until(lambda: events(cluster, 3, "partition_repair_failed") != [])
        (failed,) = events(cluster, 3, "partition_repair_failed")
        assert "No space left on device" in str(failed["reason"])
        assert events(cluster, 3, "storage_log_dir_offline") == []
        assert list((tmp_path / "node-3" / "topic-0").glob("*.cleaned")) == []
        disk.is_full = False
        await until_repaired(cluster, tmp_path, 3)
        assert await read_all(cluster) == values


async def test_topic_that_is_created_again_during_a_repair_leaves_the_log_directory_online(tmp_path: Path) -> None:
    """The files of the replacement are not found then, because the directory of the former log was renamed."""
    disk = HookedDisk()
    async with running_cluster(tmp_path, disks={3: disk}) as cluster:
        await create_replicated(cluster, configs=SMALL_SEGMENTS)
        await fill(cluster)
        await until_replicated(cluster, tmp_path, [1, 2, 3])
        directory = tmp_path / "node-3" / "topic-0"
        is_created_again = trio.Event()

        async def create_topic_again() -> None:
            async with Admin(",".join(bootstrap_servers(cluster))) as admin:
                (await admin.delete_topics(["topic"])).raise_first()
                await cluster.until(lambda: not directory.exists())
                (await admin.create_topics([NewTopic("topic", assignments={0: [1, 2, 3]})])).raise_first()
                await cluster.until(directory.exists)
            is_created_again.set()

        disk.before_sync = create_topic_again
        flip(tmp_path, 3, 4, VALUE)
        partition = partition_of(cluster, 3)
        partition.tasks.check_log(partition, 4)
        await is_created_again.wait()
        assert cluster.nodes[3].node is not None
        assert cluster.nodes[3].node.broker is not None
        damaged = cluster.nodes[3].node.broker.partitions.damaged
        await cluster.until(lambda: not damaged.replicas)
        assert events(cluster, 3, "storage_log_dir_offline") == []
        assert await send(cluster, 1, b"value") == 0
        await until_replicated(cluster, tmp_path, [1, 2, 3])
