"""The states of a partition's producers, which detect retried batches of idempotent producers.

KIP-98 gives every idempotent producer an id and an epoch, and every batch a sequence number. The leader remembers the
last five batches of each producer. A batch with the same range of sequence numbers is a retry and gets the offsets of
the first attempt; any other batch must continue where the last one ended. A higher epoch starts again at sequence 0
(KIP-360), a lower one belongs to a fenced producer. An unknown producer, whose records were deleted or which was idle
for `producer.id.expiration.ms`, may continue with any sequence number.

The states can always be replayed from the log. Snapshots beside the segments, written when a segment is rolled and when
the log is closed, save most of that replay (`producer_snapshots`).
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

from broker.storage.producer_snapshots import ProducerEntry, ProducerSnapshots
from broker.storage.verifications import Verification
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCE_MAX, TRANSACTIONAL_FLAG, BatchHeader
from kraft import lazy_attrs

# A client keeps at most five requests in flight with idempotence on (KIP-98), so a retry is one of the last five.
CACHED_BATCHES_MAX = 5

NO_OFFSET = -1

# From this transaction.version on, every transaction has an epoch of its own (KIP-890).
_EPOCH_PER_TRANSACTION_FROM = 2

# (last sequence, last offset, offset delta, timestamp); a plain tuple, since one is made for every idempotent batch.
CachedBatch: TypeAlias = tuple[int, int, int, int]


@lazy_attrs.frozen
class Duplicate:
    """The offsets of a retried batch that is in the log already, and its largest timestamp in ms."""

    first_offset: int
    last_offset: int
    timestamp: int


@lazy_attrs.frozen
class CompletedTransaction:
    """A transaction that began at `first_offset` and whose end marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class LastOfProducer(NamedTuple):
    """A producer's last batch: its last data offset in its epoch, or None if only an end marker has that epoch."""

    data_offset: int | None
    epoch: int


class ProducerState:
    """One producer after its last batch. Its next batch in this epoch must begin with `next_sequence`."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.current_txn_first_offset = NO_OFFSET
        self.batches: list[CachedBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][0] if self.batches else NO_SEQUENCE

    def begin_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.next_sequence = 0
            self.batches.clear()

    def add(self, batch: CachedBatch) -> None:
        batches = self.batches
        batches.append(batch)
        if len(batches) > CACHED_BATCHES_MAX:
            del batches[0]
        self.next_sequence = (batch[0] + 1) & SEQUENCE_MAX
        self.last_timestamp = batch[3]

    def find_duplicate(self, base_sequence: int, last_sequence: int) -> Duplicate | None:
        for cached_last, last_offset, delta, timestamp in self.batches:
            if cached_last == last_sequence and (cached_last - delta) & SEQUENCE_MAX == base_sequence:
                return Duplicate(last_offset - delta, last_offset, timestamp)
        return None

    def entry(self) -> ProducerEntry:
        last_sequence, last_offset, delta, _ = self.batches[-1] if self.batches else (NO_SEQUENCE, NO_OFFSET, 0, -1)
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            last_sequence,
            last_offset,
            delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )

    @classmethod
    def from_entry(cls, entry: ProducerEntry) -> "ProducerState":
        state = cls(entry.producer_id)
        state.epoch = entry.epoch
        if entry.last_offset >= 0:
            state.add((entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp))
        state.last_timestamp = entry.timestamp
        state.coordinator_epoch = entry.coordinator_epoch
        state.current_txn_first_offset = entry.current_txn_first_offset
        return state


class ProducerStates:
    """All producers of one partition.

    The leader calls `check` before it appends a batch with a producer id, and `update` after it; a replay only calls
    `update`. End markers go through `end_transaction` and `complete`. `expiration_ms` is `producer.id.expiration.ms`
    and may be changed at any time.
    """

    __slots__ = ("_by_id", "_ongoing", "expiration_ms", "partition", "snapshots", "unreplicated", "verifications")

    def __init__(self, snapshots: ProducerSnapshots, *, partition: str, expiration_ms: int) -> None:
        self.snapshots = snapshots
        self.partition = partition  # "topic-0", for messages
        self.expiration_ms = expiration_ms
        self._by_id: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}  # first offset -> producer id; ascending, since offsets only grow
        # Ended transactions, perhaps with a marker at or after the high watermark: a heap of first and last offsets.
        self.unreplicated: list[tuple[int, int]] = []
        self.verifications: dict[int, Verification] = {}  # by producer id

    def __len__(self) -> int:
        return len(self._by_id)

    def active(self) -> Iterable[ProducerState]:
        """All known producers, in the order in which they appeared."""
        return self._by_id.values()

    def get(self, producer_id: int) -> ProducerState | None:
        return self._by_id.get(producer_id)

    def last_of_producers(self) -> dict[int, LastOfProducer]:
        """The last batch of each producer, by producer id."""
        return {
            state.producer_id: LastOfProducer(state.batches[-1][1] if state.batches else None, state.epoch)
            for state in self._by_id.values()
        }

    def check(self, header: BatchHeader) -> Duplicate | None:
        """Check whether a client's batch may be appended; returns its offsets if it is a duplicate, otherwise None.

        Raises KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE; the message
        contains `header.base_offset` as the offset that the batch would have got. Changes nothing.
        """
        state = self._by_id.get(header.producer_id)
        if state is None:
            if header.producer_epoch < NO_PRODUCER_EPOCH:
                raise self._old_epoch(header, NO_PRODUCER_EPOCH)
            return None
        if header.producer_epoch != state.epoch or header.base_sequence != state.next_sequence:
            duplicate = self._check_unexpected(header, state)
            if duplicate is not None:
                return duplicate
        if state.current_txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL_FLAG:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {state.producer_id} at offset {header.base_offset} "
                f"in partition {self.partition}",
            )
        return None

    def check_epoch(self, header: BatchHeader) -> None:
        """Check a coordinator's own batch, which has a producer id but no sequence numbers.

        Raises KafkaError INVALID_PRODUCER_EPOCH (since Kafka 2.7 not PRODUCER_FENCED: the client may retry).
        """
        state = self._by_id.get(header.producer_id)
        if state is not None and header.producer_epoch < state.epoch:
            raise self._old_epoch(header, state.epoch)

    def _old_epoch(self, header: BatchHeader, last_epoch: int) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {header.producer_id} at offset {header.base_offset} in {self.partition} is "
            f"{header.producer_epoch}, which is smaller than the last seen epoch {last_epoch}",
        )

    def update(self, header: BatchHeader) -> None:
        """Record a batch that is in the log at its final `base_offset`; `check` must have accepted it."""
        producer_id = header.producer_id
        state = self._by_id.get(producer_id)
        if state is None:
            state = self._by_id[producer_id] = ProducerState(producer_id)
        if header.producer_epoch != state.epoch:
            state.begin_epoch(header.producer_epoch)
        base_sequence = header.base_sequence
        delta = header.last_offset_delta
        last_sequence = (base_sequence + delta) & SEQUENCE_MAX if base_sequence >= 0 else NO_SEQUENCE
        base_offset = header.base_offset
        state.add((last_sequence, base_offset + delta, delta, header.max_timestamp))
        if header.attributes & TRANSACTIONAL_FLAG and state.current_txn_first_offset < 0:
            state.current_txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id
            self.verifications.pop(producer_id, None)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """True if the producer has written to the partition in a transaction of this epoch that has not ended."""
        state = self._by_id.get(producer_id)
        return state is not None and state.current_txn_first_offset >= 0 and state.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, has_own_epoch: bool
    ) -> Verification | None:
        """The verification to wait for before a batch may begin a transaction; None if the transaction is open.

        Raises KafkaError INVALID_PRODUCER_EPOCH for a producer that is fenced here: its coordinator is not asked.
        """
        state = self._by_id.get(producer_id)
        if state is not None and epoch < state.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {state.epoch}",
            )
        if self.has_open_transaction(producer_id, epoch):
            return None
        known = self.verifications.get(producer_id)
        if known is None or known.epoch < epoch:
            known = self.verifications[producer_id] = Verification(epoch, sequence, has_own_epoch=has_own_epoch)
        known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known

    def check_verified(self, producer_id: int, epoch: int, sequence: int, verification: Verification | None) -> None:
        """Check whether a transactional batch belongs to an open transaction, or may begin one.

        Raises KafkaError INVALID_TXN_STATE, or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if self.has_open_transaction(producer_id, epoch):
            return
        if verification is None or self.verifications.get(producer_id) is not verification:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        verification.check(producer_id, sequence, self.partition, is_known=producer_id in self._by_id)

    def check_marker(self, header: BatchHeader, coordinator_epoch: int, transaction_version: int = 0) -> None:
        """Check whether a coordinator may write this end marker.

        From transaction version 2 on, a marker has the epoch after that of its transaction. A marker of an earlier
        transaction could otherwise end the next one. It may only be repeated while no transaction is open
        (KAFKA-19999). Raises KafkaError INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        self.check_epoch(header)
        state = self._by_id.get(header.producer_id)
        if (
            state is not None
            and transaction_version >= _EPOCH_PER_TRANSACTION_FROM
            and header.producer_epoch == state.epoch
            and state.current_txn_first_offset >= 0
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {state.producer_id} at offset {header.base_offset} in {self.partition} is "
                f"{header.producer_epoch}, which is <= the last seen epoch {state.epoch} (TV{transaction_version})",
            )
        if state is not None and state.coordinator_epoch > coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {state.producer_id} at offset {header.base_offset} in "
                f"partition {self.partition}: {coordinator_epoch} (zombie), {state.coordinator_epoch} (current)",
            )

    def end_transaction(
        self, header: BatchHeader, *, coordinator_epoch: int, aborted: bool, timestamp: int
    ) -> CompletedTransaction | None:
        """Record an end marker that is in the log; returns its transaction, None if that has no records here.

        The caller writes the transaction to the transaction index, and then calls `complete`.
        """
        state = self._by_id.get(header.producer_id)
        if state is None:
            state = self._by_id[header.producer_id] = ProducerState(header.producer_id)
        first_offset = state.current_txn_first_offset
        verification = self.verifications.get(header.producer_id)
        if verification is not None and verification.is_ended_by(header.producer_epoch):
            del self.verifications[header.producer_id]
        state.begin_epoch(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = timestamp
        state.current_txn_first_offset = NO_OFFSET
        if first_offset < 0:
            return None
        return CompletedTransaction(header.producer_id, first_offset, header.base_offset, aborted)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset after `completed`, which the transaction index stores with it."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Record that a transaction has ended; it stays unstable until the high watermark has passed its marker."""
        self._ongoing.pop(completed.first_offset, None)  # a foreign snapshot may give two producers the same offset
        heappush(self.unreplicated, (completed.first_offset, completed.last_offset))

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Forget the ended transactions whose markers are below the high watermark, unless an earlier one is above."""
        unreplicated = self.unreplicated
        while unreplicated and unreplicated[0][1] < high_watermark:
            heappop(unreplicated)

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the first transaction that is open, or whose marker is not below the high watermark."""
        unreplicated = self.unreplicated[0][0] if self.unreplicated else None
        if not self._ongoing:
            return unreplicated
        ongoing = next(iter(self._ongoing))
        return ongoing if unreplicated is None else min(ongoing, unreplicated)

    def advance_log_start_offset(self, log_start_offset: int) -> None:
        """The records before this offset were deleted. Their producers stay known until they expire."""
        self.advance_high_watermark(log_start_offset)

    def expire(self, now_ms: int) -> None:
        """Forget producers without an open transaction whose last record is older than `expiration_ms`, and
        verifications after which no batch came for as long.
        """
        if self._by_id:
            expired = [state.producer_id for state in self._by_id.values() if self._is_expired(state, now_ms)]
            for producer_id in expired:
                del self._by_id[producer_id]
        if self.verifications:
            unused = [
                producer_id
                for producer_id, verification in self.verifications.items()
                if verification.has_expired(now_ms, self.expiration_ms)
            ]
            for producer_id in unused:
                del self.verifications[producer_id]

    def truncate_and_reload(self, first_offset: int, log_end_offset: int, *, now_ms: int) -> int:
        """Reload the newest snapshot within the log; returns the offset from which the log must be replayed.

        Called when a log is opened or truncated, whose first segment begins at `first_offset`. Snapshots outside
        [first, end] and corrupt ones are deleted. A snapshot does not tell of transactions that have ended, perhaps
        with a marker that is not replicated yet.
        """
        unreplicated = [each for each in self.unreplicated if each[1] < log_end_offset]
        self.clear()
        heapify(unreplicated)
        self.unreplicated = unreplicated
        self.snapshots.retain_within(first_offset, log_end_offset)
        offset, entries = self.snapshots.load_latest(default_offset=first_offset)
        self.restore(entries, now_ms=now_ms)
        return offset

    def restore(self, entries: Iterable[ProducerEntry], *, now_ms: int = 0) -> None:
        """Take the producers of a snapshot that have not expired."""
        for entry in entries:
            state = ProducerState.from_entry(entry)
            if not self._is_expired(state, now_ms):
                self._by_id[state.producer_id] = state
        ongoing = [state for state in self._by_id.values() if state.current_txn_first_offset >= 0]
        for state in sorted(ongoing, key=lambda state: state.current_txn_first_offset):
            self._ongoing[state.current_txn_first_offset] = state.producer_id

    def truncate_fully(self) -> None:
        """Forget everything and delete every snapshot."""
        self.clear()
        self.snapshots.delete_all()

    def clear(self) -> None:
        """Forget every producer and transaction; the snapshots stay."""
        self._by_id.clear()
        self._ongoing.clear()
        self.unreplicated.clear()
        self.verifications.clear()

    def take_snapshot(self, offset: int) -> None:
        """Write a snapshot of all batches below `offset`, unless one at or after it exists, or some are damaged.

        It is in the page cache then; `snapshots.sync` makes it durable. Raises OSError.
        """
        if offset > self.snapshots.latest_offset and self.snapshots.incomplete_from is None:
            self.snapshots.write(offset, [state.entry() for state in self._by_id.values()])

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        return state.current_txn_first_offset < 0 and now_ms - state.last_timestamp >= self.expiration_ms

    def _check_unexpected(self, header: BatchHeader, state: ProducerState) -> Duplicate | None:
        epoch, base_sequence = header.producer_epoch, header.base_sequence
        if epoch == state.epoch:
            last_sequence = (base_sequence + header.last_offset_delta) & SEQUENCE_MAX
            duplicate = state.find_duplicate(base_sequence, last_sequence)
            if duplicate is not None:
                return duplicate
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {state.producer_id} at offset {header.base_offset} in "
                f"partition {self.partition}: {base_sequence} (incoming seq. number), "
                f"{state.last_sequence} (current end sequence number)",
            )
        self.check_epoch(header)
        if base_sequence != 0 and state.epoch != NO_PRODUCER_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {state.producer_id} at offset "
                f"{header.base_offset} in partition {self.partition}: {epoch} (request epoch), {base_sequence} "
                f"(seq. number), {state.epoch} (current producer epoch)",
            )
        return None
