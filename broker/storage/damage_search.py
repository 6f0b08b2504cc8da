"""Reads a part of a log again, and finds out whether its batches are as they were when they were written."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import attrs

from broker.storage.batch_scan import claimed_end, find_intact, scan_batches
from broker.storage.damage import Damage
from broker.storage.log import NOT_CLEANED, Log
from broker.storage.segment import Segment
from broker.wire.records import BatchHeader, CorruptBatch
from kraft.env import Disk, File

# The bytes that one search reads, unless it finds damage: about a millisecond of a thread.
SEARCH_BYTES: Final = 1024 * 1024
# The index entries after damage at which intact batches are looked for.
_RESUME_ENTRIES_MAX: Final = 1024
_UNKNOWN_OFFSET: Final = -1


@attrs.frozen(kw_only=True)
class LogPart:
    """The batches of a segment from `position` on, where `first_offset` is expected (-1 if it is not known).

    If it is not known, the first batch has to end at `first_last_offset`. The search ends after `stop`. The segment is
    written up to `written`, where `end_offset` follows. `positions` are those of some later batches. No batch may be of
    an epoch later than `leader_epoch`.
    """

    path: str
    base_offset: int
    position: int
    first_offset: int
    first_last_offset: int
    stop: int
    written: int
    end_offset: int
    positions: Sequence[int]
    leader_epoch: int
    allows_gaps: bool


def log_part(log: Log, offset: int, leader_epoch: int) -> tuple[Segment, LogPart]:
    """The part of the log that a search for damage at `offset` has to read. Raises OSError."""
    at = log.segments.floor_index(offset)
    segment = log.segments[at]
    segment.offset_after(0)  # loads the index
    position = segment.offset_index.lookup(offset)
    is_last = at + 1 == len(log.segments)
    positions = segment.offset_index.values
    later = bisect_right(positions, position)
    return segment, LogPart(
        path=segment.path,
        base_offset=segment.base_offset,
        position=position,
        first_offset=segment.base_offset if position == 0 else _UNKNOWN_OFFSET,
        first_last_offset=segment.offset_after(position),
        stop=position + SEARCH_BYTES,
        written=segment.written,
        end_offset=log.readable_end_offset if is_last else log.segments[at + 1].base_offset,
        positions=positions[later : later + _RESUME_ENTRIES_MAX],
        leader_epoch=leader_epoch,
        allows_gaps=log.config.compact_enabled or log.cleaned_offset != NOT_CLEANED,
    )


def search(disk: Disk, part: LogPart) -> Damage | None:
    """The first damage in this part; None if it is intact, or its file was removed. May run in a thread.

    An error of the disk while reading is damage, too.
    """
    try:
        file = disk.open(part.path)
    except FileNotFoundError:
        return None
    try:
        found = _search(file, part)
        if found is not None and part.first_offset == _UNKNOWN_OFFSET:
            # The damaged batch may be the first one, and only those before it tell which offset it should have.
            found = _search(file, attrs.evolve(part, position=0, first_offset=part.base_offset))
        return found
    finally:
        file.close()


def _search(file: File, part: LogPart) -> Damage | None:
    position, next_offset = part.position, part.first_offset
    try:
        for at, header in scan_batches(file, part.position, part.written):
            check_follows(header, next_offset, part.leader_epoch, allows_gaps=part.allows_gaps)
            if next_offset == _UNKNOWN_OFFSET and header.last_offset != part.first_last_offset:
                raise CorruptBatch(f"a batch ends at offset {header.last_offset}, not at {part.first_last_offset}")
            position, next_offset = at + header.size, header.next_offset
            if position >= part.stop:
                return None
    except (CorruptBatch, OSError) as error:
        return Damage(part.path, next_offset, _resume_offset(file, part, position, next_offset), str(error))
    return None


def check_follows(header: BatchHeader, next_offset: int, leader_epoch: int, *, allows_gaps: bool) -> None:
    """Check the fields that a batch's checksum does not cover; `next_offset` is -1 if it is not known.

    Raises CorruptBatch.
    """
    if header.last_offset_delta < 0 or not 0 <= header.count <= header.last_offset_delta + 1:
        raise CorruptBatch(f"a batch claims {header.count} records and a last offset delta {header.last_offset_delta}")
    if header.partition_leader_epoch > leader_epoch:
        raise CorruptBatch(f"a batch claims the leader epoch {header.partition_leader_epoch}, after {leader_epoch}")
    if next_offset == _UNKNOWN_OFFSET or header.base_offset == next_offset:
        return
    if header.base_offset < next_offset or not allows_gaps:
        raise CorruptBatch(f"a batch with base offset {header.base_offset} cannot follow at {next_offset}")


def _resume_offset(file: File, part: LogPart, position: int, next_offset: int) -> int:
    """The offset after damage at `position`: that of an intact batch, or the end of the segment.

    A batch that only the index finds does not count, but the one after it does: a read finds that one without passing
    the damage, whose size is not known.
    """
    if claimed_end(file, position) == part.written:
        return part.end_offset
    found = find_intact(file, position, part.written, part.positions)
    if found is None or not max(next_offset, part.base_offset) < found.header.base_offset < part.end_offset:
        return part.end_offset
    return found.header.next_offset if found.is_by_index else found.header.base_offset
