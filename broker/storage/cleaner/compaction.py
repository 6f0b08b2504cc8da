"""Compacts one log: finds the last offset of each key, writes the retained records, and swaps them in.

Only inactive, committed and flushed segments are cleaned, so that no power cut removes both a record and its
replacement. Meanwhile other tasks append to the log and read it. They may also truncate or delete it, which aborts
the compaction without loss, since a group of segments is replaced at once or not at all.

After a crash the log is as it was before the replacement, or as after it (`recovery`). The files of a group are durable
before they get the suffix `.swap`, which tells a restart that they are complete. The replaced segments are removed
after that, the oldest first.
"""

from collections.abc import Iterable, Sequence

from broker.storage.aborted_transactions import collect_aborted
from broker.storage.cleaner.cleaned_segment import CleanedSegment
from broker.storage.cleaner.log_to_clean import LogToClean
from broker.storage.cleaner.offset_map import OffsetMap
from broker.storage.cleaner.pacing import CleaningPacer
from broker.storage.cleaner.record_retention import RecordRetention
from broker.storage.cleaner.segment_reader import read_batches, records_in_portions
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from broker.storage.segment import Segment
from broker.storage.transaction_index import AbortedTransaction
from broker.wire.records import BatchHeader, iter_records
from broker.wire.records.batch import Buffer
from broker.wire.records.control import ControlRecordType, control_type
from broker.wire.records.raw import RawRecord
from kraft import lazy_attrs
from kraft.env import Disk


class _CleanedTransactions:
    """The transactions up to the last batch that was passed to it (KIP-98, KIP-534), in the order of the log.

    Aborted records are removed. An end marker stays as long as a batch of its transaction does, even one without
    records: without its marker, a transaction would be open for ever. Then it gets a delete horizon, like a tombstone,
    since a consumer or follower that has read the records must still find their marker. `aborted` are all aborted
    transactions with records among the batches.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda entry: -entry.first_offset)  # the next one is the last
        self._open_aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()  # the producers whose open transaction has batches
        self._retained: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a transactional data batch belongs to an aborted transaction, so that its records can be removed."""
        self._begin_up_to(header.last_offset)
        self._with_batches.add(header.producer_id)
        return header.producer_id in self._open_aborted

    def is_obsolete(self, header: BatchHeader, batch: Buffer, at: int) -> bool:
        """Whether no batch is left of the transaction that a control batch ends. Raises InvalidRecord, CorruptBatch."""
        self._begin_up_to(header.last_offset)
        for record in iter_records(batch, at, header):
            kind = control_type(record.key)
            if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                return False
            has_batches = header.producer_id in self._with_batches
            self._with_batches.discard(header.producer_id)
            if kind is ControlRecordType.ABORT:
                entry = self._open_aborted.pop(header.producer_id, None)
                if entry is not None and has_batches:
                    self._retained.append(entry)
            return not has_batches
        return True  # a marker that was removed, of which only the batch is left

    def take_retained(self) -> list[AbortedTransaction]:
        """The aborted transactions that ended since the last call, and of which batches were left."""
        retained, self._retained = self._retained, []
        return retained

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            entry = self._to_come.pop()
            self._open_aborted.setdefault(entry.producer_id, entry)


class CompactionAborted(Exception):
    """The log was truncated or deleted, damage was found in it, or its topic is no longer compacted."""


@lazy_attrs.define
class Compaction:
    """One compaction of `log`; `run` may be called once.

    `bytes_read` and `bytes_written` are the sizes of the segments before and after. `buffer_bytes` is the size of one
    read.
    """

    disk: Disk
    log: Log
    to_clean: LogToClean
    offsets: OffsetMap
    pacer: CleaningPacer
    buffer_bytes: int
    now_ms: int
    bytes_read: int = 0
    bytes_written: int = 0
    _truncations: int = 0

    async def run(self) -> int:
        """Clean the log; returns its new cleaned offset.

        It is after `to_clean.first_dirty` unless nothing was dirty.

        The cleaned part must be durable and below the recovery point: a recovery would take its gaps for damage.

        Raises CompactionAborted, OSError, FsyncFailed, and WireError if a batch is damaged.
        """
        self._truncations = self.log.durability.truncations
        await self._fill_map()
        self._check()
        transactions = self._transactions(self.log.segments.first_offset)
        for group in _group_segments(self._sources(self.offsets.end_offset), self.to_clean.end, self.log.config):
            await self._clean_group(group, transactions)
        self._check()
        return self.offsets.end_offset

    def _sources(self, end_offset: int) -> list[Segment]:
        return [segment for segment in self.log.segments if segment.base_offset < end_offset]

    def _transactions(self, offset: int) -> _CleanedTransactions:
        """The transactions of the batches from `offset` on; all of them have ended."""
        return _CleanedTransactions(collect_aborted(self.log.segments, offset, self.to_clean.end))

    async def _pause(self) -> None:
        await self.pacer.pause()
        self._check()

    def _check(self) -> None:
        log = self.log
        if log.failure is not None or log.durability.truncations != self._truncations or not log.config.compact_enabled:
            raise CompactionAborted
        if log.segments.damaged is not None:
            raise CompactionAborted

    # Filling the offset map

    async def _fill_map(self) -> None:
        """Map the keys from `first_dirty` on, until the map is full or all dirty segments are mapped."""
        first_dirty, offsets = self.to_clean.first_dirty, self.offsets
        offsets.end_offset = first_dirty
        sources = self._sources(self.to_clean.end)
        ends = [segment.base_offset for segment in sources[1:]] + [self.to_clean.end]
        transactions = self._transactions(first_dirty)
        for segment, end in zip(sources, ends, strict=False):
            if end > first_dirty:
                await self._map_segment(segment, transactions)
                if offsets.is_full and offsets.end_offset < end:
                    return
                offsets.end_offset = end

    async def _map_segment(self, segment: Segment, transactions: _CleanedTransactions) -> None:
        found = segment.find(self.to_clean.first_dirty)
        position = segment.written if found is None else found.position
        for header, piece, at in read_batches(segment.file, position, segment.written, self.buffer_bytes):
            if header.is_control:
                transactions.is_obsolete(header, piece, at)
            elif not (header.is_transactional and transactions.is_aborted(header)):
                await self._map_batch(header, piece, at)
                if self.offsets.is_full and self.offsets.end_offset <= header.last_offset:
                    return
            self.offsets.end_offset = max(header.next_offset, self.to_clean.first_dirty)
            if self.pacer.add_work(header.size, 1):
                await self._pause()

    async def _map_batch(self, header: BatchHeader, piece: bytes, at: int) -> None:
        base_offset, first_dirty, offsets = header.base_offset, self.to_clean.first_dirty, self.offsets
        for records in records_in_portions(header, piece, at)[1]:
            for _, _, _, _, offset_delta, key, _ in records:
                if key is not None and base_offset + offset_delta >= first_dirty:
                    if offsets.is_full:
                        return
                    offsets.put(key, base_offset + offset_delta)
                    offsets.end_offset = base_offset + offset_delta + 1
            if self.pacer.add_work(0, len(records)):
                await self._pause()

    # Writing the retained records

    async def _clean_group(self, group: list[Segment], transactions: _CleanedTransactions) -> None:
        self._check()
        log = self.log
        cleaned = CleanedSegment(self.disk, log.directory, group[0].base_offset, log.config)
        is_in_place = False
        try:
            retention = self._retention()
            for segment in group:
                await self._clean_segment(cleaned, segment, retention, transactions)
            # Also a segment that has lost all its records is retained as long as they would have been.
            retained_from_ms = max(min(segment.retention_timestamp, segment.file.modified_ms()) for segment in group)
            await cleaned.finish(transactions.take_retained(), retained_from_ms)
            self._check()
            if any(log.segments.index(segment) is None for segment in group):
                raise CompactionAborted  # retention has deleted a segment
            log.replace_segments(group)
            is_in_place = True
        finally:
            if not is_in_place:
                await cleaned.discard()
        self.bytes_read += sum(segment.size_bytes for segment in group)
        self.bytes_written += cleaned.size_bytes
        await self.disk.sync_dir(log.directory)

    def _retention(self) -> RecordRetention:
        return RecordRetention(
            self.offsets,
            self.now_ms,
            self.log.config.delete_retention_ms,
            self.to_clean.end,
            self.log.producers.last_of_producers(),
        )

    async def _clean_segment(
        self, cleaned: CleanedSegment, segment: Segment, retention: RecordRetention, transactions: _CleanedTransactions
    ) -> None:
        staged_from, written = b"", 0
        for header, piece, at in read_batches(segment.file, 0, segment.written, self.buffer_bytes):
            if piece is not staged_from:  # otherwise staged batches would keep all pieces in memory
                staged_from, written = piece, cleaned.write()
            batch = memoryview(piece)[at : at + header.size]
            if header.is_control:
                batch = self._clean_marker(header, batch, retention, transactions)
            elif header.is_transactional and transactions.is_aborted(header):
                batch = retention.without_records(header, batch)
            elif not retention.retains_batch(header):
                batch = await self._clean_batch(header, batch, piece, at, retention)
            if batch:
                cleaned.append(batch)
            if self.pacer.add_work(header.size + written, 1):
                await self._pause()
            written = 0
        if self.pacer.add_work(cleaned.write(), 0):
            await self._pause()

    def _clean_marker(
        self, header: BatchHeader, batch: memoryview, retention: RecordRetention, transactions: _CleanedTransactions
    ) -> memoryview:
        is_obsolete = transactions.is_obsolete(header, batch, 0)
        data, portions = records_in_portions(header, bytes(batch), 0)
        return retention.retained_marker(header, batch, data, next(iter(portions), []), is_obsolete=is_obsolete)

    async def _clean_batch(
        self, header: BatchHeader, batch: memoryview, piece: bytes, at: int, retention: RecordRetention
    ) -> memoryview:
        kept: list[RawRecord] = []
        data, portions = records_in_portions(header, piece, at)
        for records in portions:
            kept += retention.retained_records(header, records)
            if self.pacer.add_work(0, len(records)):
                await self._pause()
        return retention.rebuild(header, batch, data, kept)


def _group_segments(segments: Sequence[Segment], end_offset: int, config: LogConfig) -> list[list[Segment]]:
    """Groups of adjacent segments, each of which fits into one segment; the last group ends before `end_offset`.

    Compaction makes segments small, and few large files are better than many. Only sizes in bytes are compared: the
    interval of index entries bounds the size of an index by the size of its segment.
    """
    index_entries_max = config.segment_index_bytes // OffsetIndex.ENTRY.size
    size_max = min(config.segment_bytes, max(config.index_interval_bytes, 1) * index_entries_max)
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    groups: list[list[Segment]] = []
    size = 0
    for segment, end in zip(segments, ends, strict=False):
        fits = groups and size + segment.size_bytes <= size_max
        if fits and end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX:
            groups[-1].append(segment)
            size += segment.size_bytes
        else:
            groups.append([segment])
            size = segment.size_bytes
    return groups
