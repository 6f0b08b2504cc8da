"""Finds the aborted transactions among some records that a read_committed consumer fetches (KIP-98)."""

from broker.storage.log import Log, LogSlice, unreadable
from broker.storage.transaction_index import AbortedTransaction, CorruptTransactionIndex
from broker.wire.records import CorruptBatch


def aborted_transactions(log: Log, found: LogSlice, offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in `found`, which begins at `offset`; it may list a few more.

    `end_offset` is the last stable offset up to which the consumer may read. Raises KafkaError KAFKA_STORAGE_ERROR.
    """
    aborted: list[AbortedTransaction] = []
    try:
        for segment in log.segments.since(offset):
            entries = segment.transaction_index.since(offset)
            if entries and segment is found.segment and found.position + found.size < segment.written:
                end_offset = min(end_offset, segment.offset_after(found.position + found.size))
            for entry in entries:
                if entry.first_offset < end_offset:
                    aborted.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return aborted
            if segment.base_offset >= end_offset:
                return aborted
    except (OSError, CorruptBatch, CorruptTransactionIndex) as error:
        raise unreadable(log.partition, error) from error
    return aborted
