"""One segment of a log: a file of batches, its two indexes, and the limits at which it is rolled.

The last segment of a log is the active one, the only one that grows. `size_bytes` counts the appended bytes, `written`
those written to the file; the difference is what the log has staged. Opening a segment only reads its size;
everything else is read on use, so that ten thousand idle partitions start fast and need little memory. The file
closes when its last reader is gone. `segment_list` says how segments begin and end.
"""

import contextlib
from collections.abc import Sequence
from typing import Final

from broker.storage.batch_scan import BatchPosition, scan_headers
from broker.storage.indexed_search import find_indexed, has_timestamp
from broker.storage.log_config import MAX_LONG, LogConfig
from broker.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from broker.storage.segment_files import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    keeping_modified_time,
    rename_to_deleted,
    segment_file_name,
    write_again,
)
from broker.storage.sparse_index import CorruptIndex, SparseIndex
from broker.storage.time_index import TimeIndex
from broker.storage.transaction_index import TransactionIndex
from broker.wire.records import HEADER_SIZE, CorruptBatch, read_header
from broker.wire.records.batch import NO_TIMESTAMP
from kraft.env import Disk, File

# Space is reserved ahead of writes in steps that double the file, between these bounds. Smaller files reserve nothing:
# ten thousand partitions with a few records each must not reserve ten thousand times the smallest step.
RESERVE_MIN: Final = 1024 * 1024
RESERVE_MAX: Final = 64 * 1024 * 1024

# The `room` of a segment that takes no append now, as it is not loaded or an index is full.
NO_ROOM: Final = -1


class Segment:
    """See the module's docstring. Times are ms since 1970. `created_ms` is the time of creation or opening.

    `room` is the number of bytes that may still be appended. `should_roll` compares a batch with it, with `offset_max`
    and with `rolls_after_timestamp`, and the current time with `rolls_after_ms`.
    """

    __slots__ = (
        "_config",
        "_disk",
        "_file",
        "_first_timestamp",
        "_is_dated",
        "_is_warm",
        "_jitter_ms",
        "_reserved",
        "_unindexed_bytes",
        "base_offset",
        "created_ms",
        "directory",
        "is_new",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "offset_max",
        "rolls_after_ms",
        "rolls_after_timestamp",
        "room",
        "size_bytes",
        "time_index",
        "transaction_index",
        "written",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, now_ms: int) -> None:
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.offset_index = OffsetIndex(disk, self._path(OFFSET_INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(disk, self._path(TIME_INDEX_SUFFIX), base_offset)
        self.transaction_index = TransactionIndex(disk, self._path(TRANSACTION_INDEX_SUFFIX))
        self._file: File | None = None
        self.created_ms = now_ms
        self._reserved = 0
        self._unindexed_bytes = 0
        self._first_timestamp: int | None = None
        self._is_warm = False
        self._is_dated = False  # whether max_timestamp is known
        self.is_new = False  # whether its files were created, and their directory entries are not durable yet
        self.size_bytes = 0
        self.written = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset  # the last offset of the first batch that has it
        self.room = NO_ROOM
        self.configure(config)

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, now_ms: int) -> "Segment":
        """Create an empty segment. Raises OSError."""
        segment = cls(disk, directory, base_offset, config, now_ms=now_ms)
        file = disk.open(segment.path, create=True)
        if file.size():
            file.truncate(0)
        if config.preallocate:
            file.preallocate(config.segment_bytes)
            segment._reserved = config.segment_bytes
        file.close()
        segment.is_new = True
        segment._begin()
        return segment

    @classmethod
    def open(cls, disk: Disk, directory: str, base_offset: int, config: LogConfig, *, now_ms: int) -> "Segment":
        """Open an existing segment. Raises OSError."""
        segment = cls(disk, directory, base_offset, config, now_ms=now_ms)
        file = disk.open(segment.path)
        segment.size_bytes = segment.written = segment._reserved = file.size()
        file.close()
        if segment.size_bytes == 0:
            segment._begin()
        return segment

    @property
    def path(self) -> str:
        return self._path(LOG_SUFFIX)

    @property
    def file(self) -> File:
        """The file with the batches. Raises OSError if it cannot be opened."""
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def hold_file(self) -> None:
        """Keep the file open for readers of this segment, before its name is given to another file. Raises OSError."""
        self._file = self.file

    def configure(self, config: LogConfig) -> None:
        """Apply a changed topic config."""
        self._config = config
        self._jitter_ms = config.jitter_of(self.directory, self.base_offset)
        self._set_limits()

    # Appending

    def append(self, last_offset: int, max_timestamp: int, size: int) -> None:
        """Account for a batch of `size` bytes at the end; `write` brings its bytes to the file."""
        position = self.size_bytes
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        self.size_bytes = position + size
        self.room -= size
        unindexed = self._unindexed_bytes
        self._unindexed_bytes = unindexed + size
        if unindexed > self._config.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._unindexed_bytes = size
            if self._indexes_full:
                self.room = NO_ROOM
        if position == 0:
            self._first_timestamp = max_timestamp
            self._set_limits()

    def write(self, buffers: list[memoryview]) -> int:
        """Write the batches that were appended since the last call, and return their size. Raises OSError."""
        begin, end = self.written, self.size_bytes
        file = self._file or self.file
        if end > self._reserved and end > RESERVE_MIN:
            self._reserved = max(end, min(end + min(end, RESERVE_MAX), self._config.segment_bytes))
            file.preallocate(self._reserved)
        file.write(begin, buffers)
        self.written = end
        return end - begin

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether a batch must go into a new segment: one of the limits of the `segment.*` configs is reached.

        Also true for a segment that is not loaded (`load_for_appends`), whose limits are not known yet.
        """
        return (
            size > self.room
            or max_timestamp > self.rolls_after_timestamp
            or last_offset > self.offset_max
            or now_ms > self.rolls_after_ms
        )

    def load_for_appends(self) -> None:
        """Load the indexes and timestamps that appends need, unless they are loaded. Raises CorruptBatch, OSError."""
        if not self._is_warm:
            self.load_indexes()
            self._load_max_timestamp()
            self.first_timestamp()
            self._is_warm = True
            self._set_limits()

    @property
    def _indexes_full(self) -> bool:
        limit = self._config.segment_index_bytes
        # One entry of the time index is kept for the roll.
        return (
            len(self.offset_index) >= limit // OffsetIndex.ENTRY.size
            or len(self.time_index) >= limit // TimeIndex.ENTRY.size - 1
        )

    def _set_limits(self) -> None:
        config, first_timestamp = self._config, self._first_timestamp
        age_max_ms = config.max_segment_ms - self._jitter_ms
        self.rolls_after_timestamp = self.rolls_after_ms = MAX_LONG
        if first_timestamp is not None and first_timestamp >= 0:
            self.rolls_after_timestamp = first_timestamp + age_max_ms
        elif first_timestamp is not None:
            self.rolls_after_ms = self.created_ms + age_max_ms
        is_full = not self._is_warm or (self.size_bytes > 0 and self._indexes_full)
        self.room = NO_ROOM if is_full else config.segment_bytes - self.size_bytes

    # Reading

    def load_indexes(self) -> None:
        """Load the entries of both indexes into memory. Raises OSError."""
        self._load(self.offset_index)
        self._load(self.time_index)

    def loaded_index(self) -> OffsetIndex:
        """The offset index, with its entries in memory. Raises OSError."""
        self._load(self.offset_index)
        return self.offset_index

    def find(self, offset: int) -> BatchPosition | None:
        """The first written batch that ends after `offset`; None if there is none. Raises CorruptBatch, OSError."""
        self._load(self.offset_index)
        return find_indexed(self.file, self.offset_index, self.written, offset)

    def largest_timestamp(self) -> int:
        """The largest timestamp of the records, or -1; sets `max_timestamp`. Raises OSError."""
        if not self._is_dated:
            self._load_max_timestamp()
        return self.max_timestamp

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, or -1. Raises CorruptBatch, OSError."""
        if self._first_timestamp is None and self.written:
            self._first_timestamp = read_header(self.file.read(0, HEADER_SIZE)).max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    @property
    def retention_timestamp(self) -> int:
        """The time from which retention.ms counts: the largest timestamp, or without one, the file's last change.

        As in Kafka, so that the time does not start again when the log is opened. Raises OSError.
        """
        timestamp = self.largest_timestamp()
        return timestamp if timestamp >= 0 else self.file.modified_ms()

    # Opening, truncating and closing

    def load_end(self) -> int:
        """The end offset of a segment that a clean shutdown has left.

        Raises CorruptBatch if the file does not end as a clean shutdown leaves it, OSError.
        """
        end_offset = self.base_offset
        if self.size_bytes:
            try:
                position = self.offset_index.last()[1]
            except (CorruptIndex, FileNotFoundError):
                self._rebuild()
                position = self.offset_index.last()[1]
            if position >= self.size_bytes:
                raise CorruptBatch(f"{self.offset_index.path} points past the end of the log")
            self._load_max_timestamp()
            for _, header in scan_headers(self.file, position, self.written, base_offset=self.base_offset):
                end_offset = header.next_offset
                self._note_timestamp(header.max_timestamp, header.last_offset)
            self._unindexed_bytes = self.written - position
        return end_offset

    def begin_recovery(self) -> None:
        """Forget all batches. The caller calls `append` for every good batch, then `finish_recovery`."""
        self.size_bytes = 0
        self._first_timestamp = None
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._begin()

    def finish_recovery(self) -> int:
        """Cut the file after the last good batch; returns the number of bytes cut. Raises OSError.

        The rest is written again. If the previous process ended with a failed fsync, the pages can be read but count as
        clean, and no later fsync would make them durable (https://lwn.net/Articles/752063/).
        """
        cut = self.written - self.size_bytes
        with keeping_modified_time(self.file):
            self.file.truncate(self.size_bytes)
            write_again(self.file, self.size_bytes)
        self.written = self._reserved = self.size_bytes
        return cut

    def truncate_at(
        self, position: int, offset: int, entries: Sequence[tuple[int, int]] = (), *, is_damaged: bool
    ) -> None:
        """Drop the batch with `offset`, which begins at `position`, and all after it; everything must be written.

        `entries` are added to the offset index. A segment in which batches are damaged takes no more of them. Its
        indexes are kept: those that could be made from the batches would end at the damage. Raises OSError.
        """
        self.load_indexes()
        self.offset_index.truncate_to(offset, entries)
        self.time_index.truncate_to(offset)
        self.file.truncate(position)
        self.size_bytes = self.written = self._reserved = position
        self.max_timestamp, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._is_dated = is_damaged
        if position == 0:
            self._first_timestamp = None
            self._begin()
        elif is_damaged:
            self._note_timestamp(*self.time_index.last())
            self.offset_index.save()
            self.time_index.save()
        else:
            try:
                self.load_end()
            except CorruptBatch:  # an entry of the index is wrong
                self._rebuild()
        self._set_limits()

    def seal(self) -> None:
        """Complete the indexes and free the reserved space, as no batch follows for now. Raises OSError."""
        self._complete_indexes()
        if self._reserved > self.size_bytes:
            with keeping_modified_time(self.file):
                self.file.truncate(self.size_bytes)
            self._reserved = self.size_bytes

    def release(self) -> None:
        """Free the memory and file descriptor that the segment needs only while it is used. Raises OSError.

        The indexes are completed before, which is not possible once they are released.
        """
        self._complete_indexes()
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()
        self._file = None
        self._is_warm = self.offset_index.is_loaded and self.time_index.is_loaded
        self._set_limits()

    async def sync(self) -> None:
        """Make batches and indexes durable. Raises FsyncFailed, OSError."""
        await self.file.sync()
        await self.transaction_index.sync()
        if self.size_bytes:
            await self.offset_index.sync()
            await self.time_index.sync()

    def unsynced_paths(self) -> list[str]:
        """Write everything to the files; returns the paths of those that `sync` would sync. Raises OSError."""
        paths = [self.path]
        if not self.transaction_index.is_synced:
            paths.append(self.transaction_index.path)
        if self.size_bytes:
            for index in (self.offset_index, self.time_index):
                index.save()
                if not index.is_synced:
                    paths.append(index.path)
        return paths

    def delete(self) -> list[str]:
        """Take the files out of the log by renaming them; returns the new paths, to be removed. Raises OSError."""
        return rename_to_deleted(self._disk, map(self._path, SEGMENT_SUFFIXES))

    def _complete_indexes(self) -> None:
        if self._is_warm and self.size_bytes:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.offset_index.save()
            self.time_index.save()

    def _begin(self) -> None:
        self.offset_index.reset()
        self.time_index.reset()
        self._unindexed_bytes = 0
        self._is_warm = self._is_dated = True
        self._set_limits()

    def _load(self, index: SparseIndex) -> None:
        if not index.is_loaded:
            try:
                index.load()
                if self.offset_index.is_loaded and self.offset_index.last()[1] >= self.written:
                    raise CorruptIndex(f"{self.offset_index.path} points past the end of the log")
            except (CorruptIndex, FileNotFoundError):
                self._rebuild()

    def _load_max_timestamp(self) -> None:
        if not self._is_dated:
            try:
                timestamp, last_offset = self.time_index.last()
                if not has_timestamp(self.file, self.offset_index, self.written, timestamp, last_offset):
                    raise CorruptIndex(f"{self.time_index.path} ends with a timestamp that its batch does not have")
                self._note_timestamp(timestamp, last_offset)
            except (CorruptIndex, FileNotFoundError):
                self._rebuild()
            self._is_dated = True

    def _note_timestamp(self, timestamp: int, last_offset: int) -> None:
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset

    def _rebuild(self) -> None:
        """Rebuild both indexes from the batch headers, as far as these are valid. Raises OSError."""
        self.begin_recovery()
        with contextlib.suppress(CorruptBatch):
            for _, header in scan_headers(self.file, 0, self.written, base_offset=self.base_offset):
                self.append(header.last_offset, header.max_timestamp, header.size)
        if self.size_bytes:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.size_bytes = self.written
        self._set_limits()

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{segment_file_name(self.base_offset, suffix)}"
