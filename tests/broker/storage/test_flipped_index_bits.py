"""A flipped bit in an index makes a read slower at worst: it finds what it found before, or is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.indexed_search import indexed_offset_after
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.timestamp_search import find_max_timestamp
from broker.wire.errors import KafkaError
from tests.support.logs import NOW_MS, append, close_log, find_timestamp, open_log, read_records
from tests.support.transactional_logs import append_marker, append_transactional

CONFIG = LogConfig(index_interval_bytes=150)
RECORDS = 24


def flipped_bits(content: bytes) -> Iterator[bytes]:
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def timestamp_of(number: int) -> int:
    """Growing times, with equal ones and some that go back."""
    return NOW_MS + number // 3 * 10 - (25 if number % 7 == 0 else 0)


def filled(directory: Path) -> Path:
    """A closed log of one segment; returns the path of its files without the suffix."""
    log = open_log(directory, CONFIG)
    for number in range(RECORDS):
        append(log, b"%d" % number, timestamp=timestamp_of(number))
    log.roll()
    append(log, b"last", timestamp=NOW_MS + 10_000)
    trio.run(close_log, log)
    return directory / f"{0:020d}"


def reopened(directory: Path) -> Log:
    return open_log(directory, CONFIG, clean=True)


def test_every_record_is_found_whichever_bit_of_the_offset_index_is_flipped(tmp_path: Path) -> None:
    index = filled(tmp_path / "t-0").with_suffix(".index")
    content = index.read_bytes()
    assert len(content) >= 6 * 8
    for flipped in flipped_bits(content):
        index.write_bytes(flipped)
        log = reopened(tmp_path / "t-0")
        found = [read_records(log, offset, max_bytes=1)[0].value for offset in range(RECORDS)]
        assert found == [b"%d" % number for number in range(RECORDS)]


def test_every_time_is_found_whichever_bit_of_the_time_index_is_flipped(tmp_path: Path) -> None:
    index = filled(tmp_path / "t-0").with_suffix(".timeindex")
    content = index.read_bytes()
    assert len(content) >= 3 * 12
    wanted = sorted({timestamp_of(number) + extra for number in range(RECORDS) for extra in (0, 1)})
    before = [find_timestamp(reopened(tmp_path / "t-0"), timestamp) for timestamp in wanted]
    for flipped in flipped_bits(content):
        index.write_bytes(flipped)
        log = reopened(tmp_path / "t-0")
        assert [find_timestamp(log, timestamp) for timestamp in wanted] == before


def test_retention_sees_the_largest_timestamp_whichever_bit_of_the_time_index_is_flipped(tmp_path: Path) -> None:
    index = filled(tmp_path / "t-0").with_suffix(".timeindex")
    expected = max(map(timestamp_of, range(RECORDS)))
    for flipped in flipped_bits(index.read_bytes()):
        index.write_bytes(flipped)
        log = reopened(tmp_path / "t-0")
        assert log.segments[0].retention_timestamp == expected
        found = find_max_timestamp(log)
        assert found is not None
        assert found.timestamp == NOW_MS + 10_000


def test_list_of_aborted_transactions_ends_late_enough_whichever_bit_of_the_offset_index_is_flipped(
    tmp_path: Path,
) -> None:
    """The end of the records in a response is found in the offset index."""
    index = filled(tmp_path / "t-0").with_suffix(".index")
    content = index.read_bytes()
    for flipped in flipped_bits(content):
        index.write_bytes(flipped)
        log = reopened(tmp_path / "t-0")
        for offset in range(1, RECORDS):
            segment, position, _ = log.segments.locate(offset)
            assert indexed_offset_after(segment.file, segment.loaded_index(), position) >= offset


def test_no_aborted_record_is_seen_whichever_bit_of_the_transaction_index_is_flipped(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, CONFIG)
    for number in range(4):
        append_transactional(log, number % 2, (None, b"x"))
        append(log, b"between")
        append_marker(log, number % 2, is_commit=False)
    index = Path(log.segments.active.transaction_index.path)
    log.roll()
    trio.run(close_log, log)
    content = index.read_bytes()
    before = _lists(reopened(directory))
    refused = 0
    log = reopened(directory)
    for flipped in flipped_bits(content):
        log.segments[0].transaction_index.release()
        index.write_bytes(flipped)
        for expected, found in zip(before, _lists(log), strict=True):
            refused += found is None
            assert found in (expected, None)
    assert refused > len(content) * 8


def _lists(log: Log) -> list[list[tuple[int, int]] | None]:
    """The aborted transactions that each read of one batch lists; None for one that is refused."""
    lists: list[list[tuple[int, int]] | None] = []
    end_offset = log.segments.active.base_offset
    for offset in range(end_offset):
        found = log.read(offset, 1, upper_bound=end_offset, min_one_batch=True)
        try:
            aborted = aborted_transactions(log, found, offset, end_offset)
        except KafkaError:
            lists.append(None)
        else:
            lists.append([(entry.producer_id, entry.first_offset) for entry in aborted])
    return lists


@pytest.mark.parametrize("is_clean", [True, False])
def test_start_rebuilds_a_transaction_index_with_a_flipped_bit(tmp_path: Path, is_clean: bool) -> None:
    directory = tmp_path / "t-0"
    log = open_log(directory, CONFIG)
    for number in range(3):
        append_transactional(log, number, (None, b"x"))
        append_marker(log, number, is_commit=False)
    index = Path(log.segments.active.transaction_index.path)
    log.roll()
    append(log, b"last")
    trio.run(close_log, log)
    content = index.read_bytes()
    for flipped in flipped_bits(content):
        index.write_bytes(flipped)
        open_log(directory, CONFIG, clean=is_clean, recovery_point=log.log_end_offset)
        assert index.read_bytes() == content
