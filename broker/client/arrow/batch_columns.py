"""Header fields of many batches, repeated for each of their records: base offsets, timestamps and timestamp types."""

from collections.abc import Sequence
from typing import Any, Final

import attrs

from broker.client.arrow.byte_views import Int64s
from broker.client.arrow.libraries import np, pa
from broker.client.arrow.schema import TIMESTAMP_TYPE
from broker.wire.records import BatchHeader, CorruptBatch, InvalidTimestamp, TimestampType
from broker.wire.records.batch import SEQUENCE_MAX

_MICROSECONDS_PER_MS: Final = 1000
_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // _MICROSECONDS_PER_MS


@attrs.frozen(eq=False)
class ProducerColumns:
    """For each record, its batch's producer id, epoch and base sequence (KIP-98). They are negative without a producer.

    Made only where a column of them is asked for: other reads do not pay for it.
    """

    ids: Int64s
    epochs: Int64s
    base_sequences: Int64s

    @classmethod
    def of(cls, headers: Sequence[BatchHeader]) -> "ProducerColumns":
        """The columns for all records of these batches."""
        counts = [header.count for header in headers]
        table = [(header.producer_id, header.producer_epoch, header.base_sequence) for header in headers]
        return cls(*np.repeat(np.array(table, np.int64).T, counts, axis=1))

    def of_rows(self, rows: slice) -> "ProducerColumns":
        return ProducerColumns(self.ids[rows], self.epochs[rows], self.base_sequences[rows])

    def column(self, name: str, offset_deltas: Int64s) -> Any:
        """The Arrow array of one of the columns.

        Sequence numbers count as offsets do, also where compaction has removed records of the batch. They wrap from
        2^31 - 1 to 0.
        """
        has_none = self.ids < 0
        match name:
            case "producerId":
                return pa.array(self.ids, mask=has_none)
            case "producerEpoch":
                return pa.array(self.epochs.astype(np.int32), mask=has_none)
        assert name == "sequence", "the columns are those of the schema"
        sequences = (self.base_sequences + offset_deltas) & SEQUENCE_MAX
        return pa.array(sequences.astype(np.int32), mask=has_none | (self.base_sequences < 0))


@attrs.frozen(eq=False)
class BatchColumns:
    """Header fields for each record: its batch's base offset, last offset delta, leader epoch, base timestamp and type.

    With LOG_APPEND_TIME the base timestamp is the record's timestamp, and deltas are ignored. `producers` is None
    unless one of its columns is requested.
    """

    base_offsets: Int64s
    last_offset_deltas: Int64s
    leader_epochs: Int64s
    base_timestamps: Int64s
    types: Int64s
    producers: ProducerColumns | None

    @classmethod
    def of(cls, headers: Sequence[BatchHeader], *, has_producers: bool) -> "BatchColumns":
        """The columns for all records of these batches."""
        counts = [header.count for header in headers]
        table = [
            (
                header.base_offset,
                header.last_offset_delta,
                header.partition_leader_epoch,
                _base_timestamp(header),
                header.timestamp_type,
            )
            for header in headers
        ]
        offsets, last_deltas, epochs, timestamps, types = np.repeat(np.array(table, np.int64).T, counts, axis=1)
        producers = ProducerColumns.of(headers) if has_producers else None
        return cls(offsets, last_deltas, epochs, timestamps, types, producers)

    def of_rows(self, rows: slice) -> "BatchColumns":
        return BatchColumns(
            self.base_offsets[rows],
            self.last_offset_deltas[rows],
            self.leader_epochs[rows],
            self.base_timestamps[rows],
            self.types[rows],
            None if self.producers is None else self.producers.of_rows(rows),
        )

    def offsets(self, deltas: Int64s) -> Int64s:
        """The offset of each record. Raises CorruptBatch if one lies outside of its batch's range."""
        if (deltas < 0).any() or (deltas > self.last_offset_deltas).any():
            raise CorruptBatch("A record's offset lies outside of its batch's range")
        return self.base_offsets + deltas

    def timestamps(self, deltas: Int64s) -> Any:
        """The timestamp of each record, in microseconds. Raises InvalidTimestamp if one does not fit 64 bits."""
        deltas = np.where(self.types == TimestampType.LOG_APPEND_TIME, 0, deltas)
        times = self.base_timestamps + deltas
        # Sums that overflow differ in sign from both summands.
        has_overflowed = ((times ^ self.base_timestamps) & (times ^ deltas)) < 0
        if has_overflowed.any() or int(times.max()) > _TIMESTAMP_MS_MAX or int(times.min()) < -_TIMESTAMP_MS_MAX:
            raise InvalidTimestamp("A timestamp in ms does not fit 64 bits in microseconds; leave its column out")
        return pa.array(times * _MICROSECONDS_PER_MS).view(TIMESTAMP_TYPE)

    def timestamp_types(self) -> Any:
        return pa.array(self.types.astype(np.int32))


def _base_timestamp(header: BatchHeader) -> int:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    return header.base_timestamp
