"""One cleaning of one log: find the last offset of each key, write the remaining records, and swap them in.

Only inactive, committed and flushed segments are cleaned, so that no power cut removes both a record and its
replacement. Meanwhile other tasks append to the log and read it. They may also truncate or delete it, which ends the
cleaning without loss, since a group of segments is replaced at once or not at all.

After a crash the log is as it was before the replacement, or as after it (`recovery`). The files of a group are durable
before they get the suffix `.swap`, by which a start knows that they are complete. The replaced segments are removed
after that, the oldest first.
"""

import attrs

from broker.storage.cleaner.cleanable import Cleanable
from broker.storage.cleaner.cleaned_segment import CleanedSegment
from broker.storage.cleaner.grouping import grouped
from broker.storage.cleaner.offset_map import OffsetMap
from broker.storage.cleaner.pace import Pace
from broker.storage.cleaner.retention import NOT_COMPACTED, Retention
from broker.storage.cleaner.source import read_batches, records_in_portions
from broker.storage.log import Log
from broker.storage.segment import Segment
from broker.wire.records import BatchHeader
from broker.wire.records.raw import RawRecord
from kraft.env import Disk


class CleaningAborted(Exception):
    """The log was truncated or deleted, or its topic is no longer compacted."""


@attrs.define
class Cleaning:
    """The cleaning of `log`, which `run` carries out once.

    `bytes_read` and `bytes_written` count the bytes before and after; `buffer_bytes` is the size of one read.
    """

    disk: Disk
    log: Log
    share: Cleanable
    offsets: OffsetMap
    pace: Pace
    buffer_bytes: int
    now_ms: int
    bytes_read: int = 0
    bytes_written: int = 0
    _truncations: int = 0

    async def run(self) -> int:
        """Clean the log; returns its new cleaned offset, which is after `share.first_dirty` unless nothing was dirty.

        The cleaned part must be durable and below the recovery point: a recovery would take its gaps for damage.

        Raises CleaningAborted, OSError, FsyncFailed, and WireError if a batch is damaged.
        """
        self._truncations = self.log.durability.truncations
        await self._look_up()
        self._check()
        for group in grouped(self._sources(self.offsets.end_offset), self.share.end, self.log.config):
            await self._clean(group)
        self._check()
        return self.offsets.end_offset

    def _sources(self, end_offset: int) -> list[Segment]:
        return [segment for segment in self.log.segments if segment.base_offset < end_offset]

    async def _rest(self) -> None:
        await self.pace.rest()
        self._check()

    def _check(self) -> None:
        log = self.log
        if log.failure is not None or log.durability.truncations != self._truncations or not log.config.compact_enabled:
            raise CleaningAborted

    # The last offset of each key

    async def _look_up(self) -> None:
        """Fill the map from `first_dirty` on, until it is full."""
        first_dirty, offsets = self.share.first_dirty, self.offsets
        offsets.end_offset = first_dirty
        sources = self._sources(self.share.end)
        ends = [segment.base_offset for segment in sources[1:]] + [self.share.end]
        for segment, end in zip(sources, ends, strict=False):
            if end > first_dirty:
                await self._look_up_in(segment)
                if offsets.is_full and offsets.end_offset < end:
                    return
                offsets.end_offset = end

    async def _look_up_in(self, segment: Segment) -> None:
        found = segment.find(self.share.first_dirty)
        position = segment.written if found is None else found.position
        for header, piece, at in read_batches(segment.file, position, segment.written, self.buffer_bytes):
            if not header.attributes & NOT_COMPACTED:
                await self._look_up_keys(header, piece, at)
                if self.offsets.is_full and self.offsets.end_offset <= header.last_offset:
                    return
            self.offsets.end_offset = max(header.next_offset, self.share.first_dirty)
            if self.pace.is_tired(header.size, 1):
                await self._rest()

    async def _look_up_keys(self, header: BatchHeader, piece: bytes, at: int) -> None:
        base_offset, first_dirty, offsets = header.base_offset, self.share.first_dirty, self.offsets
        for records in records_in_portions(header, piece, at)[1]:
            for _, _, _, _, offset_delta, key, _ in records:
                if key is not None and base_offset + offset_delta >= first_dirty:
                    if offsets.is_full:
                        return
                    offsets.put(key, base_offset + offset_delta)
                    offsets.end_offset = base_offset + offset_delta + 1
            if self.pace.is_tired(0, len(records)):
                await self._rest()

    # The remaining records

    async def _clean(self, group: list[Segment]) -> None:
        self._check()
        log = self.log
        cleaned = CleanedSegment(self.disk, log.directory, group[0].base_offset, log.config)
        is_in_place = False
        try:
            retention = self._retention()
            for segment in group:
                await self._clean_into(cleaned, segment, retention)
            await cleaned.finish()
            self._check()
            if any(log.segments.index(segment) is None for segment in group):
                raise CleaningAborted  # retention has deleted a segment
            log.replace_segments(group)
            is_in_place = True
        finally:
            if not is_in_place:
                await cleaned.discard()
        self.bytes_read += sum(segment.size_bytes for segment in group)
        self.bytes_written += cleaned.size_bytes
        await self.disk.sync_dir(log.directory)

    def _retention(self) -> Retention:
        return Retention(
            self.offsets,
            self.now_ms,
            self.log.config.delete_retention_ms,
            self.share.end,
            self.log.producers.last_offsets(),
        )

    async def _clean_into(self, cleaned: CleanedSegment, segment: Segment, retention: Retention) -> None:
        staged_from, written = b"", 0
        for header, piece, at in read_batches(segment.file, 0, segment.written, self.buffer_bytes):
            if piece is not staged_from:  # staged batches would keep all pieces in memory
                staged_from, written = piece, cleaned.write()
            batch = memoryview(piece)[at : at + header.size]
            if not retention.keeps_whole(header):
                batch = await self._cleaned(header, batch, piece, at, retention)
            if batch:
                cleaned.append(batch)
            if self.pace.is_tired(header.size + written, 1):
                await self._rest()
            written = 0
        if self.pace.is_tired(cleaned.write(), 0):
            await self._rest()

    async def _cleaned(
        self, header: BatchHeader, batch: memoryview, piece: bytes, at: int, retention: Retention
    ) -> memoryview:
        kept: list[RawRecord] = []
        data, portions = records_in_portions(header, piece, at)
        for records in portions:
            kept += retention.keeps_of(header, records)
            if self.pace.is_tired(0, len(records)):
                await self._rest()
        return retention.rebuilt(header, batch, data, kept)
