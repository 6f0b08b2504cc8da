"""Segments of a log: when they roll, and the files that a roll writes."""

from pathlib import Path

import trio

from broker.storage.log_config import LogConfig
from tests.support.logs import NOW_MS, append, batch, close_log, listing, open_log, segment_bases, values

BATCH = len(batch(b"x"))


def test_segment_rolls_before_it_exceeds_segment_bytes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=3 * BATCH))
    for _ in range(7):
        append(log, b"x")
    assert segment_bases(log) == [0, 3, 6]
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
    assert segment_bases(log) == [0, 3]


def test_segment_without_timestamps_rolls_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000))
    for now_ms in (NOW_MS + 5000, NOW_MS + 1000, NOW_MS + 1001):
        append(log, b"x", timestamp=-1, now_ms=now_ms)
    assert segment_bases(log) == [0, 2]


def test_segment_jitter_is_bounded_and_random(tmp_path: Path) -> None:
    rolled_at = set()
    for partition in range(10):
        log = open_log(tmp_path / f"t-{partition}", LogConfig(segment_ms=1000, segment_jitter_ms=400))
        append(log, b"x")
        for late in range(590, 1020, 10):
            append(log, b"x", timestamp=NOW_MS + late)
            if len(segment_bases(log)) > 1:
                rolled_at.add(late)
                break
    assert len(rolled_at) > 3
    assert all(600 < late <= 1010 for late in rolled_at)


def test_segment_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_index_bytes=12 * 8, index_interval_bytes=0))
    for _ in range(30):
        append(log, b"x", timestamp=NOW_MS)
    assert segment_bases(log) == [0, 13, 26]
    log = open_log(tmp_path / "t-1", LogConfig(segment_index_bytes=4 * 12, index_interval_bytes=0))
    for number in range(12):
        append(log, b"x", timestamp=NOW_MS + number)
    assert segment_bases(log) == [0, 4, 8]
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
    assert segment_bases(log) == [0, 13]


def test_segment_rolls_by_age_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x")
    trio.run(close_log, log)
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000), clean=True)
    append(log, b"x", timestamp=NOW_MS + 1001)
    assert segment_bases(log) == [0, 1]


def test_changed_config_takes_effect_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, b"x")
    log.configure(LogConfig(segment_bytes=BATCH))
    append(log, b"x")
    assert segment_bases(log) == [0, 1]
    log.configure(LogConfig())
    append(log, b"x")
    assert segment_bases(log) == [0, 1]


def test_segment_of_a_compacted_log_rolls_before_a_relative_offset_exceeds_31_bits(tmp_path: Path) -> None:
    """Entries of the offset index are relative to the segment's base, in four bytes. Gaps may be of any size."""
    log = open_log(tmp_path / "t-0", LogConfig(cleanup_policy=("compact",)))
    for offset in (0, 2**31 - 1, 2**31, 2**31 + 5):
        log.append_as_follower(batch(b"x", key=b"k", base_offset=offset, leader_epoch=0), 0, NOW_MS)
    assert segment_bases(log) == [0, 2**31]


def test_rolling_an_empty_segment_does_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.roll()
    append(log, b"x")
    log.roll()
    log.roll()
    assert segment_bases(log) == [0, 1]


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
