"""Truncation of a log, and its restart at another offset."""

from pathlib import Path

import pytest
import trio

from broker.storage.log_config import LogConfig
from broker.storage.retention import delete_old_segments
from broker.storage.timestamp_search import find_max_timestamp
from tests.support.logs import NOW_MS, append, batch, close_log, open_log, segment_bases, values

BATCH = len(batch(b"x"))


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
    assert (log.log_start_offset, log.log_end_offset, segment_bases(log)) == (100, 100, [100])
    assert log.epochs.entries == []
    trio.run(log.durability.settle)
    assert append(log, b"y") == 100
    assert values(open_log(tmp_path / "t-0")) == [b"y"]


def test_truncation_below_the_first_segment_restarts_the_log_there(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=BATCH))
    for _ in range(6):
        append(log, b"x")
    log.advance_log_start_offset(2)
    delete_old_segments(log, NOW_MS, 6)
    assert segment_bases(log) == [2, 3, 4, 5]
    assert log.truncate_to(1)
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)


def test_truncation_moves_the_recovery_point_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for _ in range(4):
        append(log, b"x")
    trio.run(log.flush)
    log.truncate_to(2)
    assert log.durability.recovery_point == 2


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_damaged_index_does_not_stop_the_truncation_of_a_whole_segment(tmp_path: Path, suffix: str) -> None:
    config = LogConfig(segment_bytes=3 * BATCH, index_interval_bytes=1)
    log = open_log(tmp_path / "t-0", config)
    for number in range(9):
        append(log, b"%d" % number, timestamp=NOW_MS + number)
    trio.run(close_log, log)
    reopened = open_log(tmp_path / "t-0", config, clean=True)
    (tmp_path / f"t-0/{3:020d}.{suffix}").write_bytes(b"damage")
    assert reopened.truncate_to(3)
    trio.run(reopened.durability.settle)
    assert append(reopened, b"again", timestamp=NOW_MS + 10) == 3
    assert values(reopened) == [b"0", b"1", b"2", b"again"]
    last = find_max_timestamp(reopened)
    assert last is not None
    assert last.offset == 3
