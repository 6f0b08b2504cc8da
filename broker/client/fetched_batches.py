"""The batches in a Fetch response's partition: which of them hold records for the application.

Control batches never do. Under read_committed, batches of aborted transactions do not either: the response names each
aborted transaction's producer and first offset, and its abort marker in the log ends it (KIP-98).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from broker.wire.api.fetch import AbortedTransaction
from broker.wire.records import (
    BatchHeader,
    ControlRecordType,
    CorruptBatch,
    check_crc,
    control_type,
    iter_headers,
    iter_records,
)
from broker.wire.records.batch import Buffer

_OFFSET_MAX: Final = 2**63 - 1


def fetched_batches(
    buffer: Buffer,
    *,
    from_offset: int,
    aborted: Iterable[AbortedTransaction],
    read_committed: bool,
    is_crc_checked: bool,
) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Position and header of every whole batch, and whether records from `from_offset` on in it are to be delivered.

    A batch that the response's size limit has cut at the end is left out. Raises CorruptBatch and InvalidRecord at the
    batch that is damaged.
    """
    # The next one to begin comes last.
    following = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborted_producers: set[int] = set()
    for position, header in iter_headers(buffer):
        if is_crc_checked:
            check_crc(buffer, position, header)
        if not 0 <= header.base_offset <= header.last_offset < _OFFSET_MAX:
            raise CorruptBatch(f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}]")
        if header.count < 0:
            raise CorruptBatch(f"Invalid reported count for record batch: {header.count}")
        is_visible = header.last_offset >= from_offset and header.count > 0 and not header.is_control
        if read_committed and header.has_producer_id:
            while following and following[-1].first_offset <= header.last_offset:
                aborted_producers.add(following.pop().producer_id)
            if header.is_control:
                if _ends_aborted_transaction(buffer, position, header):
                    aborted_producers.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in aborted_producers:
                is_visible = False
        yield position, header, is_visible


def _ends_aborted_transaction(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """True for an abort marker. The log cleaner may have emptied a marker's batch: that one ends nothing."""
    marker = next(iter_records(buffer, position, header), None)
    return marker is not None and control_type(marker.key) is ControlRecordType.ABORT


def check_offset_deltas(header: BatchHeader, least: int, greatest: int) -> None:
    """Raises CorruptBatch if a record's offset lies outside of its batch's range."""
    if least < 0 or greatest > header.last_offset_delta:
        raise CorruptBatch(
            f"A record's offset lies outside of its batch's range [{header.base_offset}, {header.last_offset}]"
        )
