"""Searches in a segment by its indexes, whose entries are compared with the batches that they name.

A flipped bit in an index makes a search slower, and its result stays right.
"""

from typing import Final

from broker.storage.batch_scan import BatchPosition, MisleadingEntry, ends_with, find_batch
from broker.storage.log_config import MAX_LONG
from broker.storage.offset_index import OffsetIndex
from broker.wire.records import HEADER_SIZE, CorruptBatch, read_header
from kraft.env import File

# A smaller part of a batch is not worth the read of a header.
_PART_MIN: Final = 8 * 1024
# Small batches have no entry of their own. So many are passed to find one that is cut off.
_HEADERS_MAX: Final = 8


def find_indexed(file: File, index: OffsetIndex, end: int, offset: int) -> BatchPosition | None:
    """The first batch before `end` that ends after `offset`; None without one. Raises CorruptBatch, OSError."""
    try:
        entry_offset, position = index.entry_before(offset)
        return find_batch(file, position, end, offset, entry_offset)
    except MisleadingEntry:
        return find_batch(file, indexed_position(file, index, offset), end, offset)


def indexed_position(file: File, index: OffsetIndex, offset: int) -> int:
    """The position of a batch that ends at `offset` or before, as near to it as the index tells; 0 if it does not.

    Raises OSError.
    """
    for entry_offset, position in index.entries_before(offset):
        if ends_with(file.read(position, HEADER_SIZE), entry_offset):
            return position
    return 0


def indexed_offset_after(file: File, index: OffsetIndex, position: int) -> int:
    """An offset after all records of the batches before `position`; the largest one if no entry tells.

    Raises OSError.
    """
    for entry_offset, at in index.entries_from(position):
        if ends_with(file.read(at, HEADER_SIZE), entry_offset):
            return entry_offset
    return MAX_LONG


def size_of_whole_batches(file: File, index: OffsetIndex, position: int, limit: int) -> int:
    """The size of the batches from `position` on that end within `limit` bytes, without the part of the next one.

    Returns `limit` if the part is small, or if it cannot be found: the file has at least `limit` bytes.
    """
    end = position + limit
    at = index.last_position_before(end)
    try:
        for _ in range(_HEADERS_MAX):
            if at <= position or end - at < _PART_MIN:
                return limit
            following = at + read_header(file.read(at, HEADER_SIZE)).size
            if following > end:
                return at - position
            at = following
    except (CorruptBatch, OSError):
        pass  # the batches before are sent, and the next read finds the same
    return limit


def has_timestamp(file: File, index: OffsetIndex, end: int, timestamp: int, last_offset: int) -> bool:
    """Whether the batch that ends with `last_offset` has this largest timestamp; always true for no timestamp.

    A segment whose last entry in the time index is wrong would be deleted too early, or never, and be left out by
    searches. Raises CorruptIndex, FileNotFoundError, OSError.
    """
    if timestamp < 0:
        return True
    entry_offset, position = index.last()
    if last_offset < entry_offset:  # the largest timestamp is mostly in one of the last batches: nothing is loaded then
        position = index.lookup(last_offset)
    try:
        found = find_batch(file, position, end, last_offset)
        if found is None:
            return False
        header = read_header(file.read(found.position, HEADER_SIZE))
    except CorruptBatch:
        return False
    return header.max_timestamp == timestamp and header.last_offset == last_offset
