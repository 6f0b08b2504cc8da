"""Rebuilds a partition's producer states from its log: from the newest snapshot, then batch by batch."""

import contextlib
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.storage.batch_scan import find_intact, scan_headers
from broker.storage.indexed_search import indexed_position
from broker.storage.log_config import MAX_LONG, LogConfig
from broker.storage.producer_snapshots import (
    CorruptSnapshot,
    ProducerEntry,
    ProducerSnapshots,
    decode_snapshot,
    snapshot_offset,
)
from broker.storage.producer_state import CompletedTransaction, ProducerStates
from broker.storage.segment import Segment
from broker.storage.segment_list import SegmentList
from broker.storage.transaction_index import TRANSACTION_INDEX_VERSION, AbortedTransaction
from broker.storage.validation import check_message_size, check_segment_size
from broker.storage.whole_file import try_to_read
from broker.wire.errors import WireError
from broker.wire.records import BatchHeader, CorruptBatch, iter_records, read_end_transaction_marker, read_header
from broker.wire.records.batch import Buffer
from kraft import lazy_attrs
from kraft.env import Disk, Tracer

# The path of a segment's file, its base offset, and the end of its batches in the file.
SegmentRange: TypeAlias = tuple[str, int, int]


def load_producers(
    producers: ProducerStates,
    segments: SegmentList,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    trace: Tracer,
    damaged_from: int | None = None,
) -> None:
    """Make `producers` and the transaction indexes match a log that was opened or truncated. Raises OSError.

    Records before the log's start are replayed as far as their segment is there. Otherwise producers all of whose
    records were deleted would be forgotten, as Kafka forgets them, and their retries would be stored again.

    A malformed transaction marker is skipped, so that its transaction stays open. Damaged batches are skipped, too;
    `incomplete_from` of the snapshots has the first one, which may be known before as `damaged_from`. Both are traced.
    """
    producers.snapshots.incomplete_from = damaged_from
    damaged = [each.base_offset for each in segments if each.transaction_index.is_damaged(each.base_offset)]
    if damaged:  # their entries are rebuilt from a snapshot before them
        producers.snapshots.retain_within(segments.first_offset, damaged[0])
        trace("storage_transaction_index_corrupt", path=segments.active.directory, from_offset=damaged[0])
    offset = producers.truncate_and_reload(segments.first_offset, log_end_offset, now_ms=now_ms)
    for segment in segments.since(offset):
        segment.transaction_index.truncate_to(offset)
    if offset < log_end_offset:
        replay(producers, segments.since(offset), offset, log_start_offset, trace)


def replay(
    producers: ProducerStates, segments: Sequence[Segment], offset: int, log_start_offset: int, trace: Tracer
) -> None:
    """Apply every batch from `offset` on to `producers` and to the transaction indexes, which must end at `offset`.

    Raises OSError.
    """
    for segment in segments:
        replayed = _SegmentReplay(producers, segment, max(offset, segment.base_offset), log_start_offset, trace)
        try:
            replayed.run()
        finally:
            segment.transaction_index.extend(replayed.aborted)


@lazy_attrs.define
class _SegmentReplay:
    """The replay of the batches of a segment from `next_offset` on."""

    producers: ProducerStates
    segment: Segment
    next_offset: int
    log_start_offset: int
    trace: Tracer
    aborted: list[AbortedTransaction] = attrs.field(factory=list)
    _position: int = 0

    def run(self) -> None:
        """Replay the batches, without those that are damaged. Raises OSError."""
        segment = self.segment
        try:
            found = segment.find(self.next_offset)
        except CorruptBatch as error:
            self._position = indexed_position(segment.file, segment.loaded_index(), self.next_offset - 1)
            self._skip(error)
        else:
            self._position = segment.written if found is None else found.position
        while self._position < segment.written:
            try:
                for position, header in scan_headers(segment.file, self._position, segment.written):
                    self._apply(position, header)
            except CorruptBatch as error:
                self._skip(error)

    def _apply(self, position: int, header: BatchHeader) -> None:
        if header.last_offset >= self.next_offset and header.producer_id >= 0:
            batch = self.segment.file.read(position, header.size) if header.is_control else b""
            self.aborted += replay_or_trace(self.producers, header, batch, self.segment.directory, self.trace)
        self._position, self.next_offset = position + header.size, max(header.next_offset, self.next_offset)

    def _skip(self, error: CorruptBatch) -> None:
        """Go on after a damaged batch. One before the log's start is never repaired, so the states do without it."""
        segment, snapshots = self.segment, self.producers.snapshots
        found = find_intact(segment.file, self._position, segment.written, segment.loaded_index().values)
        self._position = segment.written if found is None else found.position
        if found is not None and found.header.base_offset <= self.log_start_offset:
            return
        self.trace("storage_replay_incomplete", path=segment.directory, error=str(error))
        first, known = max(self.next_offset, self.log_start_offset), snapshots.incomplete_from
        snapshots.incomplete_from = first if known is None else min(first, known)


def replay_or_trace(
    producers: ProducerStates, header: BatchHeader, batch: Buffer, directory: str, trace: Tracer
) -> Sequence[AbortedTransaction]:
    """As `replay_batch`, but a malformed transaction marker is only traced: its transaction stays open."""
    try:
        return replay_batch(producers, header, batch)
    except WireError as error:
        offset, producer_id = header.base_offset, header.producer_id
        trace("storage_marker_malformed", path=directory, offset=offset, producer_id=producer_id, error=str(error))
        return ()


def check_coordinator_batch(
    producers: ProducerStates, batch: memoryview, config: LogConfig, transaction_version: int
) -> BatchHeader:
    """Check whether a coordinator may append this batch, and return its header.

    Only producers' batches are also checked record by record, bounded in their content, and adapted to the topic.
    Raises KafkaError INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    check_message_size(len(batch), config, producers.partition)
    check_segment_size(len(batch), config, producers.partition)
    header = read_header(batch)
    if header.producer_id < 0:
        return header
    if not header.is_control:
        producers.check_epoch(header)
        return header
    for record in iter_records(batch, 0, header):
        marker = read_end_transaction_marker(record)
        assert marker is not None, "a coordinator writes no other control records"
        producers.check_marker(header, marker.coordinator_epoch, transaction_version)
    return header


def replay_batch(producers: ProducerStates, header: BatchHeader, batch: Buffer) -> Sequence[AbortedTransaction]:
    """Apply one batch of the log that has a producer id. `batch` is only read if it is a control batch.

    Returns the aborted transaction that it ends, for the transaction index of its segment. Raises WireError for a
    malformed transaction marker.
    """
    if not header.is_control:
        producers.update(header)
        return ()
    aborted: list[AbortedTransaction] = []
    for record in iter_records(batch, 0, header):
        marker = read_end_transaction_marker(record)
        if marker is not None:
            completed = producers.end_transaction(
                header,
                coordinator_epoch=marker.coordinator_epoch,
                aborted=not marker.is_commit,
                timestamp=record.timestamp,
            )
            if completed is not None:
                if completed.aborted:
                    aborted.append(_aborted(completed, producers.last_stable_offset_after(completed)))
                producers.complete(completed)
    return aborted


def _aborted(completed: CompletedTransaction, last_stable_offset: int) -> AbortedTransaction:
    return AbortedTransaction(
        TRANSACTION_INDEX_VERSION,
        completed.producer_id,
        completed.first_offset,
        completed.last_offset,
        last_stable_offset,
    )


def replay_from_snapshot(
    disk: Disk, directory: str, segments: Sequence[SegmentRange], snapshots: Sequence[str], offset: int
) -> list[ProducerEntry]:
    """The states of the producers before `offset`, from the last readable snapshot and the batches after it.

    `segments` are those that begin before `offset`, and `snapshots` the paths of the snapshots that may be used, both
    ascending. May be called in a thread, as it uses nothing of a log. Raises OSError, WireError.
    """
    snapshot_files = ProducerSnapshots(disk, directory, (), discard=lambda path: None, trace=_ignore)
    producers = ProducerStates(snapshot_files, partition=directory, expiration_ms=MAX_LONG)
    begin = 0
    for path in reversed(snapshots):
        with contextlib.suppress(CorruptSnapshot):
            producers.restore(decode_snapshot(try_to_read(disk, path).content or b""))
            begin = snapshot_offset(path.rpartition("/")[2]) or 0
            break
    for at, (path, _, end) in enumerate(segments):
        if at + 1 == len(segments) or segments[at + 1][1] > begin:
            file = disk.open(path)
            try:
                for position, header in scan_headers(file, 0, end):
                    if begin <= header.base_offset < offset and header.producer_id >= 0:
                        batch = file.read(position, header.size) if header.is_control else b""
                        replay_or_trace(producers, header, batch, directory, _ignore)
            finally:
                file.close()
    return [state.entry() for state in producers.active()]


def _ignore(kind: str, /, **fields: object) -> None:
    """A malformed marker was traced when the log was opened."""
