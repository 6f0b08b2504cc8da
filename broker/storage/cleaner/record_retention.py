"""Decides which records of a batch stay in a compacted log, by the rules of Kafka's Cleaner.

A record stays if no later record in the mapped part of the log has its key. A tombstone, a record without a value, is
removed some time later, so that a consumer that is reading the log from its start still sees it. The first compaction
that finds the tombstone stores in its batch the time at which it may be removed, the delete horizon (KIP-534).

Records of transactions and their markers always stay. They could only be compacted once it is known which transactions
were aborted.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from broker.storage.cleaner.offset_map import OffsetMap
from broker.wire.records import BatchHeader
from broker.wire.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from broker.wire.records.raw import RawRecord, batch_of_none, batch_of_some

# The attributes of transactional batches and of markers.
NOT_COMPACTED: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG


@attrs.frozen
class RecordRetention:
    """The rules of one compaction, which began at `now_ms`.

    `round_end` is the end of the part that can be cleaned. The batch before it stays, perhaps without records, so that
    the log's end does not move. `last_offsets` has the last offset of each producer's last batch, which stays in the
    same way: it has the sequence number from which the producer continues.
    """

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    round_end: int
    last_offsets: Mapping[int, int]

    def retains_batch(self, header: BatchHeader) -> bool:
        """Whether the batch stays unchanged, so that its records need not be read."""
        return bool(header.attributes & NOT_COMPACTED) or header.base_offset >= self.offsets.end_offset

    def retained_records(self, header: BatchHeader, records: Sequence[RawRecord]) -> list[RawRecord]:
        """The records among these of the batch that stay."""
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

    def rebuild(self, header: BatchHeader, batch: memoryview, data: bytes, kept: Sequence[RawRecord]) -> memoryview:
        """The batch with only the `kept` records, whose bytes are in `data`; empty if the batch need not stay."""
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
