"""Reads a part of a log again, and finds the batches that are not as they were when they were written."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from broker.storage.batch_scan import UNKNOWN_OFFSET, check_follows, claimed_end, ends_with, find_intact, scan_batches
from broker.storage.damage import Damage
from broker.storage.leader_epochs import UNDEFINED_EPOCH
from broker.storage.log import Log
from broker.storage.segment import Segment
from broker.wire.records import HEADER_SIZE, BatchHeader, CorruptBatch, read_header
from kraft import lazy_attrs
from kraft.env import Disk, File

# The bytes that one search reads, unless it finds damage: about a millisecond of a thread.
SEARCH_BYTES: Final = 1024 * 1024
# The index entries after damage at which intact batches are looked for.
_RESUME_ENTRIES_MAX: Final = 1024
# The damaged places that one search returns; the next search at a later offset finds others.
_FOUND_MAX: Final = 100


@lazy_attrs.frozen(kw_only=True)
class LogPart:
    """The batches of a segment from `position` on.

    `starts` are the places where a search may begin, each with the offset at which the batch there ends: the nearest
    one first, and at last the start of the segment, for which that offset is -1. The search ends after `stop`. The
    segment is written up to `written`, where `end_offset` follows. `positions` are those of batches up to some after
    the first start. No batch may be of an epoch later than `leader_epoch`.
    """

    path: str
    base_offset: int
    starts: Sequence[tuple[int, int]]
    stop: int
    written: int
    end_offset: int
    positions: Sequence[int]
    leader_epoch: int
    allows_gaps: bool

    @property
    def position(self) -> int:
        """Where the search begins."""
        return self.starts[0][1]


@lazy_attrs.frozen
class SearchResult:
    """The damage that a search has found. `bytes_read` is about what it has read."""

    damage: list[Damage]
    bytes_read: int


def log_part(log: Log, offset: int, leader_epoch: int) -> tuple[Segment, LogPart]:
    """The part of the log that a search for damage at `offset` has to read. Raises OSError."""
    at = log.segments.floor_index(offset)
    segment = log.segments[at]
    index = segment.loaded_index()
    starts = (*index.entries_before(offset), (UNKNOWN_OFFSET, 0))
    position = starts[0][1]
    is_last = at + 1 == len(log.segments)
    positions = index.values
    return segment, LogPart(
        path=segment.path,
        base_offset=segment.base_offset,
        starts=starts,
        stop=position + SEARCH_BYTES,
        written=segment.written,
        end_offset=log.readable_end_offset if is_last else log.segments[at + 1].base_offset,
        positions=positions[: bisect_right(positions, position) + _RESUME_ENTRIES_MAX],
        leader_epoch=leader_epoch,
        allows_gaps=log.allows_gaps,
    )


def search(disk: Disk, part: LogPart) -> SearchResult:
    """All damage in this part; none if it is intact, or its file cannot be opened. May run in a thread.

    An error of the disk while reading is damage, too.
    """
    try:
        file = disk.open(part.path)
    except OSError:
        return SearchResult([], 0)  # it was removed, or there are too many open files
    bytes_read = 0
    try:
        for last_offset, position in part.starts:
            if not _may_begin(file, position, last_offset):
                continue
            damage = _search(file, part, position, last_offset)
            bytes_read += min(part.stop, part.written) - position
            # Only the batches before a damaged one tell which offset it should have.
            if not damage or damage[0].first_offset != UNKNOWN_OFFSET:
                return SearchResult(damage, bytes_read)
        raise AssertionError("the offset of a segment's first batch is known")
    finally:
        file.close()


def _may_begin(file: File, position: int, last_offset: int) -> bool:
    """Whether the batch at `position` claims to end at `last_offset`: an entry of a damaged index names another one."""
    try:
        return last_offset == UNKNOWN_OFFSET or ends_with(file.read(position, HEADER_SIZE), last_offset)
    except OSError:
        return False


def _search(file: File, part: LogPart, position: int, first_last_offset: int) -> list[Damage]:
    """The damage from `position` on, where the batch has to end at `first_last_offset`; -1 for the segment's first one.

    Ends at once if the batch at `position` is damaged and its offset is not known.
    """
    found: list[Damage] = []
    next_offset = part.base_offset if first_last_offset == UNKNOWN_OFFSET else UNKNOWN_OFFSET
    epoch = UNDEFINED_EPOCH
    while position < min(part.stop, part.written) and len(found) < _FOUND_MAX:
        try:
            for at, header in scan_batches(file, position, part.written):
                latest = max(part.leader_epoch, epoch)
                if header.partition_leader_epoch > latest and _begins_epoch(file, at, header, part.written):
                    latest = header.partition_leader_epoch
                check_follows(header, next_offset, latest, allows_gaps=part.allows_gaps)
                if next_offset == UNKNOWN_OFFSET and header.last_offset != first_last_offset:
                    raise CorruptBatch(f"a batch ends at offset {header.last_offset}, not at {first_last_offset}")
                position, next_offset, epoch = at + header.size, header.next_offset, header.partition_leader_epoch
                if position >= part.stop:
                    break
        except (CorruptBatch, OSError) as error:
            resume_offset, resume_position = _resume(file, part, position, next_offset)
            found.append(Damage(part.path, next_offset, resume_offset, str(error)))
            if next_offset == UNKNOWN_OFFSET:
                break
            position, next_offset = resume_position, resume_offset
    return found


def _begins_epoch(file: File, position: int, header: BatchHeader, written: int) -> bool:
    """Whether the batch after the one at `position` has its leader epoch, too: no bit has flipped then.

    The metadata has lost that epoch (`kraft accept-loss`), and leaders begin again with an earlier one.
    """
    following = position + header.size
    if following + HEADER_SIZE > written:
        return False
    try:
        epoch = read_header(file.read(following, HEADER_SIZE)).partition_leader_epoch
    except (CorruptBatch, OSError):
        return False
    return epoch == header.partition_leader_epoch


def _resume(file: File, part: LogPart, position: int, next_offset: int) -> tuple[int, int]:
    """The offset after damage at `position`, and where its batch is: an intact batch, or the end of the segment.

    A batch that only the index finds does not count, but the one after it does: a read finds that one without passing
    the damage, whose size is not known.
    """
    end = part.end_offset, part.written
    if claimed_end(file, position) == part.written:
        return end
    found = find_intact(file, position, part.written, part.positions)
    if found is None or not max(next_offset, part.base_offset) < found.header.base_offset < part.end_offset:
        return end
    if found.is_by_index:
        return found.header.next_offset, found.position + found.header.size
    return found.header.base_offset, found.position
