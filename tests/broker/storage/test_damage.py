"""Reads of a log whose damage is known."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.damage import CAREFUL_READ_BYTES, Damage, DamagedRanges
from broker.storage.log import Log
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import read_header
from tests.support.logs import append, batch, open_log, slice_bytes

BATCH_COUNT = 6


def damage(first_offset: int, end_offset: int) -> Damage:
    return Damage("a-0/00000000000000000000.log", first_offset, end_offset, "the checksum is wrong")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "a-0")
    for number in range(BATCH_COUNT):
        append(log, b"%d" % number, b"%d" % number)
    log.segments.damaged = DamagedRanges()
    return log


def offsets_read(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[int]:
    """The base offsets of the batches that a read from `offset` returns."""
    found = slice_bytes(log.read(offset, max_bytes, upper_bound=1 << 62, min_one_batch=True))
    bases, at = [], 0
    while at < len(found):
        bases.append(read_header(found, at).base_offset)
        at += read_header(found, at).size
    return bases


def flip(log: Log, batch: int, at: int) -> None:
    """Flip a bit of the byte `at` of a batch, counted from its start."""
    size = log.segments.active.written // BATCH_COUNT
    file = log.segments.active.file
    before = file.read(batch * size + at, 1)[0]
    file.write(batch * size + at, [bytes([before ^ 0x40])])


def test_a_read_ends_before_the_damaged_batch(log: Log) -> None:
    assert log.segments.damaged is not None
    assert log.segments.damaged.add(damage(4, 6))
    assert offsets_read(log, 0) == [0, 2]
    assert offsets_read(log, 3) == [2]
    assert offsets_read(log, 6) == [6, 8, 10]


def test_a_read_before_damage_is_bounded_because_its_batches_are_searched_one_by_one(tmp_path: Path) -> None:
    log, batch_size = open_log(tmp_path / "a-1"), 4096
    overhead = len(batch(bytes(4000))) - 4000
    count = CAREFUL_READ_BYTES // batch_size + 8
    for _ in range(count):
        append(log, bytes(batch_size - overhead))
    log.segments.add_damage(damage(count - 1, count))
    for max_bytes in (CAREFUL_READ_BYTES - batch_size, CAREFUL_READ_BYTES, 1 << 20):
        read = log.read(0, max_bytes, upper_bound=1 << 62, min_one_batch=True)
        assert read.size == min(max_bytes, CAREFUL_READ_BYTES)


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE])
@pytest.mark.parametrize("offset", [4, 5])
def test_a_read_that_begins_in_the_damage_is_refused(log: Log, offset: int, error: ErrorCode) -> None:
    assert log.segments.damaged is not None
    log.segments.damaged.add(damage(4, 6))
    log.segments.damaged.error = error
    with pytest.raises(KafkaError, match="the checksum is wrong") as refused:
        offsets_read(log, offset)
    assert refused.value.code is error


@pytest.mark.parametrize("at", [*range(17), 23, 24, 25, 26, 60])
def test_a_damaged_header_does_not_hide_the_damage(log: Log, at: int) -> None:
    """Whatever offset or size the damaged batch claims now."""
    flip(log, 2, at)
    assert log.segments.damaged is not None
    log.segments.damaged.add(damage(4, 6))
    assert offsets_read(log, 0) == [0, 2]


def test_a_damaged_header_that_claims_an_earlier_offset_does_not_hide_the_damage(log: Log) -> None:
    segment, position, _ = log.segments.locate(4)
    segment.file.write(position, [bytes(8)])
    log.segments.add_damage(damage(4, 6))
    assert offsets_read(log, 0) == [0, 2]


def test_a_read_ends_before_a_damaged_batch_of_one_record(tmp_path: Path) -> None:
    log = open_log(tmp_path / "a-1")
    for number in range(4):
        append(log, b"%d" % number)
    log.segments.add_damage(damage(2, 3))
    assert offsets_read(log, 0) == [0, 1]


def test_damage_that_is_known_is_not_new() -> None:
    damaged = DamagedRanges()
    assert damaged.add(damage(4, 6))
    assert not damaged.add(damage(4, 6))
    assert damaged.add(damage(10, 12))
    assert damaged.add(damage(2, 8))
    assert not damaged.add(damage(4, 6))
    assert [(each.first_offset, each.end_offset) for each in damaged.ranges] == [(2, 8), (10, 12)]


def test_a_truncation_removes_damage(log: Log) -> None:
    assert log.segments.damaged is not None
    log.segments.damaged.add(damage(4, 6))
    log.segments.damaged.add(damage(8, 10))
    log.truncate_to(8)
    assert log.segments.damaged is not None
    assert [each.first_offset for each in log.segments.damaged.ranges] == [4]
    log.truncate_fully_and_start_at(0)
    assert log.segments.damaged is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5))), st.integers(0, 25), st.integers(0, 25))
def test_ranges_cover_all_added_damage(added: list[tuple[int, int]], first_offset: int, end_offset: int) -> None:
    damaged, expected = DamagedRanges(), set[int]()
    for first, count in added:
        damaged.add(damage(first, first + count))
        expected.update(range(first, first + count))
    assert {offset for each in damaged.ranges for offset in range(each.first_offset, each.end_offset)} == expected
    assert [each.first_offset for each in damaged.ranges] == sorted(each.first_offset for each in damaged.ranges)
    damaged.keep(first_offset, end_offset)
    assert all(each.end_offset > first_offset and each.first_offset < end_offset for each in damaged.ranges)
