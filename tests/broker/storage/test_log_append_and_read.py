"""Reads return the appended records in order, at the offsets that the appends returned."""

import errno
from pathlib import Path
from random import Random

import pytest
import trio

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.timestamp_search import TimestampAndOffset, find_max_timestamp, search_timestamp
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import Compression, Record, encode_batch, iter_headers, read_header
from tests.support.logs import (
    NOW_MS,
    FailingDisk,
    append,
    batch,
    find_timestamp,
    open_log,
    read_all,
    read_records,
    slice_bytes,
    values,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "t-0")


def test_offsets_count_up_across_batches(log: Log) -> None:
    assert append(log, b"a", b"b") == 0
    assert append(log, b"c") == 2
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert [(record.offset, record.value) for record in read_all(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_base_offset_and_leader_epoch_are_written_into_the_producers_buffer(log: Log) -> None:
    append(log, b"first")
    buffer = batch(b"second")
    before = bytes(buffer)
    log.append(buffer, leader_epoch=7, now_ms=NOW_MS)
    header = read_header(buffer)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 7)
    assert bytes(buffer)[17:] == before[17:]


def test_every_leader_epoch_is_remembered_with_its_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for epoch in (3, 3, 4, 9):
        append(log, b"x", leader_epoch=epoch)
    assert log.epochs.entries == [(3, 0), (4, 2), (9, 3)]
    trio.run(log.flush)
    assert (tmp_path / "t-0/leader-epoch-checkpoint").read_text() == "0\n3\n3 0\n4 2\n9 3\n"


def test_staged_batches_have_offsets_and_are_readable_after_commit(log: Log) -> None:
    log.append(batch(b"a"), leader_epoch=0, now_ms=NOW_MS)
    log.append(batch(b"b"), leader_epoch=0, now_ms=NOW_MS)
    assert (log.log_end_offset, log.readable_end_offset, log.staged) == (2, 0, True)
    assert log.read(0, 1000, upper_bound=2, min_one_batch=True).size == 0
    log.commit()
    assert (log.readable_end_offset, log.staged) == (2, False)
    assert values(log) == [b"a", b"b"]


def test_read_begins_with_the_batch_that_contains_the_offset(log: Log) -> None:
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    piece = log.read(1, 10_000, upper_bound=4, min_one_batch=True)
    assert [header.base_offset for _, header in iter_headers(slice_bytes(piece))] == [0, 3]


def test_read_ends_below_the_upper_bound(log: Log) -> None:
    for number in range(30):
        append(log, b"%d" % number)
    for bound in range(31):
        assert len(read_records(log, 0, upper_bound=bound)) == bound
    assert read_records(log, 12, upper_bound=12) == []


def test_read_is_limited_in_bytes_and_may_cut_off_the_last_batch(log: Log) -> None:
    size = len(batch(b"x" * 100))
    for _ in range(3):
        append(log, b"x" * 100)
    piece = log.read(0, size + 10, upper_bound=3, min_one_batch=True)
    assert (piece.position, piece.size) == (0, size + 10)
    piece = log.read(1, size * 5, upper_bound=3, min_one_batch=True)
    assert (piece.position, piece.size) == (size, size * 2)


@pytest.mark.seeds(3)
def test_large_read_leaves_out_the_batch_that_does_not_fit(log: Log, seed: int) -> None:
    random = Random(seed)
    ends = [0]
    for _ in range(60):
        data = batch(bytes(random.choice([100, 3_000, 20_000, 60_000])))
        log.append(data, leader_epoch=0, now_ms=NOW_MS)
        ends.append(ends[-1] + len(data))
    log.commit()
    for offset, start in enumerate(ends[:-1]):
        limit = min(random.randrange(65_536, 150_000), ends[-1] - start - 1)
        piece = log.read(offset, limit, upper_bound=60, min_one_batch=True)
        whole = max(start, *(end for end in ends if end <= start + limit)) - start
        if limit < 65_536:
            assert (piece.position, piece.available) == (start, piece.size)
        else:
            assert (piece.position, piece.available) == (start, limit)
            assert piece.size == (whole if limit - whole >= 8 * 1024 else limit)


def test_large_read_is_cut_at_its_limit_where_the_header_of_a_batch_is_damaged(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for _ in range(4):
        append(log, bytes(30_000))
    size = read_header(slice_bytes(log.read(0, 1, upper_bound=4, min_one_batch=True))).size
    assert log.read(0, 80_000, upper_bound=4, min_one_batch=True).size == 2 * size
    with (tmp_path / "t-0/00000000000000000000.log").open("r+b") as file:
        file.seek(2 * size + 16)
        file.write(b"\x09")  # the magic number
    assert log.read(0, 80_000, upper_bound=4, min_one_batch=True).size == 80_000


@pytest.mark.parametrize("offset", [0, 1])
def test_oversized_first_batch_is_returned_whole_or_not_at_all(log: Log, offset: int) -> None:
    append(log, b"small")
    append(log, b"x" * 5000)
    append(log, b"x" * 5000)
    size = read_header(slice_bytes(log.read(offset, 10_000, upper_bound=3, min_one_batch=True))).size
    assert log.read(offset, 10, upper_bound=3, min_one_batch=True).size == size
    assert log.read(offset, 10, upper_bound=3, min_one_batch=False).size == 0


def test_every_offset_is_found_across_segments_and_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=2000, index_interval_bytes=200))
    for number in range(200):
        append(log, *[b"%d" % number] * (number % 4 + 1))
    assert len(log.segments) > 5
    for offset in range(log.log_end_offset):
        assert read_records(log, offset)[0].offset == offset
        bounded = read_records(log, offset, upper_bound=offset + 3)
        assert all(record.offset < offset + 3 + 3 for record in bounded)


@pytest.mark.parametrize("offset", [-1, 3, 1 << 40])
def test_offsets_outside_of_the_log_are_out_of_range(log: Log, offset: int) -> None:
    append(log, b"a", b"b")
    with pytest.raises(KafkaError) as refused:
        log.read(offset, 100, upper_bound=2, min_one_batch=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_read_at_the_log_end_is_empty(log: Log) -> None:
    assert log.read(0, 100, upper_bound=0, min_one_batch=True).size == 0
    append(log, b"a")
    assert log.read(1, 100, upper_bound=1, min_one_batch=True).size == 0


def test_retried_batch_returns_its_first_offsets_and_is_not_stored_again(log: Log) -> None:
    for sequence in range(3):
        append(log, b"x", producer_id=4, producer_epoch=0, base_sequence=sequence)
    retry = batch(b"x", producer_id=4, producer_epoch=0, base_sequence=1)
    info = log.append(retry, leader_epoch=0, now_ms=NOW_MS)
    assert (info.duplicate, info.first_offset, info.last_offset) == (True, 1, 1)
    assert (log.log_end_offset, log.staged) == (3, False)


def test_batch_with_a_sequence_gap_changes_nothing(log: Log) -> None:
    append(log, b"x", producer_id=4, producer_epoch=0, base_sequence=0)
    with pytest.raises(KafkaError) as refused:
        append(log, b"x", producer_id=4, producer_epoch=0, base_sequence=5)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (log.log_end_offset, log.staged) == (1, False)
    append(log, b"x", producer_id=4, producer_epoch=0, base_sequence=1)


def test_failed_write_fails_the_log(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path / "t-0", disk=disk)
    append(log, b"kept")
    disk.error = OSError(errno.ENOSPC, "No space left on device")
    log.append(batch(b"lost"), leader_epoch=0, now_ms=NOW_MS)
    with pytest.raises(OSError, match="No space left"):
        log.commit()
    assert log.failure is disk.error
    with pytest.raises(KafkaError) as refused:
        append(log, b"more")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.error = None
    with pytest.raises(KafkaError):
        append(log, b"more")
    assert values(log) == [b"kept"]


def test_failed_roll_raises_and_drops_staged_batches(tmp_path: Path) -> None:
    disk = FailingDisk()
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=200), disk=disk)
    log.append(batch(b"x" * 50), leader_epoch=0, now_ms=NOW_MS)
    disk.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(KafkaError) as refused:
        log.append(batch(b"x" * 50), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.staged
    with pytest.raises(OSError, match="Input/output"):
        log.commit()


def test_unreadable_file_is_a_storage_error(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=150))
    for _ in range(3):
        append(log, b"x" * 50)
    (tmp_path / "t-0/00000000000000000000.log").unlink()
    with pytest.raises(KafkaError) as refused:
        log.read(0, 1000, upper_bound=3, min_one_batch=True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_timestamp_search_finds_the_first_record_that_is_not_older(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=1500, index_interval_bytes=100))
    times = [NOW_MS + 10 * number + (500 if number == 20 else 0) for number in range(60)]
    for time in times:
        append(log, b"x", timestamp=time, leader_epoch=2)
    assert len(log.segments) > 2
    for asked in range(NOW_MS - 5, NOW_MS + 600, 5):
        first = next((offset for offset, time in enumerate(times) if time >= asked), None)
        expected = None if first is None else TimestampAndOffset(times[first], first, 2)
        assert find_timestamp(log, asked) == expected
    assert find_max_timestamp(log) == TimestampAndOffset(NOW_MS + 700, 20, 2)


def test_timestamp_search_looks_within_batches_and_below_the_bound(log: Log) -> None:
    append(log, b"a", b"b", timestamp=NOW_MS - 50)
    append(log, b"c", timestamp=NOW_MS)
    assert find_timestamp(log, NOW_MS - 60) == TimestampAndOffset(NOW_MS - 50, 0, 0)
    log.advance_log_start_offset(1)
    assert find_timestamp(log, NOW_MS - 60) == TimestampAndOffset(NOW_MS - 50, 1, 0)


def test_timestamp_search_takes_steps_after_a_header_that_is_too_late(log: Log) -> None:
    """Such a batch is not found out when it is compressed. The search then passes the rest of the segment."""
    late = encode_batch(
        [Record(timestamp=NOW_MS, value=b"x")], compression=Compression.ZSTD, max_timestamp=NOW_MS + 60_000
    )
    log.append(memoryview(bytearray(late)), leader_epoch=0, now_ms=NOW_MS)
    for _ in range(1000):
        append(log, b"x", timestamp=NOW_MS)
    assert len(list(search_timestamp(log, NOW_MS + 1))) > 10
    assert find_timestamp(log, NOW_MS + 1) is None
    assert find_timestamp(log, NOW_MS) == TimestampAndOffset(NOW_MS, 0, 0)


def test_timestamp_search_does_not_read_deleted_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=100))
    for number in range(1000):
        append(log, b"x", timestamp=NOW_MS + number)
    log.advance_log_start_offset(900)
    assert list(search_timestamp(log, 0)) == [], "no step before the result"
    assert find_timestamp(log, 0) == TimestampAndOffset(NOW_MS + 900, 900, 0)


def test_log_without_timestamps_has_no_max_timestamp(log: Log) -> None:
    assert find_max_timestamp(log) is None
    append(log, b"x", timestamp=-1)
    assert find_max_timestamp(log) is None


def test_remembered_positions_of_commits_are_dropped_by_truncation(log: Log) -> None:
    for number in range(100):
        append(log, b"%d" % number)
    log.truncate_to(97)
    trio.run(log.durability.settle)
    append(log, b"other" * 20)
    assert [record.value for record in read_records(log, 96)] == [b"96", b"other" * 20]
    assert [record.value for record in read_records(log, 97)] == [b"other" * 20]
