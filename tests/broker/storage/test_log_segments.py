"""Segments of a log: rolling, retention, truncation, flushing, closing."""

import os
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.retention import delete_old_segments
from broker.storage.timestamp_search import find_max_timestamp
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import RealDisk, RealFile, sync_one_by_one
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import DAY_MS, NOW_MS, append, batch, close_log, listing, open_log, read_records, values

BATCH = len(batch(b"x"))


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segment_rolls_before_it_exceeds_segment_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=3 * BATCH))
    for _ in range(7):
        append(log, b"x")
    assert bases(log) == [0, 3, 6]
    assert [segment.size_bytes for segment in log.segments] == [3 * BATCH, 3 * BATCH, BATCH]
    assert log.size_bytes == 7 * BATCH


def test_roll_commits_batches_staged_for_the_old_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=3 * BATCH))
    for number in range(7):
        log.append(batch(b"%d" % number), leader_epoch=0, now_ms=NOW_MS)
    assert log.readable_end_offset == 6
    log.commit()
    assert values(log) == [b"%d" % number for number in range(7)]


def test_segment_rolls_segment_ms_after_its_first_timestamp(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000))
    for timestamp in (NOW_MS, NOW_MS - 5000, NOW_MS + 1000, NOW_MS + 1001):
        append(log, b"x", timestamp=timestamp)
    assert bases(log) == [0, 3]


def test_segment_without_timestamps_rolls_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000))
    for now_ms in (NOW_MS + 5000, NOW_MS + 1000, NOW_MS + 1001):
        append(log, b"x", timestamp=-1, now_ms=now_ms)
    assert bases(log) == [0, 2]


def test_segment_jitter_is_bounded_and_random(tmp_path: Path) -> None:
    rolled_at = set()
    for partition in range(10):
        log = open_log(tmp_path / f"t-{partition}", LogConfig(segment_ms=1000, segment_jitter_ms=400))
        append(log, b"x")
        for late in range(590, 1020, 10):
            append(log, b"x", timestamp=NOW_MS + late)
            if len(bases(log)) > 1:
                rolled_at.add(late)
                break
    assert len(rolled_at) > 3
    assert all(600 < late <= 1010 for late in rolled_at)


def test_segment_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_index_bytes=12 * 8, index_interval_bytes=0))
    for _ in range(30):
        append(log, b"x", timestamp=NOW_MS)
    assert bases(log) == [0, 13, 26]
    log = open_log(tmp_path / "t-1", LogConfig(segment_index_bytes=4 * 12, index_interval_bytes=0))
    for number in range(12):
        append(log, b"x", timestamp=NOW_MS + number)
    assert bases(log) == [0, 4, 8]
    log.segments.active.seal()
    assert [(tmp_path / "t-1" / name).stat().st_size for name in listing(tmp_path / "t-1", ".timeindex")] == [36] * 3


def test_full_segment_stays_full_after_a_restart(tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=12 * 8, index_interval_bytes=0)
    log = open_log(tmp_path / "t-0", config)
    for _ in range(13):
        append(log, b"x")
    trio.run(close_log, log)
    log = open_log(tmp_path / "t-0", config, clean=True)
    append(log, b"x")
    assert bases(log) == [0, 13]


def test_segment_rolls_by_age_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x")
    trio.run(close_log, log)
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000), clean=True)
    append(log, b"x", timestamp=NOW_MS + 1001)
    assert bases(log) == [0, 1]


def test_changed_config_takes_effect_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x")
    log.config = LogConfig(segment_bytes=BATCH)
    append(log, b"x")
    assert bases(log) == [0, 1]
    log.config = LogConfig()
    append(log, b"x")
    assert bases(log) == [0, 1]


def test_segment_of_a_compacted_log_rolls_before_a_relative_offset_exceeds_31_bits(tmp_path: Path) -> None:
    """Entries of the offset index are relative to the segment's base, in four bytes. Gaps may be of any size."""
    log = open_log(tmp_path / "t-0", LogConfig(cleanup_policy=("compact",)))
    for offset in (0, 2**31 - 1, 2**31, 2**31 + 5):
        log.append_as_follower(batch(b"x", key=b"k", base_offset=offset, leader_epoch=0), 0, NOW_MS)
    assert bases(log) == [0, 2**31]


def test_rolling_an_empty_segment_does_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.roll()
    append(log, b"x")
    log.roll()
    log.roll()
    assert bases(log) == [0, 1]


def test_index_entries_have_kafkas_format(tmp_path: Path) -> None:
    """The last offset of a batch with its position, and the largest timestamp with its batch's last offset."""
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=2 * BATCH - 1))
    for number in range(5):
        append(log, b"x", timestamp=NOW_MS + (90 if number == 1 else number))
    log.roll()
    index = (tmp_path / "t-0/00000000000000000000.index").read_bytes()
    times = (tmp_path / "t-0/00000000000000000000.timeindex").read_bytes()
    ints = [int.from_bytes(index[at : at + 4], "big") for at in range(0, len(index), 4)]
    assert ints == [2, 2 * BATCH, 4, 4 * BATCH]
    assert times == (NOW_MS + 90).to_bytes(8, "big") + (1).to_bytes(4, "big")


def test_producer_snapshot_is_written_at_the_roll(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    log.roll()
    assert listing(tmp_path / "t-0", ".snapshot") == ["00000000000000000001.snapshot"]


# Retention


@pytest.fixture
def six(tmp_path: Path) -> Log:
    """Six segments of one batch each; the timestamps are an hour apart, the last one an hour ago."""
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=BATCH))
    for number in range(6):
        append(log, b"%d" % number, timestamp=NOW_MS - (6 - number) * 3_600_000)
    return log


def evolve(log: Log, **changes: object) -> None:
    log.config = attrs.evolve(log.config, **changes)


def test_retention_ms_deletes_segments_with_only_older_records(six: Log, tmp_path: Path) -> None:
    evolve(six, retention_ms=4 * 3_600_000)
    removed = delete_old_segments(six, NOW_MS, 6)
    assert (six.log_start_offset, bases(six)) == (2, [2, 3, 4, 5])
    assert sorted(path.rpartition("/")[2] for path in removed) == listing(tmp_path / "t-0", ".deleted")
    assert delete_old_segments(six, NOW_MS, 6) == []
    assert values(six) == [b"2", b"3", b"4", b"5"]


def test_retention_bytes_keeps_at_least_that_much(six: Log) -> None:
    evolve(six, retention_bytes=2 * BATCH + 1)
    delete_old_segments(six, NOW_MS, 6)
    assert bases(six) == [3, 4, 5]


@pytest.mark.parametrize("high_watermark", range(7))
def test_retention_keeps_segments_at_or_above_the_high_watermark(six: Log, high_watermark: int) -> None:
    evolve(six, retention_ms=0)
    delete_old_segments(six, NOW_MS, high_watermark)
    assert six.log_start_offset == high_watermark


def test_expired_active_segment_is_replaced_by_an_empty_one(six: Log) -> None:
    evolve(six, retention_ms=0)
    delete_old_segments(six, NOW_MS, 6)
    assert (bases(six), six.log_start_offset, six.log_end_offset) == ([6], 6, 6)
    assert delete_old_segments(six, NOW_MS, 6) == []
    assert append(six, b"x") == 6


def test_compacted_topics_keep_old_segments(six: Log) -> None:
    evolve(six, retention_ms=0, retention_bytes=0, cleanup_policy=("compact",))
    assert delete_old_segments(six, NOW_MS, 6) == []
    six.advance_log_start_offset(2)
    delete_old_segments(six, NOW_MS, 6)
    assert bases(six) == [2, 3, 4, 5]


def test_retention_without_limits_deletes_nothing(six: Log) -> None:
    evolve(six, retention_ms=-1, retention_bytes=-1)
    assert delete_old_segments(six, NOW_MS + 10**12, 6) == []


def test_log_start_offset_hides_records_and_deletes_whole_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=2 * BATCH))
    for number in range(6):
        append(log, b"%d" % number, leader_epoch=number // 2)
    assert log.advance_log_start_offset(3)
    assert not log.advance_log_start_offset(2)
    assert log.epochs.entries == [(1, 3), (2, 4)]
    with pytest.raises(KafkaError) as refused:
        log.read(2, 100, upper_bound=6, min_one_batch=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    delete_old_segments(log, NOW_MS, 6)
    assert bases(log) == [2, 4]
    with pytest.raises(KafkaError) as refused:
        log.advance_log_start_offset(7)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert open_log(tmp_path / "t-0", log_start_offset=3).log_start_offset == 3


def set_modified(log: Log, ms: int) -> None:
    """Have the segments' files look as if they had been written at this time."""
    for segment in log.segments:
        os.utime(segment.path, ns=(0, ms * 1_000_000))


def test_segments_without_timestamps_expire_after_their_file_was_changed(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=BATCH, retention_ms=1000)
    log = open_log(tmp_path / "t-0", config)
    for _ in range(2):
        append(log, b"x", timestamp=-1)
    set_modified(log, NOW_MS + 5)
    assert delete_old_segments(log, NOW_MS + 1005, 2) == []
    delete_old_segments(log, NOW_MS + 1006, 2)
    assert log.log_start_offset == 2


@pytest.mark.parametrize("is_closed", [True, False])
def test_retention_of_records_without_timestamps_goes_on_after_a_restart(tmp_path: Path, is_closed: bool) -> None:
    """Neither a clean shutdown, which frees reserved space, nor a recovery, which writes again, counts as a change."""
    config = LogConfig(segment_bytes=4 << 20, retention_ms=DAY_MS)
    log = open_log(tmp_path / "t-0", config)
    for _ in range(5):
        append(log, bytes(900_000), timestamp=-1)
    assert bases(log) == [0, 4]
    append(log, bytes(900_000), timestamp=-1)
    set_modified(log, NOW_MS)
    if is_closed:
        trio.run(close_log, log)
    again = open_log(tmp_path / "t-0", config, clean=is_closed, now_ms=NOW_MS + 2 * DAY_MS)
    assert [segment.retention_timestamp for segment in again.segments] == [NOW_MS, NOW_MS]
    delete_old_segments(again, NOW_MS + DAY_MS + 1, 6)
    assert again.log_start_offset == 6


def test_rolling_does_not_renew_records_without_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, bytes(1_000_000), timestamp=-1)
    append(log, bytes(1_000_000), timestamp=-1)
    set_modified(log, NOW_MS)
    log.roll()
    assert log.segments[0].retention_timestamp == NOW_MS


def test_retention_knows_the_timestamps_after_a_restart(six: Log, tmp_path: Path) -> None:
    trio.run(close_log, six)
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=BATCH, retention_ms=4 * 3_600_000), clean=True)
    delete_old_segments(log, NOW_MS, 6)
    assert bases(log) == [2, 3, 4, 5]


def test_retention_check_closes_idle_files_and_the_log_continues(six: Log, tmp_path: Path) -> None:
    def open_files() -> int:
        links = Path("/proc/self/fd").iterdir()
        return sum(1 for link in links if link.exists() and link.resolve().is_relative_to(tmp_path))

    trio.run(six.flush)
    assert len(values(six)) == 6
    assert open_files() == 6
    staged = batch(b"6", timestamp=NOW_MS)
    six.append(staged, leader_epoch=0, now_ms=NOW_MS)
    delete_old_segments(six, NOW_MS, 6)
    six.commit()
    delete_old_segments(six, NOW_MS, 7)
    assert open_files() == 0
    append(six, b"7", timestamp=NOW_MS)
    assert values(six) == [b"%d" % number for number in range(8)]
    assert values(open_log(tmp_path / "t-0")) == [b"%d" % number for number in range(8)]


# Truncation


@pytest.mark.parametrize("offset", range(12))
def test_truncation_drops_the_offset_and_everything_after_it(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=3 * BATCH, index_interval_bytes=1))
    for number in range(10):
        append(log, b"%d" % number, leader_epoch=number // 4, timestamp=NOW_MS + number)
    assert log.truncate_to(offset) == (offset < 10)
    end = min(offset, 10)
    assert log.log_end_offset == end
    assert values(log) == [b"%d" % number for number in range(end)]
    assert log.epochs.latest_epoch == (end - 1) // 4
    last = find_max_timestamp(log)
    assert (last.offset if last else -1) == end - 1
    trio.run(log.durability.settle)
    assert append(log, b"again") == end
    reopened = open_log(tmp_path / "t-0", LogConfig(segment_bytes=3 * BATCH, index_interval_bytes=1))
    assert values(reopened) == [b"%d" % number for number in range(end)] + [b"again"]


def test_truncation_into_a_batch_drops_the_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    assert log.truncate_to(2)
    assert log.log_end_offset == 1


def test_truncation_reloads_producer_states(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(4):
        append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=sequence)
    log.truncate_to(2)
    trio.run(log.durability.settle)
    assert append(log, b"x", producer_id=1, producer_epoch=0, base_sequence=2) == 2


def test_log_can_be_restarted_at_another_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=BATCH))
    for _ in range(3):
        append(log, b"x")
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, bases(log)) == (100, 100, [100])
    assert log.epochs.entries == []
    trio.run(log.durability.settle)
    assert append(log, b"y") == 100
    assert values(open_log(tmp_path / "t-0")) == [b"y"]


def test_truncation_below_the_first_segment_restarts_the_log_there(six: Log) -> None:
    evolve(six, retention_ms=4 * 3_600_000)
    delete_old_segments(six, NOW_MS, 6)
    assert six.truncate_to(1)
    assert (six.log_start_offset, six.log_end_offset) == (1, 1)


def test_truncation_moves_the_recovery_point_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for _ in range(4):
        append(log, b"x")
    trio.run(log.flush)
    log.truncate_to(2)
    assert log.durability.recovery_point == 2


# Flushing and closing


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
