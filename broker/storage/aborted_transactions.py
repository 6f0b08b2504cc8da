"""Finds the aborted transactions among some records, for read_committed consumers and for compaction (KIP-98)."""

from broker.storage.indexed_search import indexed_offset_after
from broker.storage.log import Log, LogSlice
from broker.storage.segment_list import SegmentList, unreadable
from broker.storage.transaction_index import AbortedTransaction, CorruptTransactionIndex
from broker.wire.records import CorruptBatch


def aborted_transactions(log: Log, found: LogSlice, offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in `found`, which begins at `offset`; it may list a few more.

    `end_offset` is the last stable offset, up to which the consumer may read. Raises KafkaError KAFKA_STORAGE_ERROR.
    """
    try:
        if all(segment.transaction_index.is_empty for segment in log.segments.since(offset)):
            return []
        return collect_aborted(log.segments, offset, _end_of(log.segments, found, end_offset))
    except CorruptTransactionIndex as error:
        if log.segments.on_suspect is not None:
            log.segments.on_suspect()
        raise unreadable(log.partition, error) from error
    except (OSError, CorruptBatch) as error:
        raise unreadable(log.partition, error) from error


def collect_aborted(segments: SegmentList, offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions with records between two offsets, the second of which is excluded.

    All transactions that begin before `end_offset` must have ended. Raises CorruptTransactionIndex, OSError.
    """
    aborted: list[AbortedTransaction] = []
    for segment in segments.since(offset):
        index = segment.transaction_index
        if index.is_empty:
            continue
        for entry in index.since(offset):
            if entry.first_offset < end_offset:
                aborted.append(entry)
            if entry.last_stable_offset >= end_offset:
                return aborted
    return aborted


def _end_of(segments: SegmentList, found: LogSlice, end_offset: int) -> int:
    """An offset after the records of `found`, near its end.

    Without this bound, a response would list the aborted transactions of the rest of the log.
    """
    segment, end = found.segment, found.position + found.size
    at = segments.index(segment)
    if at is not None and at + 1 < len(segments):
        end_offset = min(end_offset, segments[at + 1].base_offset)
    if end >= segment.written:
        return end_offset
    return min(end_offset, indexed_offset_after(segment.file, segment.loaded_index(), end))
