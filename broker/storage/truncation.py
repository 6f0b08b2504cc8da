"""Finds where a truncation cuts a segment, also where batches before that place are damaged.

The length in the header of a batch tells where the next batch is, so a flipped bit may hide all later batches. The
batches from the nearest entry of the offset index up to the place are therefore read with their checksums. After a
damaged batch, the search goes on at the next intact one: where the damaged header says, at a later entry of the index,
or where a search through the bytes finds it.

The log then ends at the offset to which it was to be truncated, even if the batch before it is damaged or cannot be
found. The leader has the records below that offset, acknowledged ones among them. If the log ended before them, this
replica could be elected from the ISR, and the other replicas would truncate their intact records. A replica whose
damage is known hands the partition over instead, or repairs itself from the leader.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from broker.storage.batch_scan import (
    HEADER_CHUNK_LONG,
    UNKNOWN_OFFSET,
    IntactBatch,
    check_follows,
    find_intact,
    intact_header,
    scan_batches,
)
from broker.storage.damage import Damage
from broker.storage.leader_epochs import EPOCH_MAX
from broker.storage.segment import Segment
from broker.wire.records import HEADER_SIZE, BatchHeader, CorruptBatch, check_crc, read_header
from broker.wire.records.batch import MAGIC, MAGIC_POSITION
from kraft import lazy_attrs
from kraft.env import File

# The bytes that are searched for an intact batch. The index has an entry every 4 KiB by default, and one for each large
# batch, so more bytes without an entry mean that the index is damaged, too.
_SEARCHED_MAX: Final = 64 * 1024 * 1024


@lazy_attrs.frozen(kw_only=True)
class TruncationPoint:
    """The file of `segment` is cut at `position`, and the log then ends at `end_offset`.

    `damage` is what was found before that. `entries` are to be added to the offset index (last offset and position), so
    that the intact batches after damage can be found again.
    """

    segment: Segment
    position: int
    end_offset: int
    damage: Sequence[Damage] = ()
    entries: Sequence[tuple[int, int]] = ()

    @property
    def damaged_from(self) -> int | None:
        """The first offset of the damage; None without any."""
        return self.damage[0].first_offset if self.damage else None


def find_truncation_point(segment: Segment, offset: int, end_offset: int, *, allows_gaps: bool) -> TruncationPoint:
    """Where to cut a segment, which ends at `end_offset`, before the batch with `offset`; everything must be written.

    `allows_gaps` says that there may be gaps between offsets, because the log was compacted. Raises OSError if the file
    cannot be opened.
    """
    if offset <= segment.base_offset:
        return TruncationPoint(segment=segment, position=0, end_offset=segment.base_offset)
    segment.load_indexes()
    search = _Search(segment, segment.file, offset, end_offset, allows_gaps, segment.offset_index.values[:])
    for last_offset, position in segment.offset_index.entries_before(offset - 1):
        header = intact_header(search.file, position, segment.written)
        if header is not None and header.last_offset == last_offset:
            return search.run(position + header.size, header.next_offset)
    return search.run(0, segment.base_offset)


@lazy_attrs.define
class _Search:
    segment: Segment
    file: File
    offset: int
    end_offset: int
    allows_gaps: bool
    positions: Sequence[int]
    damage: list[Damage] = attrs.field(factory=list)
    entries: list[tuple[int, int]] = attrs.field(factory=list)

    def run(self, position: int, next_offset: int) -> TruncationPoint:
        """Search from the batch at `position` on, which has to begin at `next_offset`."""
        written = self.segment.written
        while position < written and next_offset < self.offset:
            try:
                for at, header in scan_batches(self.file, position, written, chunk_size=HEADER_CHUNK_LONG):
                    self._check(header, at, next_offset)
                    if header.last_offset >= self.offset:
                        return self._point(at, min(self.offset, next_offset))
                    position, next_offset = at + header.size, header.next_offset
                    if next_offset >= self.offset:
                        break
            except (CorruptBatch, OSError) as error:  # an error of the disk while reading is damage, too
                resumed = self._resume(position, next_offset, str(error))
                if resumed is None:
                    return self._point(position, self.offset)
                position, next_offset = resumed
        return self._point(position, min(self.offset, next_offset))

    def _point(self, position: int, end_offset: int) -> TruncationPoint:
        return TruncationPoint(
            segment=self.segment, position=position, end_offset=end_offset, damage=self.damage, entries=self.entries
        )

    def _check(self, header: BatchHeader, position: int, next_offset: int) -> None:
        """Raises CorruptBatch for a batch that cannot be there."""
        check_follows(header, next_offset, EPOCH_MAX, allows_gaps=self.allows_gaps)
        if header.last_offset >= self.end_offset:
            raise CorruptBatch(f"a batch claims offset {header.last_offset}, and the log ends at {self.end_offset}")
        if header.base_offset > next_offset:
            following = intact_header(self.file, position + header.size, self.segment.written)
            if following is not None and following.base_offset <= header.last_offset:
                raise CorruptBatch(f"a batch claims offset {header.base_offset}, after that of the next batch")

    def _resume(self, position: int, next_offset: int, cause: str) -> tuple[int, int] | None:
        """The position and offset of the first intact batch after a damaged one at `position`; None without one."""
        found = find_intact(self.file, position, self.segment.written, self.positions)
        if (
            found is not None
            and not next_offset < found.header.base_offset <= found.header.last_offset < self.end_offset
        ):
            found = None
        hidden = (
            None if found is not None and self._is_next(found, position) else self._hidden(position, next_offset, found)
        )
        readable_from = self.end_offset
        if found is not None:
            readable_from = found.header.next_offset if found.is_by_index else found.header.base_offset
        if hidden is not None and readable_from > self.offset > hidden.header.last_offset:
            self.entries.append((hidden.header.last_offset, hidden.position))
            readable_from = hidden.header.next_offset
        self.damage.append(Damage(self.segment.path, next_offset, min(readable_from, self.offset), cause))
        resumed = hidden or found
        return None if resumed is None else (resumed.position, resumed.header.base_offset)

    def _is_next(self, found: IntactBatch, position: int) -> bool:
        """Whether no batch can be between the damaged one at `position` and `found`."""
        if found.is_by_index:
            return False
        damaged = read_header(self.file.read(position, HEADER_SIZE))
        return damaged.last_offset_delta >= 0 and damaged.next_offset == found.header.base_offset

    def _hidden(self, position: int, next_offset: int, found: IntactBatch | None) -> IntactBatch | None:
        """The first intact batch between the damaged one and `found`, or the end of the segment without it.

        Records may contain what looks like a batch. So only batches count after which intact ones follow up to there.
        """
        stop, stop_offset = self.segment.written, self.end_offset
        if found is not None:
            stop, stop_offset = found.position, found.header.base_offset
        if stop - position > _SEARCHED_MAX:
            return None
        try:
            data = self.file.read(position, stop - position)
        except OSError:
            return None
        rejected = set[int]()
        for at, header in _batches_in(data):
            if next_offset < header.base_offset and self._reaches_end(data, at, stop_offset, rejected):
                return IntactBatch(position + at, header, is_by_index=False)
        return None

    def _reaches_end(self, data: bytes, position: int, end_offset: int, rejected: set[int]) -> bool:
        """Whether intact batches follow one another from `position` up to `end_offset`, where the data end.

        If not, the positions of those that do are added to `rejected`. A client may write a record that looks like a
        thousand batches: each of them is read once, and not once for each of those before it.
        """
        next_offset, passed = UNKNOWN_OFFSET, list[int]()
        try:
            while position < len(data) and position not in rejected:
                header = read_header(data, position)
                check_follows(header, next_offset, EPOCH_MAX, allows_gaps=self.allows_gaps)
                if position + header.size > len(data):
                    break
                check_crc(data, position, header)
                passed.append(position)
                position, next_offset = position + header.size, header.next_offset
        except CorruptBatch:
            pass
        if position == len(data) and (next_offset == end_offset or (self.allows_gaps and next_offset < end_offset)):
            return True
        rejected.update(passed)
        return False


def _batches_in(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Each position after the first byte at which the header of a batch may be."""
    at = data.find(MAGIC, MAGIC_POSITION + 1)
    while at >= 0:
        position = at - MAGIC_POSITION
        if position + HEADER_SIZE > len(data):
            return
        try:
            header = read_header(data, position)
        except CorruptBatch:
            pass
        else:
            if position + header.size <= len(data) and header.last_offset_delta >= 0:
                yield position, header
        at = data.find(MAGIC, at + 1)
