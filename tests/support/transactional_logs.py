"""Logs with transactions, and a consumer with read_committed that reads them as Kafka's does."""

import heapq
from collections.abc import Sequence
from typing import Any

from broker.storage.aborted_transactions import aborted_transactions
from broker.storage.log import Log
from broker.storage.transaction_index import AbortedTransaction
from broker.wire.records import EndTransactionMarker, Record, encode_batch, encode_end_transaction_marker, iter_headers
from broker.wire.records import iter_records as records_of
from broker.wire.records.control import ControlRecordType, control_type
from tests.support.logs import NOW_MS, slice_bytes


def append_transactional(
    log: Log, producer_id: int, *pairs: tuple[bytes | None, bytes | None], epoch: int = 0, now_ms: int = NOW_MS
) -> int:
    """Append one batch of a transaction and commit the log. Returns its first offset."""
    state = log.producers.get(producer_id)
    sequence = 0 if state is None or state.epoch != epoch else state.next_sequence
    encoded = encode_batch(
        [Record(timestamp=now_ms, key=key, value=value) for key, value in pairs],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    info = log.append(memoryview(bytearray(encoded)), leader_epoch=0, now_ms=now_ms)
    log.commit()
    return info.first_offset


def append_marker(
    log: Log,
    producer_id: int,
    *,
    is_commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    now_ms: int = NOW_MS,
) -> int:
    """Append an end marker as the coordinator does, and commit the log. Returns its offset."""
    marker = encode_end_transaction_marker(
        EndTransactionMarker(is_commit, coordinator_epoch),
        timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    info = log.append_as_coordinator(memoryview(bytearray(marker)), 0, now_ms, transaction_version=transaction_version)
    log.commit()
    return info.first_offset


class CommittedReader:
    """Reads `log` up to a last stable offset, without the records of transactions that the responses list as aborted.

    `listed_max` is the length of the longest list.
    """

    def __init__(self, log: Log, offset: int, *, max_bytes: int = 1 << 20) -> None:
        self.log = log
        self.offset = offset
        self.max_bytes = max_bytes
        self.records: list[Record] = []
        self.listed_max = 0

    def read_to(self, end_offset: int) -> list[Record]:
        while self.offset < end_offset and self._read(end_offset):
            pass
        return self.records

    def _read(self, end_offset: int) -> bool:
        found = self.log.read(self.offset, self.max_bytes, upper_bound=end_offset, min_one_batch=True)
        data = slice_bytes(found)
        if not data:
            return False
        aborted = aborted_transactions(self.log, found, self.offset, end_offset)
        self.listed_max = max(self.listed_max, len(aborted))
        first, kept = self.offset, _without_aborted(data, aborted)
        self.records += [record for record in kept if record.offset >= first]
        self.offset = [header for _, header in iter_headers(data)][-1].next_offset
        return True


def _without_aborted(data: bytes, aborted: Sequence[AbortedTransaction]) -> list[Record]:
    to_come = [(entry.first_offset, entry.producer_id) for entry in aborted]
    heapq.heapify(to_come)
    producers: set[int] = set()
    kept: list[Record] = []
    for at, header in iter_headers(data):
        while to_come and to_come[0][0] <= header.last_offset:
            producers.add(heapq.heappop(to_come)[1])
        records: list[Any] = list(records_of(data, at, header))
        if header.is_control:
            if records and control_type(records[0].key) is ControlRecordType.ABORT:
                producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in producers):
            kept += records
    return kept
