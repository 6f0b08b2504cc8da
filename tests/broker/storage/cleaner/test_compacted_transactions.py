"""Compaction of logs with transactions: aborted records, end markers and their delete horizons (KIP-98, KIP-534)."""

from pathlib import Path

import pytest

from broker.storage.aborted_transactions import collect_aborted
from broker.storage.log import Log
from broker.wire.records import BatchHeader, EndTransactionMarker, iter_headers, iter_records
from broker.wire.records.control import read_end_transaction_marker
from tests.support.compacted_logs import COMPACTED, clean, compacted_log, put
from tests.support.logs import DAY_MS, NOW_MS, listing, open_log
from tests.support.transactional_logs import CommittedReader, append_marker, append_transactional

ONE, TWO = 1, 2
LATER_MS = NOW_MS + DAY_MS


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return compacted_log(tmp_path / "t-0")


def write(log: Log, key: bytes, value: bytes, producer_id: int = ONE, epoch: int = 0) -> int:
    return append_transactional(log, producer_id, (key, value), epoch=epoch)


def end(log: Log, producer_id: int = ONE, *, is_commit: bool, epoch: int = 0) -> int:
    return append_marker(log, producer_id, is_commit=is_commit, epoch=epoch)


def begin_segment(log: Log) -> None:
    """Roll, so that everything so far can be cleaned, and the batch under test is not the last of the cleaned part."""
    put(log, (b"last", b"of round"))
    log.roll()
    put(log, (b"active", b""))
    log.producers.advance_high_watermark(log.log_end_offset)


def seen(log: Log) -> list[tuple[bytes | None, bytes | None]]:
    reader = CommittedReader(log, log.log_start_offset)
    return [
        (record.key, record.value)
        for record in reader.read_to(log.log_end_offset)
        if record.key not in (b"last", b"active")
    ]


def headers(log: Log) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    for segment in log.segments:
        found += [header for _, header in iter_headers(segment.file.read(0, segment.written))]
    return found


def markers(log: Log) -> list[tuple[int, EndTransactionMarker | None]]:
    """The offsets of all control batches with their markers; None if the record was removed."""
    found = []
    for segment in log.segments:
        data = segment.file.read(0, segment.written)
        for at, header in iter_headers(data):
            if header.is_control:
                read = [read_end_transaction_marker(record) for record in iter_records(data, at, header)]
                found.append((header.base_offset, read[0] if read else None))
    return found


async def test_aborted_records_are_removed_and_replace_no_others(log: Log) -> None:
    put(log, (b"k", b"committed"))
    write(log, b"k", b"aborted")
    write(log, b"other", b"aborted")
    end(log, is_commit=False)
    begin_segment(log)
    await clean(log)
    assert seen(log) == [(b"k", b"committed")]
    assert [header.count for header in headers(log) if header.producer_id == ONE] == [
        0,
        1,
    ]  # the last batch, the marker


async def test_committed_records_are_compacted_like_others(log: Log) -> None:
    put(log, (b"k", b"1"))
    write(log, b"k", b"2")
    write(log, b"x", b"3")
    end(log, is_commit=True)
    write(log, b"k", b"4")
    end(log, is_commit=True)
    begin_segment(log)
    await clean(log)
    assert seen(log) == [(b"x", b"3"), (b"k", b"4")]


async def test_marker_gets_a_delete_horizon_once_no_batch_of_its_transaction_is_left(log: Log) -> None:
    """KIP-534: one compaction removes the records, the next one sets the marker's delete horizon, and a later one
    removes it.
    """
    write(log, b"a", b"1")
    first = end(log, is_commit=False)
    write(log, b"b", b"2")
    last = end(log, is_commit=True)
    begin_segment(log)

    def horizon() -> int | None:
        return next(header.delete_horizon_ms for header in headers(log) if header.base_offset == first)

    await clean(log)
    assert horizon() is None
    begin_segment(log)
    await clean(log)
    assert horizon() == LATER_MS
    begin_segment(log)
    await clean(log, now_ms=LATER_MS - 1)
    assert horizon() == LATER_MS
    begin_segment(log)
    await clean(log, now_ms=LATER_MS)
    assert [offset for offset, _ in markers(log)] == [last]


async def test_batch_without_records_keeps_its_marker_and_its_entry(log: Log, tmp_path: Path) -> None:
    """It is the producer's last batch. Without the marker, a replay would consider the transaction open."""
    write(log, b"a", b"1")
    marker = end(log, is_commit=False)
    for round_ms in range(4):
        begin_segment(log)
        await clean(log, now_ms=NOW_MS + round_ms * DAY_MS)
    assert [offset for offset, _ in markers(log)] == [marker]
    assert [entry.producer_id for entry in collect_aborted(log.segments, 0, log.log_end_offset)] == [ONE]
    recovered = open_log(tmp_path / "t-0", COMPACTED, cleaned_offset=log.cleaned_offset)
    recovered.producers.advance_high_watermark(recovered.log_end_offset)
    assert recovered.producers.first_unstable_offset is None


async def test_entries_of_removed_transactions_leave_the_transaction_index(log: Log, tmp_path: Path) -> None:
    write(log, b"a", b"1")
    end(log, is_commit=False)
    write(log, b"b", b"2")
    end(log, is_commit=True)
    begin_segment(log)
    await clean(log)
    assert listing(tmp_path / "t-0", ".txnindex") == [f"{0:020d}.txnindex"]
    begin_segment(log)
    await clean(log)
    assert list(collect_aborted(log.segments, 0, log.log_end_offset)) == []
    assert listing(tmp_path / "t-0", ".txnindex") == []


async def test_last_marker_of_a_producer_stays_without_its_record(log: Log, tmp_path: Path) -> None:
    """Under transaction.version 2, only the marker has the producer's latest epoch, which fences older ones."""
    write(log, b"a", b"1", epoch=3)
    append_marker(log, ONE, is_commit=False, epoch=4, transaction_version=2)
    for round_ms in range(4):
        begin_segment(log)
        await clean(log, now_ms=NOW_MS + round_ms * DAY_MS)
    assert markers(log) == [(1, None)]
    state = log.producers.get(ONE)
    assert state is not None
    assert state.epoch == 4


async def test_transaction_whose_marker_is_after_the_cleaned_part_is_known(log: Log) -> None:
    """Its entry is in the index of the active segment."""
    put(log, (b"k", b"committed"))
    write(log, b"k", b"aborted")
    log.roll()
    end(log, is_commit=False)
    log.producers.advance_high_watermark(log.log_end_offset)
    await clean(log)
    assert log.cleaned_offset == 2
    assert seen(log) == [(b"k", b"committed")]


async def test_transaction_that_spans_groups_of_segments_is_removed(log: Log) -> None:
    put(log, (b"k0", b"committed"))
    for number in range(20):
        write(log, b"k%d" % number, b"aborted" * 20)
        write(log, b"c%d" % number, b"committed", TWO)
    end(log, is_commit=False)
    end(log, TWO, is_commit=True)
    assert len(log.segments) > 5
    begin_segment(log)
    await clean(log)
    assert seen(log) == [(b"k0", b"committed")] + [(b"c%d" % number, b"committed") for number in range(20)]


async def test_full_offset_map_does_not_lose_transactions(log: Log) -> None:
    for number in range(30):
        write(log, b"k%d" % number, b"aborted" if number % 3 else b"committed")
        end(log, is_commit=not number % 3)
    begin_segment(log)
    for _ in range(8):
        await clean(log, keys_max=3)
    assert seen(log) == [(b"k%d" % number, b"committed") for number in range(0, 30, 3)]
