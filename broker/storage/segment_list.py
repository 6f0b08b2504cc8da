"""The segments of one log in order: finding an offset in them, and rolling, deleting and replacing them on disk.

A segment is created empty and active. Only the active segment, the last one, grows. When a batch does not fit, the log
rolls: a new segment becomes active, and the former one is closed and flushed. The batches of a closed segment are never
changed in place. A truncation cuts one segment, which is active again, and deletes those after it. Compaction and
repairs write other files and swap them in (`swapping`). Retention deletes segments from the front. Files are renamed
before they are removed, and readers that have them open go on. A segment keeps its file open and its indexes in memory
only while they are used, and gives them up when it is released.

Past failures:

- Idle segments kept their files open, and a node with many partitions ran out of file descriptors.
- A segment was released before it was closed, and its last index entries were lost with the memory. Searches by time
  passed over it. A released segment now has complete indexes.
- A flipped bit in an index made a read skip records. An entry is now believed only if the batch at its position ends
  with its offset (`indexed_search`), and an index that cannot be right is made again from the batches.
- A flipped bit in a batch's size hid all later batches. A truncation cut the log at that place, below its leader's end,
  and acknowledged records were lost. The place is now found by intact batches on both sides (`truncation`).
- Compaction emptied a segment, whose file then had the time of the change. Retention stopped there, before segments
  that were due. Changes that are not appends now keep the time from which retention counts.

So never change a batch of a closed segment in place, never release indexes that are not complete, and never trust an
index or a batch's size where the batches contradict it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from broker.storage.damage import Damage, DamagedRanges
from broker.storage.indexed_search import size_of_whole_batches
from broker.storage.log_config import LogConfig
from broker.storage.segment import Segment
from broker.storage.swapping import swap_in
from broker.storage.truncation import TruncationPoint, find_truncation_point
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import HEADER_SIZE, read_header
from kraft import lazy_attrs
from kraft.env import Disk, File, Tracer

# How many recent commit ends have a remembered file position. A consumer that keeps up reads from one of them, and the
# high watermark is usually one of them: such a read needs no search.
KNOWN_POSITIONS_MAX: Final = 16
# A batch that does not fit is sent in part, and then again. From this size of a read on, that costs more than to find
# where the batch begins: with batches of 500 KB, consumers dropped a fifth of what they received.
_LEAVE_OUT_FROM: Final = 64 * 1024


@lazy_attrs.define
class LogSlice:
    """A range of bytes in a segment's file. The last batch may be cut off, as clients expect of a Fetch response.

    A large batch that would be cut off is left out instead; `available` is the size with it.
    """

    segment: Segment
    position: int
    size: int
    available: int

    @property
    def file(self) -> File:
        return self.segment.file


def unreadable(partition: str, error: Exception) -> KafkaError:
    """KAFKA_STORAGE_ERROR for a read that found the files damaged or the disk failing."""
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Exception while reading from {partition}: {error}")


class SegmentList:
    """At least one segment, ascending by base offset; the last one is `active`.

    `discarded` collects the paths of files that no longer belong to the log and are to be removed from the disk.
    `on_suspect` is called when a reader finds a damaged transaction index, `on_damaged` with damage that a truncation
    has found.
    `records_written` and `bytes_written` count for metrics (`broker.replication.topic_traffic`). `damaged` is None
    while no damage is known. `is_being_cleaned` is true while the cleaner writes files that are to replace segments.
    `replacements` counts the calls of `replace`.
    """

    __slots__ = (
        "_bases",
        "_disk",
        "_known_positions",
        "_segments",
        "_trace",
        "active",
        "bytes_written",
        "damaged",
        "directory",
        "discarded",
        "is_being_cleaned",
        "on_damaged",
        "on_suspect",
        "records_written",
        "replacements",
    )

    def __init__(
        self, disk: Disk, directory: str, segments: list[Segment], discarded: list[str], trace: Tracer
    ) -> None:
        self._disk = disk
        self.directory = directory
        self._trace = trace
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._known_positions: dict[int, int] = {}  # offset -> position, in the active segment
        self.active = segments[-1]
        self.discarded = discarded
        self.damaged: DamagedRanges | None = None
        self.is_being_cleaned = False
        self.replacements = 0
        self.on_suspect: Callable[[], None] | None = None
        self.on_damaged: Callable[[Damage], object] = self.add_damage
        self.records_written = self.bytes_written = 0

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

    @property
    def is_empty(self) -> bool:
        """True if the only segment holds no batch."""
        return len(self._segments) == 1 and not self.active.size_bytes

    def configure(self, config: LogConfig) -> None:
        """Apply a changed topic config to every segment."""
        for segment in self._segments:
            segment.configure(config)

    def release(self) -> None:
        """Free the indexes and file descriptors; they are loaded again on use. Nothing may be staged."""
        for segment in self._segments:
            segment.release()

    # Finding

    def index(self, segment: Segment) -> int | None:
        """The index of `segment`; None if it is no longer part of the log."""
        at = self.floor_index(segment.base_offset)
        return at if self._segments[at] is segment else None

    def floor_index(self, offset: int) -> int:
        """The index of the segment whose range contains `offset`; 0 for an offset before all segments."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def since(self, offset: int) -> list[Segment]:
        """The segment whose range contains `offset`, and all later ones."""
        return self._segments[self.floor_index(offset) :]

    def remember_written(self, first_offset: int, end_offset: int, size: int) -> None:
        """Count what was written, and remember that the active segment's file now ends where `end_offset` begins."""
        self.records_written += end_offset - first_offset
        self.bytes_written += size
        known = self._known_positions
        if len(known) >= KNOWN_POSITIONS_MAX:
            del known[next(iter(known))]
        known[end_offset] = self.active.written

    def locate(self, offset: int) -> tuple[Segment, int, int]:
        """The segment and position of the first batch that ends after `offset`, and its size (-1 if not known).

        An offset after all batches is located at the end of the log. Raises CorruptBatch, OSError.
        """
        segment = self.active
        if offset >= segment.base_offset:
            position = self._known_positions.get(offset)
            if position is not None:
                return segment, position, -1
        for segment in self.since(offset):
            found = segment.find(offset) if self.damaged is None else self.damaged.find(segment, offset)
            if found is not None:
                return segment, found.position, found.size
        return segment, segment.written, -1

    def slice(self, offset: int, end_offset: int | None, max_bytes: int, *, min_one_batch: bool) -> LogSlice:
        """The written batches of one segment from the one with `offset` up to the one with `end_offset`.

        `end_offset` None means up to the end of what is written. Damaged batches are left out. Raises CorruptBatch,
        OSError, and KafkaError if the first batch is damaged.
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
            if size >= _LEAVE_OUT_FROM and batch_size < size and self.damaged is None:
                whole = size_of_whole_batches(segment.file, segment.loaded_index(), position, size)
                if whole >= batch_size:
                    return LogSlice(segment, position, whole, size)
        if self.damaged is not None:
            size = self.damaged.intact_size(segment, offset, position, size)
        return LogSlice(segment, position, size, size)

    def add_damage(self, damage: Damage) -> bool:
        """Have reads stop before damage; False if all of it is known."""
        if self.damaged is None:
            self.damaged = DamagedRanges()
        return self.damaged.add(damage)

    # Changing

    def roll(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Seal the active segment and create the next one, which begins at `base_offset`. Raises OSError."""
        self.active.seal()
        self.active.release()
        self._add(Segment.create(self._disk, self.directory, base_offset, config, now_ms=now_ms))
        self._trace("storage_segment_rolled", path=self.active.path)

    def delete_first(self, count: int) -> None:
        """Delete the oldest segments; at least one later segment stays. Raises OSError."""
        self._delete(0, count)

    def find_truncation_point(self, offset: int, end_offset: int, *, allows_gaps: bool) -> TruncationPoint:
        """Where to cut the log, which ends at `end_offset`, before the batch with `offset`.

        `offset` must not be before the first segment. Raises OSError.
        """
        at = self.floor_index(offset)
        if at + 1 < len(self._segments):
            end_offset = self._bases[at + 1]
        return find_truncation_point(self._segments[at], offset, end_offset, allows_gaps=allows_gaps)

    def truncate_at(self, point: TruncationPoint, config: LogConfig, now_ms: int) -> None:
        """Cut the log. After damage a new segment begins, so that the damaged one can be replaced. Raises OSError."""
        at = self.index(point.segment)
        assert at is not None, "found in this log"
        self._delete(at + 1, len(self._segments))
        self.active.truncate_at(point.position, point.end_offset, point.entries, is_damaged=bool(point.damage))
        self._known_positions.clear()
        if self.damaged is not None:
            self.damaged.truncate(point.end_offset)
        if point.damage:
            self.roll(point.end_offset, config, now_ms)
        for damage in point.damage:
            self.on_damaged(damage)

    def unsettled(self) -> Sequence[Segment]:
        """The segments that a truncation may have cut: one with damage is the last but one, before an empty one."""
        return self._segments[-1:] if self.active.size_bytes else self._segments[-2:]

    def restart_at(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Replace all segments by an empty one that begins at `base_offset`. Raises OSError."""
        self._delete(0, len(self._segments))
        self.damaged = None
        self._add(Segment.create(self._disk, self.directory, base_offset, config, now_ms=now_ms))

    def replace(self, segments: Sequence[Segment], config: LogConfig) -> None:
        """Replace adjacent segments, none of them active, by the cleaned segment made from them (see `swapping`).

        The cleaned segment's files must be durable. Their new names are durable after a sync of the directory.
        Raises OSError.
        """
        first = self.index(segments[0])
        end = (0 if first is None else first) + len(segments)
        assert first is not None, "the caller has checked that the segments are part of the log"
        assert end < len(self._segments), "the active segment is never cleaned"
        opened_ms = max(segment.created_ms for segment in segments)
        self.discarded += swap_in(self._disk, segments)
        base_offset = segments[0].base_offset
        cleaned = Segment.open(self._disk, self.directory, base_offset, config, now_ms=opened_ms)
        self._segments[first:end] = [cleaned]
        self._bases[first:end] = [base_offset]
        self.replacements += 1
        self._trace("storage_segments_cleaned", path=cleaned.path, segments=len(segments), bytes=cleaned.size_bytes)

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._known_positions.clear()

    def _delete(self, first: int, end: int) -> None:
        """If this deletes the active segment, the caller adds another or truncates the new last one."""
        removed = self._segments[first:end]
        del self._segments[first:end], self._bases[first:end]
        if self._segments:
            self.active = self._segments[-1]
        self._known_positions.clear()
        for segment in removed:
            self.discarded += segment.delete()
            self._trace("storage_segment_deleted", path=segment.path)
