"""A flipped bit in the log of a replica of a running cluster, over sockets."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from broker.replication.partition import Partition
from broker.storage.damage import Damage
from broker.wire.errors import ErrorCode
from broker.wire.records import read_header
from kraft.env import Buffer, File, RealDisk
from tests.support.replicated_topics import (
    create_replicated,
    described,
    read,
    send,
    until_described,
    until_led_by_another,
    until_replicated,
)
from tests.support.requests import batch, fetch, produce, read_values
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.wire_client import connected

SMALL_SEGMENTS = {"internal.segment.bytes": "1000", "index.interval.bytes": "100", "min.insync.replicas": "2"}
# Bytes of a batch: of the records, of the checksum, and of the fields that the checksum does not cover.
VALUE, CRC, BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC = 70, 18, 5, 9, 13, 16
BATCHES = 40


def partition_of(cluster: RunningCluster, node_id: int) -> Partition:
    node = cluster.nodes[node_id].node
    assert node is not None
    assert node.broker is not None
    return node.broker.partitions.get("topic", 0)


async def fill(cluster: RunningCluster, key: bytes | None = None) -> list[bytes | None]:
    """Produce batches of one record each, several segments of them. Returns the values."""
    values = [b"value-%04d" % number for number in range(BATCHES)]
    async with connected(cluster.port(1)) as client:
        for value in values:
            assert (await produce(client, batch(value, key=key), timeout_ms=8_000)).error_code == 0
    return list(values)


def flip(directory: Path, node_id: int, offset: int, byte: int) -> None:
    """Flip a bit in the batch with this offset."""
    segments = sorted((directory / f"node-{node_id}" / "topic-0").glob("*.log"))
    path = max(each for each in segments if int(each.stem) <= offset)
    data, at = path.read_bytes(), 0
    while read_header(data, at).last_offset < offset:
        at += read_header(data, at).size
    with path.open("r+b") as file:
        file.seek(at + byte)
        file.write(bytes([data[at + byte] ^ 0x10]))


def events(cluster: RunningCluster, node_id: int, kind: str) -> list[dict[str, object]]:
    return cluster.nodes[node_id].traced.of(kind)


async def until_repaired(cluster: RunningCluster, directory: Path, node_id: int) -> None:
    await cluster.until(lambda: events(cluster, node_id, "partition_repaired") != [])
    leader = (await described(cluster, 1)).leader_id
    await until_described(cluster, leader, isr=[1, 2, 3])
    await until_replicated(cluster, directory, [1, 2, 3])
    assert partition_of(cluster, node_id).log is not None


async def read_all(cluster: RunningCluster, count: int = BATCHES) -> list[bytes | None]:
    """Read from the leader, one fetch after the other."""
    leader = (await described(cluster, 1)).leader_id
    values: list[bytes | None] = []
    async with connected(cluster.port(leader)) as client:
        while len(values) < count:
            found = await read_values(client, len(values))
            assert found, "the leader has no more records"
            values += found
    return values


@pytest.mark.parametrize("byte", [VALUE, CRC, BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC])
async def test_leader_with_a_damaged_old_segment_hands_over_and_repairs_itself(tmp_path: Path, byte: int) -> None:
    """A consumer's read of old records makes the leader check them."""
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, configs=SMALL_SEGMENTS)
        values = await fill(cluster)
        flip(tmp_path, 1, 5, byte)
        async with connected(cluster.port(1)) as client:
            await fetch(client, 4)
        await cluster.until(lambda: events(cluster, 1, "partition_damaged") != [])
        found = events(cluster, 1, "partition_damaged")[0]
        assert (found["topic"], found["partition"], found["first_offset"]) == ("topic", 0, 5)
        await until_led_by_another(cluster, 2, former=1)
        await until_repaired(cluster, tmp_path, 1)
        assert await read_all(cluster) == values
        assert partition_of(cluster, 1).log is not None
        for node_id in (1, 2, 3):
            assert events(cluster, node_id, "committed_truncated") == []


@pytest.mark.parametrize("byte", [VALUE, BASE_OFFSET, LENGTH])
async def test_damage_in_the_active_segment_is_repaired(tmp_path: Path, byte: int) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, configs={"index.interval.bytes": "100"})
        values = await fill(cluster)
        flip(tmp_path, 1, 20, byte)
        partition = partition_of(cluster, 1)
        partition.tasks.check_log(partition, 20)
        await until_led_by_another(cluster, 2, former=1)
        assert await send(cluster, (await described(cluster, 2)).leader_id, b"more") == 0
        await until_repaired(cluster, tmp_path, 1)
        assert await read_all(cluster, BATCHES + 1) == [*values, b"more"]


async def test_follower_in_sync_is_repaired_in_place(tmp_path: Path) -> None:
    """It stays in the ISR, as it has all acknowledged records but the damaged ones."""
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, configs=SMALL_SEGMENTS)
        values = await fill(cluster)
        flip(tmp_path, 3, 7, VALUE)
        path = str(tmp_path / "node-3" / "topic-0" / f"{0:020d}.log")
        node = cluster.nodes[3].node
        assert node is not None
        assert node.broker is not None
        for _ in range(2):
            node.broker.partitions.report_damage(("topic", 0), Damage(path, 7, 8, "the checksum is wrong"))
        await until_repaired(cluster, tmp_path, 3)
        assert len(events(cluster, 3, "partition_damaged")) == 1
        assert [event["isr"] for event in events(cluster, 1, "isr_proposed")] == []
        assert (await described(cluster, 1)).leader_id == 1
        assert await read_all(cluster) == values


async def test_compacted_log_is_repaired_from_its_start(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, configs={**SMALL_SEGMENTS, "cleanup.policy": "compact,delete"})
        values = await fill(cluster, key=b"key")
        flip(tmp_path, 1, 25, VALUE)
        partition = partition_of(cluster, 1)
        partition.tasks.check_log(partition, 25)
        await until_repaired(cluster, tmp_path, 1)
        assert await read_all(cluster) == values


class DamagingDisk(RealDisk):
    """A disk that flips a bit of what is written to a partition's log once it contains the word `damage`."""

    def open(self, path: str, *, create: bool = False) -> File:  # type: ignore[override]
        file = super().open(path, create=create)
        return DamagingFile(file) if path.endswith(".log") and "topic-0" in path else file  # type: ignore[return-value]


class DamagingFile:
    def __init__(self, file: File) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        self._file.write(offset, [data.replace(b"damage", b"demage")])


async def test_producer_goes_on_when_the_leader_stores_a_damaged_batch(tmp_path: Path) -> None:
    """The followers refuse it, say so once, and one of them leads before they are out of sync."""
    async with running_cluster(tmp_path, disks={1: DamagingDisk()}) as cluster:
        await create_replicated(cluster, configs={"min.insync.replicas": "2"})
        assert await send(cluster, 1, b"before") == 0
        assert await send(cluster, 1, b"damage") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = (await until_led_by_another(cluster, 2, former=1)).leader_id
        assert await send(cluster, leader, b"intact") == 0
        await until_repaired(cluster, tmp_path, 1)
        assert await read(cluster, leader) == [b"before", b"intact"]
        refusals = [event for node_id in (2, 3) for event in events(cluster, node_id, "replica_fetch_damaged")]
        assert {(event["source"], event["offset"]) for event in refusals} == {(1, 1)}
        assert len(refusals) <= 2 * 2  # the batch, and the leader's refusal to send it
        assert len(events(cluster, 1, "partition_damaged")) == 1


async def test_only_replica_leads_on_and_names_the_remedy(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1]], configs={**SMALL_SEGMENTS, "min.insync.replicas": "1"})
        values = await fill(cluster)
        flip(tmp_path, 1, 5, VALUE)
        async with connected(cluster.port(1)) as client:
            await fetch(client, 5)
            await cluster.until(lambda: events(cluster, 1, "partition_damage_stays") != [])
            (stays,) = events(cluster, 1, "partition_damage_stays")
            assert (
                "There is no other: `kraft topics trim topic:0 --before-offset 6` deletes the records up to there, the "
                "intact offsets before the damage too (5 of them); docs/damaged-files.md says how to lose the damaged "
                "segment alone"
            ) in str(stays["remedy"])
            assert await read_values(client, 0) == values[:5]
            assert (await fetch(client, 5)).error_code == ErrorCode.CORRUPT_MESSAGE
            assert (await read_values(client, 6))[0] == values[6]
        assert await send(cluster, 1, b"more") == 0
        await trio.sleep(1.5)  # longer than the pause between two attempts
        assert len(events(cluster, 1, "partition_damage_stays")) == 1
