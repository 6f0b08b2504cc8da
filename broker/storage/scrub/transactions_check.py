"""Follows the transactions in a segment's batches, to compare its transaction index with them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.storage.producer_snapshots import ProducerEntry
from broker.storage.transaction_index import TRANSACTION_INDEX_VERSION, AbortedTransaction
from broker.wire.errors import WireError
from broker.wire.records import BatchHeader, iter_records, read_end_transaction_marker
from broker.wire.records.batch import TRANSACTIONAL_FLAG, Buffer

_UNKNOWN: Final = -1


def open_transactions(entries: Iterable[ProducerEntry]) -> dict[int, int]:
    """The first offsets of the open transactions of a producer snapshot, by producer id."""
    return {each.producer_id: each.current_txn_first_offset for each in entries if each.current_txn_first_offset >= 0}


class TransactionsCheck:
    """Replays the transactions of batches, which come in the order of the log.

    `open` are the first offsets of the open transactions by producer id. It `is_complete` if it was at the start of the
    segment; otherwise transactions may be open that began before. `aborted` are the transactions whose abort markers
    were passed; one whose begin is not known has first offset -1.
    """

    def __init__(self, opened: Mapping[int, int] | None) -> None:
        self.is_complete = opened is not None
        self.open = dict(opened or {})
        self.aborted: list[AbortedTransaction] = []

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Apply a batch that has a producer id. `batch` is only read if it is a control batch."""
        if not header.is_control:
            if header.attributes & TRANSACTIONAL_FLAG:
                self.open.setdefault(header.producer_id, header.base_offset)
            return
        try:
            for record in iter_records(batch, 0, header):
                marker = read_end_transaction_marker(record)
                if marker is not None:
                    self._end(header, is_commit=marker.is_commit)
        except WireError:
            return  # its transaction stays open, as in the states of the producers

    def _end(self, header: BatchHeader, *, is_commit: bool) -> None:
        first_offset = self.open.pop(header.producer_id, _UNKNOWN)
        if not is_commit and not (first_offset == _UNKNOWN and self.is_complete):
            last_stable_offset = min(self.open.values(), default=header.base_offset + 1)
            self.aborted.append(
                AbortedTransaction(
                    TRANSACTION_INDEX_VERSION,
                    header.producer_id,
                    first_offset,
                    header.base_offset,
                    last_stable_offset,
                )
            )

    def problem_of(self, entries: Sequence[AbortedTransaction], *, is_compacted: bool, end_offset: int) -> str:
        """The damage to the entries of a transaction index below `end_offset`, as text; "" if they are right.

        Compaction removes batches of aborted transactions, so that they may begin later than their entries say, and
        entries may be left.
        """
        stored = {each.last_offset: each for each in entries if each.last_offset < end_offset}
        is_exact = self.is_complete and not is_compacted
        for aborted in self.aborted:
            entry = stored.pop(aborted.last_offset, None)
            if entry is None:
                if aborted.first_offset == _UNKNOWN:
                    continue  # it may be the marker of a transaction without records
                return f"it lacks the transaction that is aborted at offset {aborted.last_offset}"
            begins = entry.first_offset == aborted.first_offset
            if not is_exact:
                begins = aborted.first_offset == _UNKNOWN or entry.first_offset <= aborted.first_offset
            is_stable = not is_exact or entry.last_stable_offset == aborted.last_stable_offset
            if entry.producer_id != aborted.producer_id or not begins or not is_stable:
                return f"the entry of offset {aborted.last_offset} differs from the batches"
        if stored and not is_compacted:
            return f"no transaction is aborted at offset {min(stored)}"
        return ""
