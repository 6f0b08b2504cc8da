"""Reads batches of a log for share groups: their headers, and the range of the file that holds them."""

from collections.abc import Sequence
from typing import Final

from broker.net.reply import FileRange
from broker.share_partitions.acquisition import AcquiredRecords, FetchedBatch
from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.log import Log, LogSlice
from broker.storage.segment_list import unreadable
from broker.storage.transaction_index import AbortedTransaction
from broker.wire.records import HEADER_SIZE, BatchHeader, CorruptBatch, read_header
from kraft import lazy_attrs

# A read looks at this many headers at most, in about 2 ms. Consumers rarely ask for more records than that.
_BATCHES_MAX: Final = 1024
# Headers are read with the batches around them: most batches are smaller than this.
_CHUNK_BYTES: Final = 16 * 1024


@lazy_attrs.frozen
class BatchRead:
    """`batches` are whole batches; their positions count from the beginning of `slice`."""

    slice: LogSlice
    batches: Sequence[FetchedBatch]

    def range_of(self, acquired: Sequence[AcquiredRecords]) -> FileRange:
        """The range of the file from the first to the last batch with acquired records."""
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        needed = [batch for batch in self.batches if batch.last_offset >= first and batch.first_offset <= last]
        begin, end = needed[0].position, needed[-1].position + needed[-1].size
        return FileRange(self.slice.file, self.slice.position + begin, end - begin)


def read_batches(
    log: Log,
    offset: int,
    max_bytes: int,
    end_offset: int,
    *,
    last_wanted: int,
    min_one_batch: bool,
    is_read_committed: bool,
) -> BatchRead:
    """Read the headers of the batches from `offset` on, up to `end_offset`, and not beyond the offset `last_wanted`.

    Consumers ask for far more bytes than their records take: all headers in these bytes would cost more CPU time than
    the rest of the fetch. Batches of aborted transactions are read on top of the wanted ones.

    With `is_read_committed`, batches of aborted transactions are marked as such. Raises KafkaError as `Log.read` does.
    """
    found = log.read(offset, max_bytes, upper_bound=end_offset, min_one_batch=min_one_batch)
    if not found.size:
        return BatchRead(found, ())
    aborted = aborted_transactions(log, found, offset, end_offset) if is_read_committed else ()
    try:
        return BatchRead(found, _batches(found, aborted, last_wanted))
    except (OSError, CorruptBatch) as error:
        raise unreadable(log.partition, error) from error


def _batches(found: LogSlice, aborted: Sequence[AbortedTransaction], last_wanted: int) -> list[FetchedBatch]:
    """The whole batches of a slice up to the wanted offset; the end of the slice may cut the last one off."""
    batches: list[FetchedBatch] = []
    chunk, chunk_at, position = b"", 0, 0
    while found.size - position >= HEADER_SIZE and len(batches) < _BATCHES_MAX:
        if position + HEADER_SIZE > chunk_at + len(chunk):
            chunk_at = position
            chunk = found.file.read(found.position + position, min(_CHUNK_BYTES, found.size - position))
        header = read_header(chunk, position - chunk_at)
        if position + header.size > found.size:
            break
        is_aborted = bool(aborted) and _is_aborted(header, aborted)
        batches.append(FetchedBatch(header.base_offset, header.last_offset, is_aborted, position, header.size))
        position += header.size
        if is_aborted:
            last_wanted += header.last_offset - header.base_offset + 1
        elif header.last_offset >= last_wanted:
            break
    return batches


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    """True if the batch belongs to one of the aborted transactions, and is not the marker at its end."""
    return (
        header.is_transactional
        and not header.is_control
        and any(
            each.producer_id == header.producer_id and each.first_offset <= header.base_offset <= each.last_offset
            for each in aborted
        )
    )
