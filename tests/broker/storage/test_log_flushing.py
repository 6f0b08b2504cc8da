"""Flushes of a log: when they are due, what they sync; and how a log is closed."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.storage.log_config import LogConfig
from broker.storage.retention import delete_old_segments
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import RealDisk, RealFile, sync_one_by_one
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import DAY_MS, NOW_MS, append, batch, close_log, open_log, read_records

BATCH = len(batch(b"x"))


async def test_flush_moves_the_recovery_point_to_the_committed_end(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x")
    log.append(batch(b"y"), leader_epoch=0, now_ms=NOW_MS)
    await log.flush()
    assert log.durability.recovery_point == 1
    log.commit()
    await log.flush()
    assert log.durability.recovery_point == 2


def test_flush_messages_and_flush_ms_require_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(flush_messages=3, flush_ms=100))
    assert not log.needs_flush(NOW_MS + 10_000)
    append(log, b"x")
    append(log, b"x", now_ms=NOW_MS + 50)
    assert not log.needs_flush(NOW_MS + 99)
    assert log.needs_flush(NOW_MS + 100)
    append(log, b"x", now_ms=NOW_MS + 50)
    assert log.needs_flush(NOW_MS + 50)
    trio.run(log.flush)
    assert not log.needs_flush(NOW_MS + 10_000)


def test_flush_messages_of_one_requires_a_flush_after_each_record(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(flush_messages=1))
    for _ in range(2):
        append(log, b"x")
        assert log.needs_flush(NOW_MS)
        trio.run(log.flush)
        assert not log.needs_flush(NOW_MS)


def test_rolled_segment_requires_a_flush(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x")
    assert not log.needs_flush(NOW_MS + DAY_MS)
    log.roll()
    assert log.needs_flush(NOW_MS)


class CountingDisk(RealDisk):
    """Records the names of synced files."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def open(self, path: str, *, create: bool = False) -> RealFile:
        synced = self.synced

        class CountingFile(RealFile):
            async def sync(self) -> None:
                synced.append(self.path.rpartition("/")[2])
                await super().sync()

        file = super().open(path, create=create)
        descriptor, file._descriptor = file._descriptor, -1
        return CountingFile(path, descriptor)

    async def sync_dir(self, path: str) -> None:
        self.synced.append("directory")
        await super().sync_dir(path)

    async def sync_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        await sync_one_by_one(self, files, directories)


async def test_flush_syncs_only_files_that_are_not_durable(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=10_000), disk=disk)
    append(log, b"x")
    log.roll()
    append(log, b"x")
    await log.flush()
    assert "00000000000000000000.log" in disk.synced
    assert "00000000000000000000.timeindex" in disk.synced
    assert "00000000000000000001.log" in disk.synced
    assert "00000000000000000001.snapshot" in disk.synced
    assert "leader-epoch-checkpoint.tmp" in disk.synced
    assert "directory" in disk.synced
    disk.synced.clear()
    append(log, b"x")
    await log.flush()
    assert disk.synced == ["00000000000000000001.log"]
    disk.synced.clear()
    await log.flush()
    assert disk.synced == []


async def test_segment_deleted_during_its_flush_is_no_error(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=BATCH, retention_ms=0), disk=disk)
    for _ in range(20):
        append(log, b"x")
    disk.held = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.flush)
        await trio.testing.wait_all_tasks_blocked()
        delete_old_segments(log, NOW_MS + 1, 20)
        disk.held.set()
    assert log.durability.recovery_point == 20


async def test_cleanly_closed_log_opens_without_reading_its_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=4 * BATCH, index_interval_bytes=BATCH))
    for number in range(10):
        append(log, b"x", producer_id=3, producer_epoch=0, base_sequence=number, leader_epoch=2)
    await close_log(log)
    with pytest.raises(KafkaError) as refused:
        append(log, b"x")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log = open_log(tmp_path / "t-0", clean=True)
    assert (log.log_end_offset, log.durability.recovery_point, log.epochs.entries) == (10, 10, [(2, 0)])
    assert append(log, b"x", producer_id=3, producer_epoch=0, base_sequence=10) == 10
    assert len(read_records(log, 8)) == 3


async def test_reserved_space_is_released(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=64 << 20, max_message_bytes=4 << 20))
    append(log, b"x" * 3_000_000)
    path = tmp_path / "t-0/00000000000000000000.log"
    size = log.size_bytes
    assert path.stat().st_size == size
    log.roll()
    assert path.stat().st_blocks * 512 <= size + 8192
    append(log, b"x" * 3_000_000)
    await close_log(log)
    path = tmp_path / "t-0/00000000000000000001.log"
    assert path.stat().st_blocks * 512 <= size + 8192


async def test_idle_partition_has_one_empty_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    assert delete_old_segments(log, NOW_MS, 0) == []
    await close_log(log)
    assert [path.name for path in (tmp_path / "t-0").iterdir()] == ["00000000000000000000.log"]
