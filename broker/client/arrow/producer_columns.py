"""The columns about idempotent producers of many records: ids, epochs and sequence numbers (KIP-98)."""

from collections.abc import Sequence
from typing import Any

import attrs

from broker.client.arrow.byte_views import Int64s
from broker.client.arrow.libraries import np, pa
from broker.wire.records import BatchHeader
from broker.wire.records.batch import SEQUENCE_MAX


@attrs.frozen(eq=False)
class ProducerColumns:
    """For each record, its batch's producer id, epoch and base sequence. They are negative without a producer.

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
