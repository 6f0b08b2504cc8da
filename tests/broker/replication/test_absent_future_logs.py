"""Future logs whose log directory was absent while their replicas were compacted (KIP-113)."""

import errno
import time
from pathlib import Path

import pytest
import trio

from broker.storage.copy_marker import mark_copied
from broker.storage.log import Log
from broker.wire.errors import ErrorCode
from kraft.env import File, RealDisk
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_dir_moves import move, two_directories, until
from tests.support.requests import batch, create_topic, fetch, produce, records_of
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected

NOW_MS = int(time.time() * 1000)
THREE = ("zero", "one", "two")
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "1",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}
CLEANER = {"log_cleaner_backoff_ms": 10}


def log_of(node: RunningNode) -> Log:
    assert node.node.broker is not None
    log = node.node.broker.partitions.get("topic", 0).log
    assert log is not None
    return log


async def copied_but_held(node: RunningNode, client: WireClient, path: Path) -> None:
    """Create a topic with a record of key `gone`, and copy it; the copy is not put in place."""
    await create_topic(client, configs=COMPACTED)
    await produce(client, batch(b"old", key=b"gone", timestamp=NOW_MS))
    log_of(node).segments.is_being_cleaned = True
    await move(client, path / "two", 0)
    assert node.node.broker is not None
    futures = node.node.broker._log_manager.directories[str(path / "two")].futures
    await until(lambda: futures["topic", 0].log.log_end_offset == 1)


async def keys(client: WireClient) -> list[bytes | None]:
    """The keys of all records; a fetch returns those of one segment."""
    found = list[bytes | None]()
    offset, end_offset = 0, 1
    while offset < end_offset:
        answer = await fetch(client, offset)
        records = [record for record in records_of(answer) if record.offset >= offset]
        found += [record.key for record in records]
        offset, end_offset = records[-1].offset + 1, answer.high_watermark
    return found


async def delete_and_compact(client: WireClient) -> None:
    """Write a tombstone for the key `gone`, and other records until it was removed by compaction."""
    await produce(client, batch(None, key=b"gone", timestamp=NOW_MS + 10))
    at_ms = NOW_MS + 20
    with trio.fail_after(20):
        while b"gone" in await keys(client):
            await produce(client, batch(b"value", key=b"kept", timestamp=at_ms))
            at_ms += 10
            await trio.sleep(0.02)


async def test_copy_begins_again_if_its_replica_was_compacted_while_its_directory_was_absent(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path), **CLEANER) as node, connected(node.port) as client:
        await copied_but_held(node, client, tmp_path)
        node.crash()
    alone = {"log_dirs": str(tmp_path / "one")}
    async with running_node(tmp_path, **alone, **CLEANER) as node, connected(node.port) as client:
        await delete_and_compact(client)

    async with running_node(tmp_path, **two_directories(tmp_path), **CLEANER) as node, connected(node.port) as client:
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert len(node.traced.of("replica_move_restarted")) == 1
        assert set(await keys(client)) == {b"kept"}
        assert not list((tmp_path / "two").glob("*-future"))


@pytest.mark.parametrize("is_clean", [False, True])
async def test_copy_goes_on_after_a_start_if_its_replica_was_not_compacted(tmp_path: Path, is_clean: bool) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path), **CLEANER) as node, connected(node.port) as client:
        await copied_but_held(node, client, tmp_path)
        if not is_clean:
            node.crash()
    alone = {"log_dirs": str(tmp_path / "one"), "log_cleaner_enable": False}
    async with running_node(tmp_path, **alone) as node, connected(node.port) as client:
        await produce(client, batch(None, key=b"gone", timestamp=NOW_MS + 10))

    overrides = two_directories(tmp_path) | {"log_cleaner_enable": False}
    async with running_node(tmp_path, **overrides) as node, connected(node.port) as client:
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert not node.traced.of("replica_move_restarted")
        assert await keys(client) == [b"gone", b"gone"]


async def test_copy_begins_again_if_the_log_of_its_replica_is_another_one(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await copied_but_held(node, client, tmp_path)
        node.crash()
    mark_copied(RealDisk(), str(tmp_path / "one" / "topic-0"), f"topic-0.{'0' * 32}-future")

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert len(node.traced.of("replica_move_restarted")) == 1
        assert await keys(client) == [b"gone"]


async def test_directory_of_a_replica_that_fails_as_its_move_begins_goes_offline(tmp_path: Path) -> None:
    """The marker of the copy is in the directory of the current log. The directory of the copy stays online."""
    disk = FaultyDisk()
    log_dirs = ",".join(str(tmp_path / name) for name in THREE)
    async with running_node(tmp_path, disk=disk, log_dirs=log_dirs) as node, connected(node.port) as client:
        await create_topic(client, "other")
        await create_topic(client)
        disk.failing = (str(tmp_path / "one"),)
        assert await move(client, tmp_path / "two", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert [each["path"] for each in node.traced.of("storage_log_dir_offline")] == [str(tmp_path / "one")]
        assert not list((tmp_path / "two").glob("*-future"))


class DiskWithUnreadableMarkers(RealDisk):
    def open(self, path: str, *, create: bool = False) -> File:
        if path.endswith(".copied-to") and not create:
            raise OSError(errno.EIO, "the file cannot be read", path)
        return super().open(path, create=create)


async def test_copy_stays_if_the_directory_of_its_replica_fails_as_the_node_starts(tmp_path: Path) -> None:
    log_dirs = ",".join(str(tmp_path / name) for name in THREE)
    async with running_node(tmp_path, log_dirs=log_dirs) as node, connected(node.port) as client:
        await create_topic(client, "other")
        await copied_but_held(node, client, tmp_path)
        node.crash()

    async with running_node(tmp_path, disk=DiskWithUnreadableMarkers(), log_dirs=log_dirs) as node:
        await until(lambda: bool(node.traced.of("storage_log_dir_offline")))
        assert [each["path"] for each in node.traced.of("storage_log_dir_offline")] == [str(tmp_path / "one")]

    async with running_node(tmp_path, log_dirs=log_dirs) as node, connected(node.port) as client:
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert not node.traced.of("replica_move_restarted")
        assert await keys(client) == [b"gone"]
