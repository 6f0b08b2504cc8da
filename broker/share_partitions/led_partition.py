"""One share-partition on the leader of its partition: loads the state, delivers records, stores what members say.

It performs what `broker.share_partitions.share_partition.SharePartition` decides. It lasts for one leader epoch.
"""

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from functools import partial
from math import inf
from typing import Protocol, TypeAlias

import attrs

from broker.coordinator.runtime.completion import Completion, completed, failed
from broker.coordinator.share.share_state import (
    UNINITIALIZED,
    PartitionState,
    SharePartitionKey,
    ShareStateStore,
    StateBatch,
)
from broker.net.deadlines import Deadline, Deadlines
from broker.replication.partition import Partition
from broker.share_partitions.acknowledgement import AcknowledgementBatch
from broker.share_partitions.acquisition import Delivery, Limits
from broker.share_partitions.batch_reading import read_batches
from broker.share_partitions.dead_letter_batch import Source
from broker.share_partitions.dead_letter_queue import DeadLetterQueue, DeadLetterWriter
from broker.share_partitions.in_flight import DeadLetters, StateWrite
from broker.share_partitions.settings import DeliverySettings
from broker.share_partitions.share_partition import InvalidState, SharePartition
from broker.share_partitions.start_offset import find_start_offset
from broker.share_partitions.state_writer import EXPECTED, TEMPORARY, QueuedWrite, StateWriter, client_error
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.env import Tracer

Steps: TypeAlias = Generator[None, None, None]


class Waiter(Protocol):
    """A fetch that waits for records."""

    def share_partition_changed(self, led: "LedSharePartition") -> None:
        """Called when there are records or an error, after the waiter was removed. Must not raise."""
        ...


@lazy_attrs.define
class DeliveryCounts:
    """Counts of all share-partitions for metrics. `acknowledged` has an entry for each type of acknowledgement."""

    acknowledged: list[int] = attrs.field(factory=lambda: [0] * 5)
    locks_expired: int = 0


@lazy_attrs.frozen
class LeaderContext:
    """The surroundings of all share-partitions of a broker. `now_ms` is of a monotonic clock, `wall_ms` the time.

    `drop` removes a share-partition that cannot go on; its members get the error.
    """

    store: ShareStateStore
    deadlines: Deadlines
    settings: Callable[[str], DeliverySettings]
    now_ms: Callable[[], float]
    wall_ms: Callable[[], int]
    drop: Callable[["LedSharePartition", KafkaError], None]
    trace: Tracer
    dead_letters: DeadLetterWriter
    counts: DeliveryCounts = attrs.field(factory=DeliveryCounts)


class LedSharePartition:
    """See the module's docstring. `state` is None until it is loaded, and after `close`, which sets `error`.

    `has_new_start` is true while no write has stored the start offset that `share.auto.offset.reset` has found.
    `waiters` are the fetches that wait, in the order in which they came. The share-partition itself waits at its
    partition for all of them: most would be notified in vain of records that the first one acquires.
    """

    __slots__ = (
        "_context",
        "_dead_letters",
        "_deadline",
        "_writer",
        "error",
        "has_new_start",
        "key",
        "leader_epoch",
        "partition",
        "state",
        "waiters",
    )

    def __init__(self, key: SharePartitionKey, partition: Partition, context: LeaderContext) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.state: SharePartition | None = None
        self.error: KafkaError | None = None
        self.has_new_start = False
        self.waiters: dict[Waiter, None] = {}
        self._context = context
        self._deadline: Deadline | None = None
        self._writer = StateWriter(self._store, self._written)
        source = Source(key.group_id, partition, self.leader_epoch)
        self._dead_letters = DeadLetterQueue(source, context.dead_letters, self._archive)

    @property
    def is_idle(self) -> bool:
        """True if no write is under way, neither of states nor of dead letters."""
        return self._writer.is_idle and self._dead_letters.is_idle

    def trace(self, kind: str, **fields: object) -> None:
        """Trace an event of this share-partition."""
        self._context.trace(
            kind,
            group=self.key.group_id,
            topic=self.partition.topic,
            partition=self.partition.index,
            leader_epoch=self.leader_epoch,
            **fields,
        )

    # Loading

    def load(self, finish_later: Callable[[Steps], None]) -> None:
        """Read the state from the share coordinator. `finish_later` takes the steps of a search by time."""
        read = self._context.store.read(*self.key, self.leader_epoch)
        read.then(partial(self._state_read, finish_later))

    def _state_read(self, finish_later: Callable[[Steps], None], outcome: PartitionState | KafkaError) -> None:
        if isinstance(outcome, KafkaError):
            self._fail(outcome)
        elif outcome.start_offset == UNINITIALIZED:
            finish_later(self._find_start(outcome))
        else:
            self._begin(outcome.state_epoch, outcome.start_offset, outcome.batches)

    def _find_start(self, read: PartitionState) -> Steps:
        """Begin where the group's `share.auto.offset.reset` says."""
        settings = self._context.settings(self.key.group_id)
        try:
            start = yield from find_start_offset(self.partition, self.leader_epoch, settings, self._context.wall_ms())
            self.has_new_start = True
            self._begin(read.state_epoch, start, ())
        except KafkaError as error:
            self._context.drop(self, error)

    def _begin(self, state_epoch: int, start_offset: int, batches: Sequence[StateBatch]) -> None:
        if self.error is not None:
            return
        settings = self._context.settings(self.key.group_id)
        try:
            self.state = SharePartition(settings, state_epoch, start_offset, batches)
        except InvalidState as error:
            self._fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
            return
        self.trace("share_partition_loaded", start_offset=self.state.start_offset)
        self._dead_letters.add(self.state.unfinished_dead_letters())
        self._notify()

    def _fail(self, error: KafkaError) -> None:
        """Stop after an error of the share coordinator. Those that other brokers or clients cause are no failures."""
        if error.code not in EXPECTED:
            self.trace("share_partition_failed", error=str(error))
        self._context.drop(self, client_error(error))

    def close(self, error: KafkaError) -> None:
        """Stop: another broker leads, or the state cannot be kept here. Members that wait get the error."""
        self.error = error
        self.state = None
        self.partition.waiters.for_high_watermark.pop(self, None)
        self._schedule_expiry()
        self._writer.fail_queued(error)
        self._dead_letters.close()
        self._notify()

    # Delivering

    def readable_bytes(self, max_bytes: int) -> int:
        """The size of records that could be acquired now, up to `max_bytes`. Raises KafkaError as `acquire` does."""
        state = self._ready_state()
        if state is None:
            return 0
        log, settings = self.partition.leader_log(self.leader_epoch), state.settings
        offset, end = state.next_fetch_offset(), self.partition.commit_state.end_for(log, settings.isolation_level)
        if offset >= end or not state.can_acquire(offset):
            return 0
        return log.read(offset, max_bytes, upper_bound=end, min_one_batch=True).size

    def acquire(self, limits: Limits) -> Delivery | None:
        """Acquire records for a member; None if there are none for it now.

        Raises KafkaError: the error of `close`, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
        """
        state = self._ready_state()
        if state is None:
            return None
        log, settings = self.partition.leader_log(self.leader_epoch), state.settings
        offset, end = state.next_fetch_offset(), self.partition.commit_state.end_for(log, settings.isolation_level)
        if offset >= end or not state.can_acquire(offset):
            return None
        read = read_batches(
            log,
            offset,
            limits.max_bytes,
            end,
            last_wanted=state.last_wanted(offset, limits.acquisition.records_left),
            min_one_batch=limits.min_one_batch,
            is_read_committed=settings.is_read_committed,
        )
        if not read.batches:
            return None
        state.acquire(read.batches, offset, limits.acquisition, self._context.now_ms())
        acquired = limits.acquisition.acquired
        if not acquired:
            return Delivery() if state.next_fetch_offset() > offset else None
        self._schedule_expiry()
        records = read.range_of(acquired)
        self.partition.bytes_out += len(records)
        return Delivery(acquired, records)

    def _ready_state(self) -> SharePartition | None:
        """The state with the group's configs of now, and without records that were deleted; None before the load.

        Raises KafkaError after `close`, and if this broker leads the partition no more.
        """
        if self.error is not None:
            raise self.error
        state = self.state
        if state is None:
            return None
        log = self.partition.leader_log(self.leader_epoch)
        state.settings = self._context.settings(self.key.group_id)
        state.move_log_start(log.log_start_offset)
        return state

    # Acknowledging

    def acknowledge(self, member_id: str, batches: Sequence[AcknowledgementBatch]) -> Completion[None]:
        """Carry out acknowledgements of a member; completes when they are stored, or with the error."""
        try:
            state = self._ready_state()
            if state is None:
                message = "Batch record not found. The request batch offsets are not found in the cache."
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)
            write = state.acknowledge(member_id, batches, self._context.now_ms())
        except KafkaError as error:
            return failed(error)
        done: Completion[None] = completed(None) if write is None else self._writer.add(write)
        done.then(partial(self._count_acknowledged, batches))
        return done

    def _count_acknowledged(self, batches: Sequence[AcknowledgementBatch], error: KafkaError | None) -> None:
        if error is not None:
            return
        counts = self._context.counts.acknowledged
        for batch in batches:
            if len(batch.types) == 1:
                counts[batch.types[0]] += batch.last_offset - batch.first_offset + 1
            else:
                for kind, count in Counter(batch.types).items():
                    counts[kind] += count

    def release(self, member_id: str) -> Completion[None]:
        """Release the records of a member whose session has ended. Completes after all its writes."""
        write = None
        if self.state is not None:
            self.state.settings = self._context.settings(self.key.group_id)
            write = self.state.release(member_id)
        return self._writer.drained() if write is None else self._writer.add(write)

    def store_start(self) -> Completion[None]:
        """Store the start offset alone."""
        return self._writer.add(StateWrite())

    def _store(self, batches: tuple[StateBatch, ...]) -> Completion[None]:
        state = self.state
        if state is None:
            return failed(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the share-partition is closed"))
        return self._context.store.write(
            *self.key,
            state.state_epoch,
            self.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            batches,
        )

    def _written(self, writes: Sequence[QueuedWrite], error: KafkaError | None) -> KafkaError | None:
        if self.state is not None:
            for queued in writes:
                self._dead_letters.add(self.state.complete(queued.write, is_stored=error is None))
            self._schedule_expiry()
            self._notify()
        if error is None:
            self.has_new_start = False
            return None
        if error.code not in TEMPORARY:
            self._fail(error)
        return client_error(error)

    def _archive(self, letters: Sequence[DeadLetters]) -> None:
        """Finish records that were dead letters, and are copied or given up."""
        write = None if self.state is None else self.state.archive(letters)
        if write is not None:
            self._writer.add(write)
            self._notify()

    # Locks

    def _schedule_expiry(self) -> None:
        """Have the locks looked at when the first may expire; not again for each acquisition, which expires later."""
        expiry_ms = inf if self.state is None else self.state.next_lock_expiry_ms
        when = None if self.state is None else expiry_ms / 1000
        deadline = self._deadline
        if deadline is not None and (when is None or when < deadline.when):
            deadline.cancel()
            deadline = self._deadline = None
        if deadline is None and when is not None and when < inf:
            self._deadline = self._context.deadlines.add(when, partial(self._expire_locks, expiry_ms))

    def _expire_locks(self, expiry_ms: float) -> None:
        """Release the records whose locks have expired by `expiry_ms`, the time of the deadline, or later.

        The clock in milliseconds may be a rounding error before it. The same deadline would then be due again at once,
        and keep the event loop busy.
        """
        self._deadline = None
        if self.state is None:
            return
        self.state.settings = self._context.settings(self.key.group_id)
        write = self.state.expire_locks(max(expiry_ms, self._context.now_ms()))
        self._schedule_expiry()
        if write is not None:
            self._context.counts.locks_expired += _record_count(write)
            self._writer.add(write)
            self._notify()

    # Waiting

    def watch(self, waiter: Waiter) -> None:
        """Notify the waiter once when records can be acquired."""
        self.waiters[waiter] = None
        self.partition.waiters.for_high_watermark[self] = None

    def try_complete(self, partition: Partition) -> None:
        """See `broker.replication.waiters.Waiter`: records were committed, or the partition has another leader."""
        self._notify()

    def _notify(self) -> None:
        """Notify the fetches that wait, as long as there are records for them."""
        for waiter in list(self.waiters):
            if not self._has_news():
                break
            if waiter in self.waiters:
                del self.waiters[waiter]
                waiter.share_partition_changed(self)
        if self.waiters and self.error is None:
            self.partition.waiters.for_high_watermark[self] = None

    def _has_news(self) -> bool:
        """True if records can be acquired, or if members have to get an error."""
        state = self.state
        if state is None:
            return self.error is not None
        role = self.partition.role
        if role.log is None or not role.leads or self.partition.leader_epoch != self.leader_epoch:
            return True
        offset = state.next_fetch_offset()
        end = self.partition.commit_state.end_for(role.log, state.settings.isolation_level)
        return offset < end and state.can_acquire(offset)


def _record_count(write: StateWrite) -> int:
    return sum(batch.last_offset - batch.first_offset + 1 for batch in write.batches)
