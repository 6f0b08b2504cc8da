"""The state of one share-partition on its leader: the records that a share group may get, has got, and has finished.

The core is pure. Its driver gives it the time, reads the log, and has its changes stored by the share coordinator.
A share-partition delivers records from `start_offset` on; all records below are finished. `end_offset` is the offset
after the last record that was delivered. The records between are in flight (`in_flight`).

The driver has these duties:

- `acquire` and the read of the log before it happen without a wait between them.
- Each `StateWrite` is stored, in the order in which they were returned, together with `start_offset` and
  `delivery_complete_count`. It is completed once. An acknowledgement is answered after its write.
- `expire_locks` is called soon after `next_lock_expiry_ms`.

After a change of the leader, the new one loads what was stored. Deliveries are not stored: records that were acquired
are then available again, with the delivery count that was stored last. As in Kafka, a record may so be delivered more
often than the limit says.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from broker.coordinator.share.share_state import StateBatch
from broker.share_partitions.acknowledgement import STATE_AFTER, AcknowledgementBatch
from broker.share_partitions.acquisition import Acquisition, FetchedBatch
from broker.share_partitions.in_flight import (
    DeadLetterCause,
    DeadLetters,
    InFlightRange,
    InFlightRecords,
    RecordState,
    StateWrite,
)
from broker.share_partitions.settings import DeliverySettings
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AcknowledgeType

_STATES: Final = frozenset(RecordState)


class InvalidState(Exception):
    """The stored state of a share-partition contradicts itself."""


class SharePartition:
    """See the module's docstring. `settings` may be replaced at any time. Times are milliseconds of one clock."""

    __slots__ = ("_earliest_lock_ms", "_records", "end_offset", "settings", "start_offset", "state_epoch")

    def __init__(
        self, settings: DeliverySettings, state_epoch: int, start_offset: int, batches: Iterable[StateBatch] = ()
    ) -> None:
        """Take over the stored state. Raises InvalidState.

        Offsets between the stored batches were delivered by an earlier leader, which did not store their state: they
        are available.
        """
        self.settings = settings
        self.state_epoch = state_epoch
        self.start_offset = self.end_offset = start_offset
        self._earliest_lock_ms = inf
        self._records = InFlightRecords()
        for batch in sorted(batches):
            self._load(batch)
        self._advance_start_offset()

    def _load(self, batch: StateBatch) -> None:
        first, last, state_id, count = batch
        if first < self.end_offset or last < first or state_id not in _STATES:
            raise InvalidState(f"{batch} after offset {self.end_offset}")
        if first > self.end_offset:
            self._records.add(InFlightRange(self.end_offset, first - 1, RecordState.AVAILABLE, 0))
        state = RecordState(state_id)
        if state is RecordState.ACQUIRED:
            state = RecordState.AVAILABLE  # the lock has ended with its leader
        self._records.add(InFlightRange(first, last, state, count))
        self.end_offset = last + 1

    @property
    def in_flight_count(self) -> int:
        """The number of offsets in flight."""
        return self.end_offset - self.start_offset

    @property
    def batch_count(self) -> int:
        """The number of ranges of records in flight that have the same state."""
        return len(self._records)

    @property
    def delivery_complete_count(self) -> int:
        """The number of records in flight that are acknowledged or archived; those being stored are among them."""
        return self._records.complete_count

    @property
    def next_lock_expiry_ms(self) -> float:
        """No lock expires before this time; `inf` if no record is acquired."""
        return self._earliest_lock_ms

    # Acquiring

    def next_fetch_offset(self) -> int:
        """The offset from which to read next: that of the first available record, or the end."""
        first = self._records.first_available
        return self.end_offset if first is None else first

    def can_acquire(self, fetch_offset: int) -> bool:
        """False if the limit of records in flight is reached, and no record in flight is available."""
        return fetch_offset < self.end_offset or self.in_flight_count < self.settings.record_locks_max

    def last_wanted(self, fetch_offset: int, records_max: int) -> int:
        """The offset up to which a read from `fetch_offset` finds `records_max` records to acquire, or all there are.

        Offsets without a record count as records: a read up to there may find fewer.
        """
        if fetch_offset < self.end_offset:
            for records in self._records.overlapping(fetch_offset, self.end_offset - 1):
                if records.is_available:
                    first = max(records.first, fetch_offset)
                    if records.last - first + 1 >= records_max:
                        return first + records_max - 1
                    records_max -= records.last - first + 1
        room = max(self.settings.record_locks_max - self.in_flight_count, 0)
        return self.end_offset - 1 + min(records_max, room)

    def acquire(
        self, fetched: Sequence[FetchedBatch], fetch_offset: int, acquisition: Acquisition, now_ms: float
    ) -> None:
        """Acquire records for the member of `acquisition`, which counts and collects them.

        `fetched` are the batches that a read from `fetch_offset` has found, in order. Aborted ones are archived. So
        are records that were available and are not in the log any more, because compaction has removed them.
        """
        if not fetched:
            return
        position = fetch_offset
        for batch in fetched:
            end = batch.last_offset if batch.is_aborted else batch.first_offset - 1
            if position <= end:
                self._archive_available(position, end)
            position = batch.last_offset + 1
        locked_until_ms = now_ms + self.settings.record_lock_duration_ms
        count = acquisition.count
        self._acquire_available(fetched, fetch_offset, acquisition, locked_until_ms)
        self._acquire_new(fetched, acquisition, locked_until_ms)
        if acquisition.count > count:
            self._earliest_lock_ms = min(self._earliest_lock_ms, locked_until_ms)
        self._advance_start_offset()

    def _archive_available(self, first: int, last: int) -> None:
        """Archive available records that cannot be delivered. Not stored: the next leader finds the same in the log."""
        if any(records.is_available for records in self._records.overlapping(first, last)):
            for records in self._records.isolate(first, last):
                if records.is_available:
                    self._records.change_state(records, RecordState.ARCHIVED)
            self._records.merge(first, last)

    def _acquire_available(
        self, fetched: Sequence[FetchedBatch], fetch_offset: int, acquisition: Acquisition, locked_until_ms: float
    ) -> None:
        """Acquire records in flight that are available again. Those that have failed often come without others."""
        last_fetched = fetched[-1].last_offset
        careful_left = 0  # how many more of those
        for records in self._records.overlapping(fetch_offset, last_fetched):
            if acquisition.is_complete:
                return
            if not records.is_available:
                continue
            careful_count = self.settings.careful_count(records.delivery_count, records.batch_records)
            if acquisition.count and (careful_count == 1 or bool(careful_count) != bool(careful_left)):
                acquisition.stop()
                return
            first, last = max(records.first, fetch_offset), min(records.last, last_fetched)
            if careful_count:
                careful_left = careful_left or careful_count
                last = min(last, first + careful_left - 1)
            last = min(last, acquisition.last_of_available(first, fetched))
            for part in self._records.isolate(first, last):
                self._records.acquire(part, acquisition.member_id, locked_until_ms)
                acquisition.add_or_extend(part.first, part.last, part.delivery_count)
            if careful_count:
                careful_left -= last - first + 1
                if careful_left <= 0:
                    acquisition.stop()
        if careful_left:
            acquisition.stop()

    def _acquire_new(self, fetched: Sequence[FetchedBatch], acquisition: Acquisition, locked_until_ms: float) -> None:
        """Acquire records that were never delivered, while the limit of records in flight is not reached."""
        records: InFlightRange | None = None
        for batch in fetched:
            if batch.last_offset < self.end_offset:
                continue
            room = self.settings.record_locks_max - self.in_flight_count
            if acquisition.is_complete or room <= 0:
                return
            first = max(batch.first_offset, self.end_offset)
            if batch.is_aborted:
                last = batch.last_offset
                self._records.add(InFlightRange(first, last, RecordState.ARCHIVED, 0))
                records = None
            else:
                last = acquisition.last_of_new(first, batch, room)
                if records is not None and not acquisition.begins_part(first, acquisition.acquired[-1]):
                    records.extend(last)
                    acquisition.extend(last)
                else:
                    records = InFlightRange(first, last, RecordState.AVAILABLE, 0)
                    records.acquire(acquisition.member_id, locked_until_ms)
                    self._records.add(records)
                    acquisition.add(first, last, records.delivery_count)
            self.end_offset = last + 1

    # Acknowledging

    def acknowledge(self, member_id: str, batches: Iterable[AcknowledgementBatch], now_ms: float) -> StateWrite | None:
        """Carry out the acknowledgements of a member: all of them, or none.

        Returns the write after which they apply; None if there is nothing to store. Locks are renewed at once. Records
        below the start offset are finished for the group, and so are left out, as offsets without a record are.

        Raises KafkaError: INVALID_REQUEST for unknown types and for offsets that were never delivered, and
        INVALID_RECORD_STATE for records that the member does not hold.
        """
        write = StateWrite()
        try:
            for batch in batches:
                self._acknowledge_batch(member_id, batch, write, now_ms)
        except KafkaError:
            self._roll_back(write)
            raise
        return write if write.batches else None

    def _acknowledge_batch(self, member_id: str, batch: AcknowledgementBatch, write: StateWrite, now_ms: float) -> None:
        batch.check_types()
        if batch.last_offset < self.start_offset:
            return
        if batch.last_offset >= self.end_offset:
            code = ErrorCode.INVALID_REQUEST if len(self._records) else ErrorCode.INVALID_RECORD_STATE
            raise KafkaError(code, "Batch record not found. The last offset in request is past acquired records.")
        self._check_held(member_id, max(batch.first_offset, self.start_offset), batch.last_offset)
        for first, last, kind in batch.runs(self.start_offset):
            if kind is AcknowledgeType.RENEW:
                self._renew(first, last, now_ms)
            else:
                for records in self._records.isolate(first, last):
                    self._begin_change(records, STATE_AFTER[kind], write)

    def _check_held(self, member_id: str, first: int, last: int) -> None:
        """Raise KafkaError INVALID_RECORD_STATE unless the member holds all records between these offsets."""
        for records in self._records.overlapping(first, last):
            if records.pending is not None:
                message = "The record state is invalid. The acknowledgement of delivery could not be completed."
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
            if not records.is_acquired:
                message = "The batch cannot be acknowledged. The batch is not in the acquired state."
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
            if records.member_id != member_id:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")

    def _renew(self, first: int, last: int, now_ms: float) -> None:
        if not self.settings.allows_renewal:
            message = "Renewing acquisition locks is not enabled for the group."
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
        for records in self._records.isolate(first, last):
            records.locked_until_ms = now_ms + self.settings.record_lock_duration_ms
        self._records.merge(first, last)

    def _begin_change(self, records: InFlightRange, state: RecordState, write: StateWrite) -> None:
        """Change the state of acquired records, subject to the write."""
        self._change(records, state, write)
        records.pending = write

    def _change(self, records: InFlightRange, state: RecordState, write: StateWrite) -> None:
        """Change the state of acquired records. Those that have failed become dead letters after the write."""
        self._records.change_state(records, self._state_for(records, state))
        write.add(records)
        if records.state is RecordState.ARCHIVING:
            rejected = state is RecordState.ARCHIVING
            cause = DeadLetterCause.REJECTED if rejected else DeadLetterCause.DELIVERED_TOO_OFTEN
            write.dead_letters.append(DeadLetters(records.first, records.last, records.delivery_count, cause))

    def _state_for(self, records: InFlightRange, state: RecordState) -> RecordState:
        """The state after a release is ARCHIVING if the records were delivered as often as the limit allows.

        Without a dead-letter topic, records that have failed are ARCHIVED at once.
        """
        is_spent = records.delivery_count >= self.settings.delivery_count_limit
        if state is RecordState.AVAILABLE and is_spent:
            state = RecordState.ARCHIVING
        if state is RecordState.ARCHIVING and not self.settings.dead_letter_topic:
            state = RecordState.ARCHIVED
        return state

    def release(self, member_id: str) -> StateWrite | None:
        """Release all records that a member holds, because its share session has ended. None if it holds none."""
        write = StateWrite()
        for records in self._records:
            if records.is_acquired and records.member_id == member_id:
                self._begin_change(records, RecordState.AVAILABLE, write)
        return write if write.batches else None

    def expire_locks(self, now_ms: float) -> StateWrite | None:
        """Release the records whose locks have expired. They are available at once, and after a failed write, too.

        Records with a pending write keep their lock, and are released if the write fails.
        """
        if now_ms < self._earliest_lock_ms:
            return None
        write = StateWrite(applies_at_once=True)
        self._earliest_lock_ms = inf
        for records in self._records:
            if not records.is_acquired:
                continue
            if records.locked_until_ms <= now_ms:
                self._change(records, RecordState.AVAILABLE, write)
                records.unlock()
            else:
                self._earliest_lock_ms = min(self._earliest_lock_ms, records.locked_until_ms)
        if not write.batches:
            return None
        self._records.merge(*write.bounds)
        self._advance_start_offset()
        return write

    def complete(self, write: StateWrite, *, is_stored: bool) -> Sequence[DeadLetters]:
        """Apply the changes of a write that the share coordinator has stored, or take them back.

        Returns the records to be copied to the dead-letter topic now; call `archive` once they are.
        """
        if not is_stored:
            self._roll_back(write)
            return write.dead_letters if write.applies_at_once else ()
        if not write.batches:
            return ()
        first, last = write.bounds
        for records in self._records.overlapping(first, last):
            if records.pending is write:
                records.unlock()
        self._records.merge(first, last)
        self._advance_start_offset()
        return write.dead_letters

    def _roll_back(self, write: StateWrite) -> None:
        """Give changed records back to their member, until their lock expires."""
        if not write.batches:
            return
        first, last = write.bounds
        for records in self._records.overlapping(first, last):
            if records.pending is write:
                self._records.change_state(records, RecordState.ACQUIRED)
                records.pending = None
                self._earliest_lock_ms = min(self._earliest_lock_ms, records.locked_until_ms)
        self._records.merge(first, last)

    # Dead letters

    def unfinished_dead_letters(self) -> Sequence[DeadLetters]:
        """The records that an earlier leader had yet to copy to the dead-letter topic. Their cause is not stored."""
        causes = (DeadLetterCause.REJECTED, DeadLetterCause.DELIVERED_TOO_OFTEN)
        limit = self.settings.delivery_count_limit
        return [
            DeadLetters(each.first, each.last, each.delivery_count, causes[each.delivery_count >= limit])
            for each in self._records
            if each.state is RecordState.ARCHIVING
        ]

    def archive(self, copied: Iterable[DeadLetters]) -> StateWrite | None:
        """Finish records that are copied to the dead-letter topic, or cannot be. None if none is left.

        They stay finished if the write fails; the next leader may then copy them again.
        """
        write = StateWrite(applies_at_once=True)
        for letters in copied:
            for records in self._records.isolate(letters.first_offset, letters.last_offset):
                if records.state is RecordState.ARCHIVING:
                    self._records.change_state(records, RecordState.ARCHIVED)
                    write.add(records)
        if not write.batches:
            return None
        self._records.merge(*write.bounds)
        self._advance_start_offset()
        return write

    # The start offset

    def move_log_start(self, log_start_offset: int) -> bool:
        """Forget the records that were deleted from the front of the log. True if the start offset has moved."""
        if log_start_offset <= self.start_offset:
            return False
        self._records.remove_before(log_start_offset)
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self._advance_start_offset()
        return True

    def _advance_start_offset(self) -> None:
        """Move the start offset past all records that are finished, and offsets without a record."""
        self._records.remove_leading_final()
        first = self._records.first
        self.start_offset = self.end_offset if first is None else first.first
