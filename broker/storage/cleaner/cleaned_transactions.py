"""Follows the transactions of the batches that a compaction reads (KIP-98, KIP-534).

Aborted records are removed. An end marker stays as long as a batch of its transaction does, even one without records:
without its marker, a transaction would be open for ever. Then it gets a delete horizon, like a tombstone, since a
consumer or follower that has read the records must still find their marker.
"""

from collections.abc import Iterable

from broker.storage.transaction_index import AbortedTransaction
from broker.wire.records import BatchHeader, iter_records
from broker.wire.records.batch import Buffer
from broker.wire.records.control import ControlRecordType, control_type


class CleanedTransactions:
    """The transactions up to the last batch that was passed to it. Batches must come in the order of the log.

    `aborted` are all aborted transactions with records among the batches.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, key=lambda entry: -entry.first_offset)  # the next one is the last
        self._open_aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()  # the producers whose open transaction has batches
        self._retained: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a transactional data batch belongs to an aborted transaction, so that its records can be removed."""
        self._begin_up_to(header.last_offset)
        self._with_batches.add(header.producer_id)
        return header.producer_id in self._open_aborted

    def is_obsolete(self, header: BatchHeader, batch: Buffer, at: int) -> bool:
        """Whether no batch is left of the transaction that a control batch ends. Raises InvalidRecord, CorruptBatch."""
        self._begin_up_to(header.last_offset)
        for record in iter_records(batch, at, header):
            kind = control_type(record.key)
            if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
                return False
            has_batches = header.producer_id in self._with_batches
            self._with_batches.discard(header.producer_id)
            if kind is ControlRecordType.ABORT:
                entry = self._open_aborted.pop(header.producer_id, None)
                if entry is not None and has_batches:
                    self._retained.append(entry)
            return not has_batches
        return True  # a marker that was removed, of which only the batch is left

    def take_retained(self) -> list[AbortedTransaction]:
        """The aborted transactions that ended since the last call, and of which batches were left."""
        retained, self._retained = self._retained, []
        return retained

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            entry = self._to_come.pop()
            self._open_aborted.setdefault(entry.producer_id, entry)
