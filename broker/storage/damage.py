"""Ranges of offsets whose bytes on this broker's disk are damaged, and reads that stop before them.

Damage is known while the process runs: a restart finds it again. The repair is in
`broker.replication.damaged_replicas`.
"""

import contextlib
from typing import Final

import attrs

from broker.storage.batch_scan import BatchPosition, find_batch, find_intact, scan_headers
from broker.storage.indexed_search import indexed_position
from broker.storage.segment import Segment
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import CorruptBatch
from kraft import lazy_attrs

# A read near damage searches its batches one by one, so it returns at most this many bytes.
CAREFUL_READ_BYTES: Final = 128 * 1024


@lazy_attrs.frozen
class Damage:
    """The batches of `file` from `first_offset` to `end_offset` (exclusive), which cannot be trusted.

    `cause` says what is wrong with them, as text.
    """

    file: str
    first_offset: int
    end_offset: int
    cause: str

    def __str__(self) -> str:
        return f"offsets {self.first_offset} to {self.end_offset - 1} in {self.file}: {self.cause}"


@lazy_attrs.define
class DamagedRanges:
    """The damage of one log, ascending by offset.

    `error` is the code for a read that begins in a damaged range. KAFKA_STORAGE_ERROR makes clients look for another
    leader; CORRUPT_MESSAGE makes them report the offset.
    """

    ranges: tuple[Damage, ...] = ()
    error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR
    _positions_after: dict[tuple[str, Damage], int] = attrs.field(factory=dict)

    def add(self, damage: Damage) -> bool:
        """Add damage; False if all of it is known."""
        assert damage.first_offset < damage.end_offset, "damage has offsets"
        if self.covers(damage.first_offset, damage.end_offset):
            return False
        kept = [
            each
            for each in self.ranges
            if not (damage.first_offset <= each.first_offset and each.end_offset <= damage.end_offset)
        ]
        self.ranges = tuple(sorted((*kept, damage), key=lambda each: each.first_offset))
        return True

    def keep(self, first_offset: int, end_offset: int) -> None:
        """Forget the damage outside of these offsets, as that part of the log is gone or was replaced."""
        self.ranges = tuple(
            each for each in self.ranges if each.first_offset < end_offset and each.end_offset > first_offset
        )

    def truncate(self, end_offset: int) -> None:
        """Forget the damage from `end_offset` on: other records may follow there."""
        self._positions_after.clear()
        self.ranges = tuple(
            attrs.evolve(each, end_offset=min(each.end_offset, end_offset))
            for each in self.ranges
            if each.first_offset < end_offset
        )

    def remove(self, first_offset: int, end_offset: int) -> None:
        """Forget the damage within these offsets, which were replaced."""
        self._positions_after.clear()
        self.ranges = tuple(
            each for each in self.ranges if each.end_offset <= first_offset or each.first_offset >= end_offset
        )

    def covers(self, first_offset: int, end_offset: int) -> bool:
        """Whether all of these offsets are known to be damaged."""
        return any(each.first_offset <= first_offset and end_offset <= each.end_offset for each in self.ranges)

    def overlaps(self, first_offset: int, end_offset: int) -> bool:
        """Whether some of these offsets are damaged."""
        return any(each.first_offset < end_offset and each.end_offset > first_offset for each in self.ranges)

    def find(self, segment: Segment, offset: int) -> BatchPosition | None:
        """The first written batch of a segment that ends after `offset`, as `Segment.find`, without passing damage.

        The headers of damaged batches cannot be trusted: they may claim any offset and any size. An `offset` before
        damage, or in it, may be found in the damage. Raises CorruptBatch, OSError.
        """
        position = indexed_position(segment.file, segment.loaded_index(), offset)
        for damage in self.ranges:
            if segment.base_offset <= damage.first_offset and damage.end_offset <= offset:
                position = max(position, self._position_after(segment, damage))
        return find_batch(segment.file, position, segment.written, offset)

    def intact_size(self, segment: Segment, offset: int, position: int, size: int) -> int:
        """How many of `size` bytes at `position`, where the batch with `offset` is, precede damaged batches.

        Raises KafkaError `error` if the first batch is damaged, OSError.
        """
        damage = next((each for each in self.ranges if each.end_offset > offset), None)
        if damage is None or size == 0:
            return size
        intact_end = position
        if offset < damage.first_offset:
            stop = position + min(size, CAREFUL_READ_BYTES)
            intact_end = _intact_end(segment, position, stop, damage.first_offset)
        if intact_end == position:
            raise KafkaError(self.error, f"damaged: {damage}")
        return min(intact_end - position, size)

    def _position_after(self, segment: Segment, damage: Damage) -> int:
        """The position of an intact batch that ends after the last damaged offset; the end of the file without one."""
        key = segment.path, damage
        if key not in self._positions_after:
            index = segment.offset_index
            # The position of a batch that ends before the damage, or of the first one.
            before = indexed_position(segment.file, index, damage.first_offset - 1)
            position = _intact_end(segment, before, segment.written, damage.first_offset)
            positions = index.values[:]
            found = find_intact(segment.file, position, segment.written, positions)
            while found is not None and found.header.last_offset < damage.end_offset - 1:
                found = find_intact(segment.file, found.position, segment.written, positions)
            self._positions_after[key] = segment.written if found is None else found.position
        return self._positions_after[key]


def _intact_end(segment: Segment, position: int, stop: int, first_offset: int) -> int:
    """The position where the batches from `position` on reach `first_offset`, or the first one that ends after `stop`.

    The first batch begins at `position`.
    """
    next_offset = segment.base_offset
    with contextlib.suppress(CorruptBatch):
        for at, header in scan_headers(segment.file, position, segment.written):
            if at >= stop or header.base_offset < next_offset or header.last_offset >= first_offset:
                break
            position, next_offset = at + header.size, header.next_offset
    return position
