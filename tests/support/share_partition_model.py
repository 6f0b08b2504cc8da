"""Random histories of a share-partition beside a list of records, each with its state (KIP-932).

The history plays the log, the members, the share coordinator, the dead-letter topic (KIP-1191) and changes of the
leader. After each step it compares the share-partition with the list, and raises AssertionError where they differ.
"""

import random
from collections import deque
from itertools import pairwise

import attrs

from broker.coordinator.share.share_state import StateBatch
from broker.share_partitions.acknowledgement import AcknowledgementBatch
from broker.share_partitions.acquisition import Acquisition, FetchedBatch
from broker.share_partitions.in_flight import FINAL_STATES, DeadLetterCause, DeadLetters, RecordState, StateWrite
from broker.share_partitions.settings import DeliverySettings
from broker.share_partitions.share_partition import SharePartition
from broker.wire.errors import KafkaError
from metadata.protocol import AcknowledgeType, ShareAcquireMode

MEMBERS = ("anna", "ben", "cleo")
LOCK_MS = 1000
SETTINGS = DeliverySettings(delivery_count_limit=4, record_lock_duration_ms=LOCK_MS, record_locks_max=60)
WITH_DEAD_LETTERS = attrs.evolve(SETTINGS, dead_letter_topic="dlq.topic")


@attrs.define
class ListedRecord:
    """The state of one record for the group. `stored` is the state and delivery count that the coordinator has.

    `cause` is the reason for which it is to become a dead letter, as far as this leader knows.
    """

    is_aborted: bool
    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    member_id: str = ""
    locked_until_ms: float = 0
    write: StateWrite | None = None
    writing: dict[StateWrite, tuple[RecordState, int]] = attrs.field(factory=dict)
    stored: tuple[RecordState, int] = (RecordState.AVAILABLE, 0)
    cause: DeadLetterCause | None = None


@attrs.define
class History:
    """One random history; `partition_class` is what it tests."""

    rng: random.Random
    partition_class: type[SharePartition] = SharePartition
    settings: DeliverySettings = SETTINGS
    batches: list[FetchedBatch] = attrs.field(factory=list)
    records: dict[int, ListedRecord] = attrs.field(factory=dict)
    now_ms: float = 0
    log_end: int = 0
    log_start: int = 0
    stored_start: int = 0
    stored_batches: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    writes: deque[StateWrite] = attrs.field(factory=deque)
    dead_letters: list[DeadLetters] = attrs.field(factory=list)
    partition: SharePartition = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.partition = self.partition_class(self.settings, 0, 0)

    def run(self, steps: int) -> None:
        step_kinds = (
            (self.append, 4),
            (self.acquire, 8),
            (self.acknowledge, 8),
            (self.store_one, 8),
            (self.let_time_pass, 3),
            (self.end_session, 1),
            (self.delete_records, 1),
            (self.change_leader, 1),
            (self.copy_dead_letters, 3),
        )
        kinds, weights = zip(*step_kinds, strict=True)
        for step in self.rng.choices(kinds, weights, k=steps):
            step()
            self.check()
        self.finish()

    # Steps

    def append(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            first = self.log_end + self.rng.choice((0, 0, 0, 2))  # offsets without records, as after compaction
            last = first + self.rng.choice((0, 1, 4, 9))
            batch = FetchedBatch(first, last, is_aborted=self.rng.random() < 0.15)
            self.batches.append(batch)
            for offset in range(first, last + 1):
                self.records[offset] = ListedRecord(batch.is_aborted)
            self.log_end = last + 1

    def acquire(self, records_max: int | None = None, mode: ShareAcquireMode | None = None) -> int:
        partition, rng = self.partition, self.rng
        fetch_offset = partition.next_fetch_offset()
        if not partition.can_acquire(fetch_offset):
            return 0
        limit = records_max or rng.choice((1, 3, 10, 50))
        mode = mode if mode is not None else rng.choice(tuple(ShareAcquireMode))
        fetched = [batch for batch in self.batches if batch.last_offset >= fetch_offset][: rng.randint(1, 8)]
        acquisition = Acquisition(rng.choice(MEMBERS), limit, rng.choice((2, 5, 500)), mode)
        partition.acquire(fetched, fetch_offset, acquisition, self.now_ms)
        if mode is ShareAcquireMode.RECORD_LIMIT:
            assert acquisition.count <= limit
        else:
            assert acquisition.count - limit < 12, "only one batch, and a gap, may exceed the limit"
        previous = -1
        for first, last, delivery_count in acquisition.acquired:
            assert previous < first <= last
            previous = last
            for offset in range(first, last + 1):
                self._deliver(offset, delivery_count, acquisition.member_id)
        return acquisition.count

    def _deliver(self, offset: int, delivery_count: int, member_id: str) -> None:
        record = self.records.get(offset)
        if record is None:
            return  # no record has this offset
        assert not record.is_aborted
        assert record.state is RecordState.AVAILABLE, "no other member has it"
        assert record.write is None, "its state is not being stored"
        record.delivery_count += 1
        assert record.delivery_count == delivery_count
        record.state, record.member_id, record.locked_until_ms = RecordState.ACQUIRED, member_id, self.now_ms + LOCK_MS

    def acknowledge(self) -> None:
        if not self.records or self.partition.start_offset == self.partition.end_offset:
            return
        rng, member_id = self.rng, self.rng.choice(MEMBERS)
        first = rng.randrange(self.partition.start_offset, self.partition.end_offset)
        last = min(first + rng.choice((0, 2, 5, 20)), self.partition.end_offset - 1 + (rng.random() < 0.05))
        kinds = [rng.choice((1, 1, 1, 2, 2, 3, 0, 4)) for _ in range(1 if rng.random() < 0.5 else last - first + 1)]
        touched = [self.records[offset] for offset in range(first, last + 1) if offset in self.records]
        held = all(each.write is None and each.member_id == member_id for each in touched if not each.is_aborted)
        try:
            write = self.partition.acknowledge(member_id, [AcknowledgementBatch(first, last, kinds)], self.now_ms)
        except KafkaError:
            return
        assert held, "only what the member holds"
        for offset in range(first, last + 1):
            record = self.records.get(offset)
            if record is not None and record.state is RecordState.ACQUIRED:
                kind = AcknowledgeType(kinds[0] if len(kinds) == 1 else kinds[offset - first])
                if kind is AcknowledgeType.RENEW:
                    record.locked_until_ms = self.now_ms + LOCK_MS
                else:
                    assert write is not None
                    self._change(record, kind, write)
        if write is not None:
            self.writes.append(write)

    def _change(
        self, record: ListedRecord, kind: AcknowledgeType, write: StateWrite, *, is_immediate: bool = False
    ) -> None:
        if kind is AcknowledgeType.ACCEPT:
            record.state = RecordState.ACKNOWLEDGED
        elif kind is AcknowledgeType.RELEASE and record.delivery_count < SETTINGS.delivery_count_limit:
            record.state = RecordState.AVAILABLE
        elif kind is AcknowledgeType.GAP or not self.settings.dead_letter_topic:
            record.state = RecordState.ARCHIVED
        else:
            record.state, is_rejected = RecordState.ARCHIVING, kind is AcknowledgeType.REJECT
            record.cause = DeadLetterCause.REJECTED if is_rejected else DeadLetterCause.DELIVERED_TOO_OFTEN
        record.writing[write] = (record.state, record.delivery_count)
        if is_immediate:
            record.member_id = ""
        else:
            record.write = write

    def store_one(self) -> None:
        """The share coordinator stores the oldest write, or refuses it."""
        if not self.writes:
            return
        write = self.writes.popleft()
        is_stored = self.rng.random() < 0.8
        start_offset = self.partition.start_offset
        complete_count = self.partition.delivery_complete_count
        assert 0 <= complete_count <= self.partition.in_flight_count
        if is_stored:
            self._store(start_offset, write)
        self.dead_letters += self.partition.complete(write, is_stored=is_stored)
        for record in self.records.values():
            if record.write is write:
                record.write = None
                if not is_stored:
                    record.state = RecordState.ACQUIRED
                else:
                    record.member_id = ""

    def copy_dead_letters(self) -> None:
        """The dead-letter topic gets the records that are to be copied, one after the other."""
        while self.dead_letters:
            letters = self.dead_letters.pop(self.rng.randrange(len(self.dead_letters)))
            write = self.partition.archive([letters])
            for offset in range(letters.first_offset, letters.last_offset + 1):
                record = self.records.get(offset)
                if record is not None and offset >= self.log_start:
                    assert record.state is RecordState.ARCHIVING, "only records that have failed are copied"
                    assert (record.delivery_count, record.cause) == letters[2:]
                    assert write is not None
                    record.state = RecordState.ARCHIVED
                    record.writing[write] = (record.state, record.delivery_count)
            if write is not None:
                self.writes.append(write)

    def _store(self, start_offset: int, write: StateWrite) -> None:
        self.stored_start = max(start_offset, self.stored_start)
        for first, last, state, delivery_count in write.batches:
            for offset in range(first, last + 1):
                self.stored_batches[offset] = (state, delivery_count)
                if offset in self.records:
                    self.records[offset].stored = (RecordState(state), delivery_count)
        for record in self.records.values():
            if write in record.writing:
                assert record.writing.pop(write) == record.stored, "the state and the count are stored"
        self.stored_batches = {o: each for o, each in self.stored_batches.items() if o >= self.stored_start}

    def let_time_pass(self) -> None:
        self.now_ms += self.rng.choice((1, LOCK_MS // 2, LOCK_MS))
        self.expire_locks()

    def expire_locks(self) -> None:
        write = self.partition.expire_locks(self.now_ms)
        expired = [
            each
            for each in self.records.values()
            if each.state is RecordState.ACQUIRED and each.write is None and each.locked_until_ms <= self.now_ms
        ]
        assert write is not None or not expired, "an expired lock is stored"
        if write is not None:
            for record in expired:
                self._change(record, AcknowledgeType.RELEASE, write, is_immediate=True)
            self.writes.append(write)

    def end_session(self) -> None:
        member_id = self.rng.choice(MEMBERS)
        write = self.partition.release(member_id)
        for record in self.records.values():
            if record.state is RecordState.ACQUIRED and record.write is None and record.member_id == member_id:
                assert write is not None
                self._change(record, AcknowledgeType.RELEASE, write)
        if write is not None:
            self.writes.append(write)

    def delete_records(self) -> None:
        self.log_start = self.rng.randint(self.log_start, self.log_end)
        for offset in [each for each in self.records if each < self.log_start]:
            del self.records[offset]
        self.batches = [batch for batch in self.batches if batch.last_offset >= self.log_start]
        self.partition.move_log_start(self.log_start)

    def change_leader(self) -> None:
        """Another leader loads what was stored; writes under way may have been stored or not."""
        while self.writes and self.rng.random() < 0.5:
            self._store(self.partition.start_offset, self.writes.popleft())
        self.writes.clear()
        batches = [StateBatch(offset, offset, *each) for offset, each in self.stored_batches.items()]
        self.partition = self.partition_class(self.settings, 0, self.stored_start, batches)
        self.partition.move_log_start(self.log_start)
        self.dead_letters = [*self.partition.unfinished_dead_letters()]
        for offset, record in self.records.items():
            record.state, record.delivery_count = record.stored
            if offset < self.stored_start and not record.is_aborted:
                record.state = RecordState.ARCHIVED  # it was finished, and only its state was not stored yet
            is_spent = record.delivery_count >= SETTINGS.delivery_count_limit
            record.cause = DeadLetterCause.DELIVERED_TOO_OFTEN if is_spent else DeadLetterCause.REJECTED
            record.write, record.member_id = None, ""
            record.writing.clear()

    # Checks

    def check(self) -> None:
        partition = self.partition
        live = {o: each for o, each in self.records.items() if not each.is_aborted}
        for offset, record in live.items():
            if offset < partition.start_offset:
                assert record.state in FINAL_STATES, f"the start offset has passed {offset}: {record}"
        available = [
            offset
            for offset, each in live.items()
            if offset < partition.end_offset and each.state is RecordState.AVAILABLE and each.write is None
        ]
        if available:
            assert partition.next_fetch_offset() <= available[0], f"{available[0]} is available"
        locks = [
            each.locked_until_ms for each in live.values() if each.state is RecordState.ACQUIRED and not each.write
        ]
        if locks:
            assert partition.next_lock_expiry_ms <= min(locks)
        ranges = list(partition._records)
        first_available = next((each.first for each in ranges if each.is_available), None)
        assert partition._records.first_available == first_available
        complete_count = sum(len(each) for each in ranges if each.state in FINAL_STATES)
        assert partition.delivery_complete_count == complete_count, "it is kept up to date"
        for before, after in pairwise(ranges):
            assert before.last < after.first
        if ranges:
            assert partition.start_offset == ranges[0].first
            assert ranges[-1].last < partition.end_offset

    def finish(self) -> None:
        """All members accept what they get: in the end, the group has finished every record."""
        for _ in range(10_000):
            while self.writes or self.dead_letters:
                self.copy_dead_letters()
                self.store_one()
            if self.partition.start_offset >= self.log_end:
                break
            self.now_ms += LOCK_MS
            self.expire_locks()
            self.acquire(50)
            for member_id in MEMBERS:
                self._accept_all(member_id)
            self.check()
        assert self.partition.start_offset >= self.log_end, "every record is delivered in the end"
        assert all(each.is_aborted or each.state in FINAL_STATES for each in self.records.values())

    def _accept_all(self, member_id: str) -> None:
        held = [o for o, each in self.records.items() if each.member_id == member_id and each.write is None]
        for offset in held:
            write = self.partition.acknowledge(member_id, [AcknowledgementBatch(offset, offset, [1])], self.now_ms)
            assert write is not None
            self._change(self.records[offset], AcknowledgeType.ACCEPT, write)
            self.writes.append(write)
