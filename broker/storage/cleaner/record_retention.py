"""Decides which records of a batch stay in a compacted log, by the rules of Kafka's Cleaner.

A record stays if no later record in the mapped part of the log has its key. A tombstone, a record without a value, is
removed some time later, so that a consumer that is reading the log from its start still sees it. The first compaction
that finds the tombstone stores in its batch the time at which it may be removed, the delete horizon (KIP-534).

Records of aborted transactions are removed, those of committed ones are treated like any other. End markers get a
delete horizon too, once no batch of their transaction is left (`compaction`).
"""

from collections.abc import Mapping, Sequence

from broker.storage.cleaner.offset_map import OffsetMap
from broker.storage.producer_state import LastOfProducer
from broker.wire.records import BatchHeader
from broker.wire.records.raw import RawRecord, batch_of_records, empty_batch
from kraft import lazy_attrs


@lazy_attrs.frozen
class RecordRetention:
    """The rules of one compaction, which began at `now_ms`.

    `round_end` is the end of the part that can be cleaned. The batch before it stays, perhaps without records, so that
    the log's end does not move. `last_of_producers` tells the last batch of each producer by its id. That stays in the
    same way: a data batch has the sequence number from which the producer continues, a marker the producer's epoch.
    """

    offsets: OffsetMap
    now_ms: int
    delete_retention_ms: int
    round_end: int
    last_of_producers: Mapping[int, LastOfProducer]

    def retains_batch(self, header: BatchHeader) -> bool:
        """Whether the batch stays unchanged, so that its records need not be read."""
        return header.base_offset >= self.offsets.end_offset

    def retained_marker(
        self, header: BatchHeader, batch: memoryview, data: bytes, records: Sequence[RawRecord], *, is_obsolete: bool
    ) -> memoryview:
        """The rest of a control batch, whose records are in `data`.

        `is_obsolete` says that no batch of its transaction is left.
        """
        if not is_obsolete:
            return batch
        horizon = header.delete_horizon_ms
        if not records or (horizon is not None and horizon <= self.now_ms):
            return self.without_records(header, batch)
        if horizon is not None:
            return batch
        return memoryview(batch_of_records(header, data, records, self.now_ms + self.delete_retention_ms))

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
            return self.without_records(header, batch)
        needs_horizon = header.delete_horizon_ms is None and not all(record[6] for record in kept)
        if len(kept) == header.count and not needs_horizon:
            return batch
        horizon = self.now_ms + self.delete_retention_ms if needs_horizon else None
        return memoryview(batch_of_records(header, data, kept, horizon))

    def without_records(self, header: BatchHeader, batch: memoryview) -> memoryview:
        """The rest of a batch that loses all its records; empty if the batch need not stay."""
        if header.next_offset == self.round_end or self._is_last_of_producer(header):
            return memoryview(empty_batch(header)) if header.count else batch
        return batch[:0]

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.last_of_producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.data_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.data_offset
