"""The records that a compaction keeps, and the segments that it must not change."""

import os
from pathlib import Path

import attrs
import pytest

from broker.storage.cleaner.compaction import CompactionAborted
from broker.storage.log import Log
from broker.wire.records import (
    BatchHeader,
    Compression,
    CorruptBatch,
    Record,
    encode_batch,
    iter_headers,
)
from tests.support.compacted_logs import (
    COMPACTED,
    clean,
    compacted_log,
    latest,
    log_to_clean,
    offsets,
    put,
    without_repeats,
)
from tests.support.logs import DAY_MS, NOW_MS, find_timestamp, listing, open_log, read_all, slice_bytes


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return compacted_log(tmp_path / "t-0")


def key(number: int) -> bytes:
    return b"key-%d" % number


def fill(log: Log, count: int, keys: int = 5, **fields: object) -> None:
    """Append `count` batches of two records with repeated keys."""
    for number in range(count):
        first, second = 2 * number, 2 * number + 1
        put(log, (key(first % keys), b"%d" % first), (key(second % keys), b"%d" % second), **fields)


def headers(log: Log) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    for segment in log.segments:
        found += [header for _, header in iter_headers(segment.file.read(0, segment.written))]
    return found


async def test_last_record_of_each_key_keeps_its_offset(log: Log) -> None:
    fill(log, 40)
    before = read_all(log)
    end = log.segments.active.base_offset
    await clean(log)
    assert read_all(log) == without_repeats(before, end)
    assert log.cleaned_offset == end
    assert (log.log_start_offset, log.log_end_offset) == (0, 80)


async def test_active_segment_is_not_compacted(log: Log) -> None:
    fill(log, 3, keys=1)
    assert len(log.segments) == 1
    assert log_to_clean(log).dirty_bytes == 0
    await clean(log)
    assert len(read_all(log)) == 6


async def test_uncommitted_segments_are_not_compacted(log: Log) -> None:
    fill(log, 40, keys=1)
    second = log.segments[2].base_offset
    await clean(log, high_watermark=second + 1)
    assert log.cleaned_offset == second
    assert [offset for offset in offsets(log) if offset < second] == [second - 1]
    assert [offset for offset in offsets(log) if offset >= second] == list(range(second, 80))


async def test_segments_after_an_open_transaction_are_not_compacted(log: Log) -> None:
    fill(log, 20, keys=1)
    first = put(log, (key(0), b"x"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    fill(log, 20, keys=1)
    assert log_to_clean(log).end <= first


async def test_small_segments_are_merged_up_to_segment_bytes(log: Log, tmp_path: Path) -> None:
    fill(log, 60, keys=3)
    assert len(log.segments) > 8
    for _ in range(4):
        fill(log, 10, keys=3)
        await clean(log)
    active = log.segments.active
    assert len(log.segments) <= 4
    assert [segment for segment in log.segments if segment is not active and segment.size_bytes > 600] == []
    bases = [f"{segment.base_offset:020d}.log" for segment in log.segments]
    assert listing(tmp_path / "t-0", ".log") == bases


async def test_replaced_files_are_renamed_and_discarded(log: Log, tmp_path: Path) -> None:
    fill(log, 40)
    await clean(log)
    discarded = {Path(path).name for path in log.take_discarded()}
    assert discarded >= set(listing(tmp_path / "t-0", ".log.deleted"))
    assert listing(tmp_path / "t-0", ".cleaned") == listing(tmp_path / "t-0", ".swap") == []


async def test_read_at_a_gap_begins_with_the_next_record(log: Log) -> None:
    fill(log, 40)
    before = read_all(log)
    await clean(log)
    left = offsets(log)
    for offset in range(80):
        data = slice_bytes(log.read(offset, 1 << 20, upper_bound=1 << 60, min_one_batch=True))
        first = next(iter_headers(data))[1]
        assert first.last_offset >= offset
        assert first.base_offset <= next(at for at in left if at >= offset)
    assert latest(read_all(log)) == latest(before)


async def test_timestamp_search_works_after_a_compaction(log: Log) -> None:
    for number in range(40):
        put(log, (key(number % 5), b"%d" % number), now_ms=NOW_MS + number)
    before = read_all(log)
    await clean(log)
    left = without_repeats(before, log.cleaned_offset)
    for number in range(40):
        found = find_timestamp(log, NOW_MS + number)
        assert found is not None
        assert found.offset == next(record.offset for record in left if record.timestamp >= NOW_MS + number)


@pytest.mark.parametrize("compression", list(Compression))
async def test_compressed_batches_are_compressed_again(tmp_path: Path, compression: Compression) -> None:
    log = compacted_log(tmp_path / "t-0")
    fill(log, 60, compression=compression)
    before = read_all(log)
    await clean(log)
    assert read_all(log) == without_repeats(before, log.cleaned_offset)
    assert {header.compression for header in headers(log) if header.count} == {compression}


async def test_batch_that_loses_records_keeps_offsets_and_timestamps(log: Log) -> None:
    pairs = [(key(number), b"v") for number in range(8)]
    put(log, *pairs, producer_id=7, producer_epoch=3, base_sequence=100)
    put(log, *pairs[:3], *pairs[5:])
    fill(log, 40, keys=3)
    await clean(log)
    first = headers(log)[0]
    assert (first.base_offset, first.last_offset_delta, first.count) == (0, 7, 2)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (7, 3, 100)
    assert offsets(log)[:2] == [3, 4]


# Tombstones


async def test_tombstone_stays_for_delete_retention_ms_after_its_first_compaction_kip_534(log: Log) -> None:
    put(log, (b"gone", b"v"), (b"kept", b"v"))
    put(log, (b"gone", None))
    fill(log, 40)
    await clean(log)
    assert [record for record in read_all(log) if record.key == b"gone"] == [Record(2, NOW_MS, b"gone", None)]
    batch = next(header for header in headers(log) if header.base_offset == 2)
    assert batch.delete_horizon_ms == NOW_MS + DAY_MS
    fill(log, 40)
    await clean(log, now_ms=NOW_MS + DAY_MS - 1)
    assert [record.key for record in read_all(log)].count(b"gone") == 1
    fill(log, 40)
    await clean(log, now_ms=NOW_MS + DAY_MS)
    assert [record.key for record in read_all(log)].count(b"gone") == 0
    assert latest(read_all(log))[b"kept"] == b"v"


async def test_batch_with_a_delete_horizon_keeps_its_timestamps_kip_534(log: Log) -> None:
    records = [Record(timestamp=NOW_MS + 7 * at, key=key(at), value=None if at % 2 else b"v") for at in range(6)]
    log.append(memoryview(bytearray(encode_batch(records))), leader_epoch=0, now_ms=NOW_MS)
    log.commit()
    for number in range(40):
        put(log, (b"other", b"%d" % number))
    before = read_all(log)
    await clean(log)
    assert [record for record in read_all(log) if record.key != b"other"] == before[:6]
    assert headers(log)[0].max_timestamp == NOW_MS + 35


async def test_last_batch_of_the_compacted_part_stays_without_its_records(log: Log) -> None:
    """The next offset of a log is that of its last batch, and the segment after this one may be empty."""
    put(log, (b"gone", b"v"))
    put(log, (b"gone", None))
    log.roll(NOW_MS)
    await clean(log)
    await clean(log, now_ms=NOW_MS + DAY_MS)
    assert read_all(log) == []
    assert [(header.base_offset, header.count) for header in headers(log)] == [(1, 0)]


# Producers


async def test_last_batch_of_a_producer_stays_without_its_records(log: Log) -> None:
    """Otherwise the producer could not continue its sequence after a restart."""
    for sequence in range(4):
        put(log, (b"k", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
    for number in range(40):
        put(log, (b"k", b"%d" % number))
    await clean(log)
    kept = headers(log)[0]
    assert (kept.base_offset, kept.count, kept.producer_id, kept.last_sequence) == (3, 0, 7, 3)
    assert 3 not in offsets(log)


async def test_sequences_continue_after_a_compaction_and_a_crash(log: Log, tmp_path: Path) -> None:
    for sequence in range(4):
        put(log, (b"k", b"%d" % sequence), producer_id=7, producer_epoch=1, base_sequence=sequence)
    for number in range(40):
        put(log, (b"k", b"%d" % number))
    await clean(log)
    for name in listing(tmp_path / "t-0", ".snapshot"):
        (tmp_path / "t-0" / name).unlink()
    again = compacted_log(tmp_path / "t-0", cleaned_offset=log.cleaned_offset)
    assert again.log_end_offset == 44
    producer = again.producers.get(7)
    assert producer is not None
    assert producer.last_sequence == 3


# Many keys


async def test_small_offset_map_needs_several_compactions(log: Log) -> None:
    fill(log, 60, keys=20)
    before = read_all(log)
    end = log.segments.active.base_offset
    rounds, cleaned = 0, 0
    while log.cleaned_offset < end:
        await clean(log, keys_max=7)
        assert log.cleaned_offset > cleaned
        cleaned = log.cleaned_offset
        rounds += 1
        assert latest(read_all(log)) == latest(before)
    assert rounds > 3
    assert len(offsets(log)) < len(before)


async def test_offset_map_distinguishes_long_keys(log: Log) -> None:
    for number in range(40):
        put(log, (b"x" * 100 + key(number % 3), b"%d" % number))
    before = read_all(log)
    await clean(log)
    assert read_all(log) == without_repeats(before, log.cleaned_offset)


# Concurrent changes


async def test_truncation_aborts_the_compaction(log: Log, tmp_path: Path) -> None:
    fill(log, 40)

    class TruncatingPacer:
        def add_work(self, io_bytes: int, records: int) -> bool:
            return True

        async def pause(self) -> None:
            if not log.durability.truncations:
                log.truncate_to(50)
                await log.durability.settle()

    before = [record for record in read_all(log) if record.offset < 50]
    with pytest.raises(CompactionAborted):
        await clean(log, pacer=TruncatingPacer())  # type: ignore[arg-type]
    assert read_all(log) == before
    assert listing(tmp_path / "t-0", ".cleaned") == []


async def test_damaged_batch_ends_the_compaction(log: Log, tmp_path: Path) -> None:
    fill(log, 40)
    path = tmp_path / "t-0" / f"{log.segments[1].base_offset:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptBatch):
        await clean(log)
    assert listing(tmp_path / "t-0", ".cleaned") == []


async def test_slice_read_before_a_compaction_can_still_be_sent(log: Log) -> None:
    fill(log, 40)
    piece = log.read(3, 1 << 20, upper_bound=1 << 60, min_one_batch=True)
    expected = slice_bytes(piece)
    log.segments.release()
    await clean(log)
    assert slice_bytes(piece) == expected


async def test_formerly_compacted_log_keeps_its_gaps_after_a_crash(log: Log, tmp_path: Path) -> None:
    fill(log, 40)
    await clean(log)
    before = read_all(log)
    plain = attrs.evolve(COMPACTED, cleanup_policy=("delete",))
    assert read_all(open_log(tmp_path / "t-0", plain, cleaned_offset=log.cleaned_offset)) == before


async def test_merged_segment_without_timestamps_is_retained_as_long_as_the_latest_of_its_segments(log: Log) -> None:
    """Also if that one has lost all its records."""
    for _ in range(40):
        put(log, (b"key", b"value"), now_ms=-1)
    await clean(log)
    for _ in range(40):
        put(log, (b"key", b"value"), now_ms=-1)
    for number, segment in enumerate(log.segments):
        os.utime(segment.path, ns=(0, (NOW_MS + number) * 1_000_000))
    bases = [segment.base_offset for segment in log.segments]
    await clean(log)
    merged = bases.index(log.segments[1].base_offset)
    assert merged > 1
    assert log.segments[0].retention_timestamp == NOW_MS + merged - 1


async def test_cleaned_segment_without_timestamps_keeps_the_time_of_its_last_change(log: Log) -> None:
    """Retention counts from it. The compaction itself is no change."""
    for _ in range(40):
        put(log, (b"key", b"value"), now_ms=-1)
    for number, segment in enumerate(log.segments):
        os.utime(segment.path, ns=(0, (NOW_MS + number) * 1_000_000))
    compaction = await clean(log)
    assert compaction.bytes_written < compaction.bytes_read
    cleaned = list(log.segments)[:-1]
    assert [segment.retention_timestamp for segment in cleaned] == [NOW_MS + number for number in range(len(cleaned))]
