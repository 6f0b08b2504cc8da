"""The segments of one log in order, and where in them an offset is."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import attrs

from broker.storage.log_config import LogConfig
from broker.storage.segment import Segment
from broker.wire.records import HEADER_SIZE, read_header
from kraft.env import File

# How many recent ends of commits have their position remembered: a consumer that keeps up, and the high watermark,
# are at one of these, and then need no search.
KNOWN_POSITIONS_MAX: Final = 16


@attrs.define
class LogSlice:
    """Bytes of a segment's file: whole batches, but the last one may be cut off, as clients expect of a Fetch."""

    segment: Segment
    position: int
    size: int

    @property
    def file(self) -> File:
        return self.segment.file


class Segments:
    """At least one segment, ascending by base offset; the last one is `active`."""

    __slots__ = ("_bases", "_known_positions", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._known_positions: dict[int, int] = {}  # offset -> position, in the active segment
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, at: int) -> Segment:
        return self._segments[at]

    @property
    def first_offset(self) -> int:
        """The base offset of the oldest segment."""
        return self._bases[0]

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(self._bases)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def configure(self, config: LogConfig) -> None:
        for segment in self._segments:
            segment.configure(config)

    def add(self, segment: Segment) -> None:
        """Append a new active segment."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._known_positions.clear()

    def remove(self, first: int, end: int) -> list[Segment]:
        """Take segments out by index; if the active one is among them, the caller adds another or truncates."""
        removed = self._segments[first:end]
        del self._segments[first:end], self._bases[first:end]
        if self._segments:
            self.active = self._segments[-1]
        self._known_positions.clear()
        return removed

    def replace(self, first: int, end: int, segment: Segment) -> None:
        """Have one segment take the place of some, which begin where it does and are not the active one."""
        assert end < len(self._segments), "the active segment stays"
        self._segments[first:end] = [segment]
        self._bases[first:end] = [segment.base_offset]

    def index(self, segment: Segment) -> int | None:
        """Where a segment is; None if it is no part of the log any more."""
        at = self.floor_index(segment.base_offset)
        return at if self._segments[at] is segment else None

    def floor_index(self, offset: int) -> int:
        """The index of the segment that `offset` belongs into; 0 for what lies before all."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def since(self, offset: int) -> list[Segment]:
        """The segment that `offset` belongs into, and all behind it."""
        return self._segments[self.floor_index(offset) :]

    def release(self) -> None:
        """Free indexes and descriptors; who needs them loads them again. Nothing may be staged."""
        for segment in self._segments:
            segment.release()

    def remember(self, offset: int) -> None:
        """Note that the active segment's file now ends where `offset` begins."""
        known = self._known_positions
        if len(known) >= KNOWN_POSITIONS_MAX:
            del known[next(iter(known))]
        known[offset] = self.active.written

    def forget_positions(self) -> None:
        """The active segment was cut."""
        self._known_positions.clear()

    def locate(self, offset: int) -> tuple[Segment, int, int]:
        """Segment and position of the batch that holds `offset` or follows it, and its size, -1 if that is not known.

        The end of the log for an offset behind all batches. Raises CorruptBatch, OSError.
        """
        segment = self.active
        if offset >= segment.base_offset:
            position = self._known_positions.get(offset)
            if position is not None:
                return segment, position, -1
        for segment in self.since(offset):
            found = segment.find(offset)
            if found is not None:
                return segment, found.position, found.size
        return segment, segment.written, -1

    def slice(self, offset: int, end_offset: int | None, max_bytes: int, *, min_one_batch: bool) -> LogSlice:
        """The written batches from the one with `offset` on, of one segment, before the one with `end_offset`.

        `end_offset` None stands for all that is written. Raises CorruptBatch, OSError.
        """
        segment, position, batch_size = self.locate(offset)
        end = segment.written
        if end_offset is not None:
            end_segment, end_position, _ = self.locate(end_offset)
            if end_segment is segment:
                end = end_position
        size = max(end - position, 0)
        if size > max_bytes:
            if batch_size < 0:
                batch_size = read_header(segment.file.read(position, HEADER_SIZE)).size
            size = max_bytes if batch_size <= max_bytes else batch_size if min_one_batch else 0
        return LogSlice(segment, position, size)
