"""What the records of many batches have of their idempotent producers: ids, epochs and sequence numbers (KIP-98)."""

from collections.abc import Sequence
from typing import Any

import attrs

from broker.client.arrow.libraries import np, pa
from broker.client.arrow.octets import Int64s
from broker.wire.records import BatchHeader
from broker.wire.records.batch import SEQUENCE_MAX


@attrs.frozen(eq=False)
class ProducerColumns:
    """Of each record's batch: the producer's id and epoch, and the base sequence. They are negative without a producer.

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

    def producer_ids(self) -> Any:
        return pa.array(self.ids, mask=self.ids < 0)

    def producer_epochs(self) -> Any:
        return pa.array(self.epochs.astype(np.int32), mask=self.ids < 0)

    def sequences(self, offset_deltas: Int64s) -> Any:
        """The sequence numbers. They count as offsets do, also where compaction has removed records of the batch.

        They wrap from 2^31 - 1 to 0.
        """
        sequences = (self.base_sequences + offset_deltas) & SEQUENCE_MAX
        return pa.array(sequences.astype(np.int32), mask=(self.ids < 0) | (self.base_sequences < 0))
