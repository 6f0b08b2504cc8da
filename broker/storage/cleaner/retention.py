"""What of a batch stays when its log is cleaned, by the rules of Kafka's Cleaner.

A record stays if no later one in the part that was looked through has its key. A tombstone, which is a record without
a value, has to stay for a while even then, so that who reads the log from its start meanwhile hears of it: the first
cleaning that meets it notes in its batch when it may go, the delete horizon (KIP-534).

What transactions have written stays, and so do their markers: which of it was aborted has to be known first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from broker.storage.cleaner.offset_map import OffsetMap
from broker.wire.records import BatchHeader
from broker.wire.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from broker.wire.records.raw import RawRecord, batch_of_none, batch_of_some

# Batches of transactions and their markers.
NOT_COMPACTED: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG


@attrs.frozen
class Retention:
    """The rules of one cleaning, which began at `now_ms`.

    `round_end` is the end of what could be cleaned: the batch before it stays, if need be without records, so that the
    log is not shorter than it was. `last_offsets` has the end of each producer's last batch, which stays likewise: it
    has the sequence number that the producer goes on from.
    """

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    round_end: int
    last_offsets: Mapping[int, int]

    def keeps_whole(self, header: BatchHeader) -> bool:
        """Whether there is no need to look into the batch."""
        return bool(header.attributes & NOT_COMPACTED) or header.base_offset >= self.offsets.end_offset

    def keeps_of(self, header: BatchHeader, records: Sequence[RawRecord]) -> list[RawRecord]:
        """Which of these records of the batch stay."""
        base_offset, end_offset, last_offset = header.base_offset, self.offsets.end_offset, self.offsets.last_offset
        horizon = header.delete_horizon_ms
        keeps_tombstones = horizon is None or self.now_ms < horizon
        kept = []
        for record in records:
            _, _, _, _, offset_delta, key, has_value = record
            offset = base_offset + offset_delta
            if offset >= end_offset or (
                key is not None and offset >= last_offset(key) and (has_value or keeps_tombstones)
            ):
                kept.append(record)
        return kept

    def rebuilt(self, header: BatchHeader, batch: memoryview, data: bytes, kept: Sequence[RawRecord]) -> memoryview:
        """The batch with these of its records, which stand in `data`; empty if nothing of it has to stay."""
        if not kept:
            return self._without_records(header, batch)
        needs_horizon = header.delete_horizon_ms is None and not all(record[6] for record in kept)
        if len(kept) == header.count and not needs_horizon:
            return batch
        horizon = self.now_ms + self.delete_retention_ms if needs_horizon else None
        return memoryview(batch_of_some(header, data, kept, horizon))

    def _without_records(self, header: BatchHeader, batch: memoryview) -> memoryview:
        is_last_of_producer = header.has_producer_id and self.last_offsets.get(header.producer_id) == header.last_offset
        if is_last_of_producer or header.next_offset == self.round_end:
            return memoryview(batch_of_none(header)) if header.count else batch
        return batch[:0]
