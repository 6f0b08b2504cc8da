"""Retention: the segments that a log deletes, by time, by size and below its start."""

import os
from pathlib import Path

import attrs
import pytest
import trio

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.retention import delete_old_segments
from broker.wire.errors import ErrorCode, KafkaError
from tests.support.linux import reads_proc
from tests.support.logs import DAY_MS, NOW_MS, append, batch, close_log, listing, open_log, segment_bases, values

BATCH = len(batch(b"x"))
MAGIC = 16  # the byte of a batch that has its version


@pytest.fixture
def six(tmp_path: Path) -> Log:
    """Six segments of one batch each; the timestamps are an hour apart, the last one an hour ago."""
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=BATCH))
    for number in range(6):
        append(log, b"%d" % number, timestamp=NOW_MS - (6 - number) * 3_600_000)
    return log


def evolve(log: Log, **changes: object) -> None:
    log.configure(attrs.evolve(log.config, **changes))


def test_retention_ms_deletes_segments_with_only_older_records(six: Log, tmp_path: Path) -> None:
    evolve(six, retention_ms=4 * 3_600_000)
    removed = delete_old_segments(six, NOW_MS, 6)
    assert (six.log_start_offset, segment_bases(six)) == (2, [2, 3, 4, 5])
    assert sorted(path.rpartition("/")[2] for path in removed) == listing(tmp_path / "t-0", ".deleted")
    assert delete_old_segments(six, NOW_MS, 6) == []
    assert values(six) == [b"2", b"3", b"4", b"5"]


def test_retention_bytes_keeps_at_least_that_much(six: Log) -> None:
    evolve(six, retention_bytes=2 * BATCH + 1)
    delete_old_segments(six, NOW_MS, 6)
    assert segment_bases(six) == [3, 4, 5]


@pytest.mark.parametrize("high_watermark", range(7))
def test_retention_keeps_segments_at_or_above_the_high_watermark(six: Log, high_watermark: int) -> None:
    evolve(six, retention_ms=0)
    delete_old_segments(six, NOW_MS, high_watermark)
    assert six.log_start_offset == high_watermark


def test_expired_active_segment_is_replaced_by_an_empty_one(six: Log) -> None:
    evolve(six, retention_ms=0)
    delete_old_segments(six, NOW_MS, 6)
    assert (segment_bases(six), six.log_start_offset, six.log_end_offset) == ([6], 6, 6)
    assert delete_old_segments(six, NOW_MS, 6) == []
    assert append(six, b"x") == 6


def test_compacted_topics_keep_old_segments(six: Log) -> None:
    evolve(six, retention_ms=0, retention_bytes=0, cleanup_policy=("compact",))
    assert delete_old_segments(six, NOW_MS, 6) == []
    six.advance_log_start_offset(2)
    delete_old_segments(six, NOW_MS, 6)
    assert segment_bases(six) == [2, 3, 4, 5]


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
    assert segment_bases(log) == [2, 4]
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
    assert segment_bases(log) == [0, 4]
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
    assert segment_bases(log) == [2, 3, 4, 5]


@reads_proc
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


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_removed", [True, False])
async def test_restart_keeps_the_producers_of_a_log_whose_records_are_all_deleted(
    tmp_path: Path, is_removed: bool, is_clean: bool
) -> None:
    """Kafka forgets them, and stores a retry again. With `is_removed`, the segment of the records is gone."""
    log = open_log(tmp_path / "t-0")
    numbered = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 5}
    append(log, b"one", b"two", **numbered)
    assert log.advance_log_start_offset(2)
    if is_removed:
        evolve(log, retention_ms=0)
        delete_old_segments(log, NOW_MS + 1, 2)
    assert segment_bases(log) == ([2] if is_removed else [0])
    if is_clean:
        await close_log(log)

    reopened = open_log(tmp_path / "t-0", clean=is_clean, recovery_point=2, log_start_offset=2)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (2, 2)
    retry = reopened.append(batch(b"one", b"two", **numbered), leader_epoch=0, now_ms=NOW_MS)
    assert (retry.first_offset, retry.duplicate) == (0, True)


async def test_damage_to_deleted_records_does_not_keep_a_log_from_producer_snapshots(tmp_path: Path) -> None:
    """Damage to records that exist does, until they are repaired."""
    config = LogConfig(index_interval_bytes=1)
    log = open_log(tmp_path / "t-0", config)
    for number in range(4):
        append(log, b"%d" % number, producer_id=number, producer_epoch=0, base_sequence=0)
    await close_log(log)
    (tmp_path / "t-0" / "00000000000000000004.snapshot").unlink()
    with (tmp_path / "t-0" / "00000000000000000000.log").open("r+b") as segment:
        segment.seek(BATCH + MAGIC)
        segment.write(b"\x07")

    reopened = open_log(tmp_path / "t-0", config, recovery_point=4, clean=True, log_start_offset=2)
    assert [state.producer_id for state in reopened.producers.active()] == [0, 2, 3]
    await close_log(reopened)
    assert listing(tmp_path / "t-0", ".snapshot") == ["00000000000000000004.snapshot"]
