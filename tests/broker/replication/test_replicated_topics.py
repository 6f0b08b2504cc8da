"""Topics with several replicas, over sockets: followers have the acknowledged records after restarts."""

from pathlib import Path
from typing import Any

from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.errors import ErrorCode
from broker.wire.records import patch
from kraft.env import File, RealDisk
from tests.support.replicated_topics import (
    content,
    create_replicated,
    described,
    read,
    send,
    stored,
    until_described,
    until_led_by_another,
    until_replicated,
)
from tests.support.requests import batch, fetch, read_values
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.wire_client import connected, only


def truncations(cluster: RunningCluster, node_id: int) -> list[str]:
    events = cluster.nodes[node_id].traced.events
    return [kind for kind, _ in events if kind in ("partition_truncated", "committed_truncated")]


async def test_followers_have_the_same_bytes_as_the_leader(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        for index, leader in enumerate((1, 2, 3)):
            for number in range(20):
                assert await send(cluster, leader, b"%d" % number, b"x" * number, index=index) == 0
            held = [content(tmp_path, node_id, index) for node_id in (1, 2, 3)]
            assert held[0] == held[1] == held[2] != b""
            assert len(await read(cluster, leader, index)) == 40


async def test_restarted_follower_catches_up(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, configs={"min.insync.replicas": "2"})
        assert await send(cluster, 1, b"before") == 0
        await cluster.nodes[3].crash()
        await until_described(cluster, 1, isr=[1, 2])
        for number in range(20):
            assert await send(cluster, 1, b"%d" % number) == 0
        await cluster.start()
        await until_described(cluster, 1, isr=[1, 2, 3])
        assert content(tmp_path, 3) == content(tmp_path, 1)
        assert truncations(cluster, 3) == []


async def test_new_leader_has_all_acknowledged_records_after_a_crash(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster)
        acknowledged: list[bytes | None] = []
        leader = 1
        for life in range(3):
            for number in range(10):
                value = b"%d-%d" % (life, number)
                assert await send(cluster, leader, value) == 0
                acknowledged.append(value)
            await cluster.nodes[leader].crash()
            former, leader = leader, (await until_led_by_another(cluster, leader % 3 + 1, leader)).leader_id
            assert await send(cluster, leader, b"after-%d" % life) == 0
            acknowledged.append(b"after-%d" % life)
            assert await read(cluster, leader) == acknowledged
            await cluster.start(former)
            await until_described(cluster, leader, isr=[1, 2, 3])
        await until_replicated(cluster, tmp_path, [1, 2, 3])
        assert not [
            kind for node_id in (1, 2, 3) for kind in truncations(cluster, node_id) if kind != "partition_truncated"
        ]


async def test_records_that_only_a_former_leader_has_are_truncated(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster)
        assert await send(cluster, 1, b"kept") == 0
        epoch = (await described(cluster, 1)).leader_epoch
        await cluster.nodes[1].crash()
        # As if the leader had appended this and died before a follower fetched it.
        lost = bytearray(batch(*[b"lost"] * 5))
        patch(lost, 0, 1, epoch)
        with (tmp_path / "node-1/topic-0/00000000000000000000.log").open("ab") as segment:
            segment.write(lost)
        leader = (await until_led_by_another(cluster, 2, 1)).leader_id
        assert await send(cluster, leader, b"instead") == 0

        await cluster.start(1)
        await until_described(cluster, leader, isr=[1, 2, 3])
        assert truncations(cluster, 1) == ["partition_truncated"]
        for node_id in (1, 2, 3):
            assert stored(tmp_path, node_id) == [b"kept", b"instead"]


async def test_controlled_shutdown_loses_nothing_and_keeps_the_high_watermark(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster)
        for number in range(5):
            assert await send(cluster, 1, b"%d" % number) == 0
        await cluster.nodes[1].stop()
        await cluster.until_images_match()
        partition = await described(cluster, 2)
        assert partition.leader_id in (2, 3)
        assert (tmp_path / "node-1" / "replication-offset-checkpoint").read_text().splitlines()[2:] == ["topic 0 5"]
        assert await send(cluster, partition.leader_id, b"5") == 0
        await cluster.start(1)
        await until_described(cluster, partition.leader_id, isr=[1, 2, 3])
        await until_replicated(cluster, tmp_path, [1, 2, 3])
        assert truncations(cluster, 1) == []


async def test_acks_all_is_refused_below_min_isr(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, configs={"min.insync.replicas": "3"})
        assert await send(cluster, 1, b"x") == 0
        await cluster.nodes[2].crash()
        await until_described(cluster, 1, isr=[1, 3])
        assert await send(cluster, 1, b"y") == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_follower_below_the_leaders_log_start_restarts_there(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1, 3]])
        assert await send(cluster, 1, b"before") == 0
        await cluster.nodes[3].crash()
        await until_described(cluster, 1, isr=[1])
        assert await send(cluster, 1, *[b"while it was away"] * 5) == 0
        async with connected(cluster.port(1)) as client:
            deletion = DeleteRecordsTopic(
                name="topic", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)]
            )
            response = await client.call(DeleteRecordsRequest(topics=[deletion], timeout_ms=1_000), 2)
            assert only(only(response.topics).partitions).low_watermark == 4
        await cluster.start(3)
        await until_described(cluster, 1, isr=[1, 3])
        assert await send(cluster, 1, b"after") == 0
        # The log now begins within this batch, which is kept whole.
        assert content(tmp_path, 1).endswith(content(tmp_path, 3))
        assert stored(tmp_path, 3) == [*[b"while it was away"] * 5, b"after"]
        await cluster.nodes[1].crash()
        await until_described(cluster, 3, leader=3)
        async with connected(cluster.port(3)) as client:
            assert await read_values(client, 4) == [*[b"while it was away"] * 2, b"after"]
            assert (await fetch(client, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_follower_flushes_before_it_acknowledges_if_flush_messages_is_set(tmp_path: Path) -> None:
    disks = {node_id: SyncNotingDisk() for node_id in (1, 2, 3)}
    async with running_cluster(tmp_path, disks=disks) as cluster:
        await create_replicated(cluster, configs={"flush.messages": "1"})
        for number in range(3):
            before = {node_id: disk.synced for node_id, disk in disks.items()}
            assert await send(cluster, 1, b"%d" % number) == 0
            assert all(disk.synced > before[node_id] for node_id, disk in disks.items())


class SyncNotingDisk(RealDisk):
    """Counts the syncs of the topic's segment."""

    def __init__(self) -> None:
        self.synced = 0

    def open(self, path: str, *, create: bool = False) -> Any:
        file = super().open(path, create=create)
        return SyncNotingFile(self, file) if "topic-0" in path and path.endswith(".log") else file


class SyncNotingFile:
    def __init__(self, disk: SyncNotingDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    async def sync(self) -> None:
        await self._file.sync()
        self._disk.synced += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
