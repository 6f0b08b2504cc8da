"""Batches of dead letters (KIP-1191), of a source partition without a node."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import trio

from broker.share_partitions import dead_letter_batch
from broker.share_partitions.dead_letter_batch import DeadLetterBatch, Source, build_batch
from broker.share_partitions.in_flight import DeadLetterCause, DeadLetters
from broker.wire.records import Record, encode_batch, iter_records, read_header
from tests.support.bad_sectors import BadDisk
from tests.support.partition_harness import LOCAL, Harness

RECORDS = 10_000
LETTERS = 200
COPIES_BYTES_MAX = 1 << 20


def single_letters(first: int) -> list[DeadLetters]:
    """Letters of every second record from `first` on."""
    offsets = range(first, first + 2 * LETTERS, 2)
    return [DeadLetters(offset, offset, 1, DeadLetterCause.REJECTED) for offset in offsets]


def source(directory: Path) -> Source:
    """A partition with one batch."""
    harness = Harness(directory)
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    harness.append(RECORDS)
    return Source("group", harness.partition, 0)


def written(directory: Path, offsets: Sequence[int]) -> Source:
    """A partition with one batch in its file, of records at these offsets, in this order."""
    harness = Harness(directory)
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    log = harness.partition.log
    assert log is not None
    records = [Record(offset=each, timestamp=1, value=b"%04d" % each) for each in offsets]
    encoded = encode_batch(records, base_offset=0, last_offset=max(offsets))
    harness.append(max(offsets) + 1)
    assert len(encoded) <= log.size_bytes
    log.segments.active.file.write(0, [encoded])
    return Source("group", harness.partition, 0)


async def count_lines(source: Source, letters: Sequence[DeadLetters]) -> int:
    """How many lines of the module run to build a batch; each round of a loop counts."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != dead_letter_batch.__file__:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        built = await build_batch(source, letters, COPIES_BYTES_MAX, copies=True, wall_ms=1)
    finally:
        sys.settrace(before)
    assert len(built.offsets) == LETTERS
    assert list(built.letters) == list(letters)
    return count


async def test_single_records_of_a_large_batch_take_no_walk_over_it_each(tmp_path: Path) -> None:
    """Each single record took a walk over all records of the batch, while the event loop was held."""
    found = source(tmp_path)
    first = RECORDS - 2 * LETTERS
    of_range = await count_lines(found, [DeadLetters(first, first + LETTERS - 1, 1, DeadLetterCause.REJECTED)])
    assert await count_lines(found, single_letters(first)) < 2 * of_range


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(
    ("byte", "bit"),
    [(0, 0x40), (6, 0x01), (7, 0x02), (17, 0x01), (21, 0x80), (23, 0x80), (26, 0x01), (57, 0x80), (70, 0x01)],
    ids=[
        "large base offset",
        "later base offset",
        "earlier base offset",
        "crc",
        "attributes",
        "negative last offset",
        "last offset",
        "count",
        "record",
    ],
)
async def test_damaged_records_are_named_without_a_copy_and_reported(
    tmp_path: Path, byte: int, bit: int, copies: bool
) -> None:
    """A copy of a damaged record got a CRC that is right. A damaged offset lost dead letters, or was read forever."""
    harness = Harness(tmp_path)
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    log = harness.partition.log
    assert log is not None
    harness.append(2)
    position = log.size_bytes + byte
    harness.append(2)
    file = log.segments.active.file
    file.write(position, [bytes([file.read(position, 1)[0] ^ bit])])
    letters = [DeadLetters(0, 3, 1, DeadLetterCause.REJECTED)]
    with trio.fail_after(10):
        source = Source("group", harness.partition, 0)
        built = await build_batch(source, letters, COPIES_BYTES_MAX, copies=copies, wall_ms=1)
    found = list(iter_records(built.encoded, 0, read_header(built.encoded)))
    assert [dict(each.headers)["__dlq.errors.offset"] for each in found] == [b"0", b"1", b"2", b"3"]
    assert [each.value for each in found] == [b"value" if copies else None] * 2 + [None] * 2
    assert harness.checked[0] == 2


@pytest.mark.parametrize("bad", ["header", "records"])
@pytest.mark.parametrize("copies", [True, False])
async def test_records_of_a_batch_that_the_disk_does_not_return_are_named_without_a_copy(
    tmp_path: Path, bad: str, copies: bool
) -> None:
    """All records that waited were given up after 60 seconds. Apache Kafka names those that it cannot read."""
    disk = BadDisk()
    harness = Harness(tmp_path, disk=disk)
    harness.become(replicas=(LOCAL,), isr=(LOCAL,))
    log = harness.partition.log
    assert log is not None
    harness.append(500)
    begin = log.size_bytes
    harness.append(500)
    end = log.size_bytes
    harness.append(500)
    disk.bad[log.segments.active.path] = range(begin, begin + 1) if bad == "header" else range(end - 1, end)
    letters = [DeadLetters(498, 501, 1, DeadLetterCause.REJECTED), DeadLetters(999, 1001, 1, DeadLetterCause.REJECTED)]
    built = await build_batch(
        Source("group", harness.partition, 0), letters, COPIES_BYTES_MAX, copies=copies, wall_ms=1
    )
    assert list(built.offsets) == [498, 499, 500, 501, 999, 1000, 1001]
    found = list(iter_records(built.encoded, 0, read_header(built.encoded)))
    expected = b"value" if copies else None
    assert [each.value for each in found] == [expected, expected, None, None, None, expected, expected]
    assert harness.checked[0] == 500


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks."""

    count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1


async def test_records_of_a_large_batch_are_decoded_in_many_steps(tmp_path: Path) -> None:
    """One batch of 90,000 records held the event loop for 80 ms."""
    found = source(tmp_path)
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    letters = [DeadLetters(RECORDS - 2, RECORDS - 1, 1, DeadLetterCause.REJECTED)]
    built = await build_batch(found, letters, COPIES_BYTES_MAX, copies=True, wall_ms=1)
    trio.lowlevel.remove_instrument(steps)
    assert [each.value for each in iter_records(built.encoded, 0, read_header(built.encoded))] == [b"value"] * 2
    assert steps.count >= RECORDS // 1000


async def test_records_between_gaps_are_copied_and_the_gaps_get_no_dead_letter(tmp_path: Path) -> None:
    offsets = [each for each in range(2_000) if each % 3]
    built = await build_batch(
        written(tmp_path, offsets),
        [DeadLetters(900, 1_000, 1, DeadLetterCause.REJECTED), DeadLetters(1_990, 1_999, 1, DeadLetterCause.REJECTED)],
        COPIES_BYTES_MAX,
        copies=True,
        wall_ms=1,
    )
    expected = [each for each in offsets if 900 <= each <= 1_000 or each >= 1_990]
    assert list(built.offsets) == expected
    found = iter_records(built.encoded, 0, read_header(built.encoded))
    assert [each.value for each in found] == [b"%04d" % each for each in expected]


async def test_batch_whose_offsets_are_not_in_order_is_passed_once(tmp_path: Path) -> None:
    """No node writes such a batch, but a disk may hold one whose CRC is right."""
    letters = [DeadLetters(0, 2, 1, DeadLetterCause.REJECTED)]
    with trio.fail_after(10):
        built = await build_batch(written(tmp_path, [0, 2, 1]), letters, COPIES_BYTES_MAX, copies=True, wall_ms=1)
    assert list(built.offsets) == [0, 1, 2]
    found = iter_records(built.encoded, 0, read_header(built.encoded))
    assert [each.value for each in found] == [None] * 3


def test_refused_records_are_found_by_their_indexes_in_the_batch() -> None:
    rejected = DeadLetters(4, 9, 1, DeadLetterCause.REJECTED)
    too_often = DeadLetters(20, 21, 2, DeadLetterCause.DELIVERED_TOO_OFTEN)
    built = DeadLetterBatch([rejected, too_often], [4, 6, 9, 20, 21], b"")
    assert built.letters_at([3, 1, 1, -1, 5]) == [
        rejected._replace(first_offset=6, last_offset=6),
        too_often._replace(first_offset=20, last_offset=20),
    ]
