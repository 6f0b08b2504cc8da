"""The batches of a producer that have no outcome yet: which to send, which are in flight, retried, expired. Pure.

Each partition has a queue. Its `waiting` batches were never sent. Its `outstanding` batches were, and have sequences if
the producer is idempotent; each of them is on the wire or to be sent again. The order of a partition is kept because
- new batches are sent only if no outstanding batch is to be sent again, and only to the node that has the others;
- of the outstanding batches only the oldest one is sent again, after everything before it has an outcome, or was
  rejected for its sequence.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Final, cast

import attrs

from broker.client.producer.batch import NO_OFFSET, Batch, record_size
from broker.client.producer.buffer_memory import BufferMemory
from broker.client.producer.compression_ratio import CompressionRatios
from broker.client.producer.config import ProducerConfig
from broker.client.producer.sequences import NO_SEQUENCE, PartitionSequences, ProducerIdentity, sequence_after
from broker.client.producer.transaction_state import ProducerTransaction
from broker.client.producer.unread_failures import UnreadFailures
from broker.client.records import NewRecord, RecordColumns
from broker.client.types import TopicPartition

# Until the leader has acknowledged a batch, it may have no state of the producer. Then it accepts any sequence, and a
# second batch could be appended although the first one failed.
_UNPROVEN_IN_FLIGHT_MAX: Final = 1
_BATCH_OVERHEAD_BYTES: Final = 61


@attrs.frozen
class AccumulatorLimits:
    """Sizes in bytes, times in seconds. `in_flight_max` counts the batches of one partition."""

    batch_size: int = 16_384
    linger_s: float = 0.005
    delivery_timeout_s: float = 120.0
    in_flight_max: int = 5
    request_size_max: int = 1_048_576

    @classmethod
    def of(cls, config: ProducerConfig) -> "AccumulatorLimits":
        return cls(
            batch_size=config.batch_size,
            linger_s=config.linger_ms / 1000,
            delivery_timeout_s=config.delivery_timeout_s,
            in_flight_max=config.max_in_flight_requests_per_connection,
            request_size_max=config.max_request_size,
        )


@attrs.define(eq=False)
class PartitionQueue:
    """The batches of a partition, oldest first. `filling` is the newest one while records can be added to it."""

    partition: TopicPartition
    waiting: deque[Batch] = attrs.field(factory=deque)
    outstanding: list[Batch] = attrs.field(factory=list)
    filling: Batch | None = None
    sequences: PartitionSequences = attrs.field(factory=PartitionSequences)
    # Also of batches that expired there.
    on_wire: int = 0
    wire_node: int = -1
    # The outstanding batches get new sequences under the current identity as soon as nothing is on the wire.
    must_renumber: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.outstanding

    def oldest(self) -> Batch:
        return self.outstanding[0] if self.outstanding else self.waiting[0]

    def oldest_to_resend(self) -> Batch | None:
        """The oldest batch that was sent and has neither an outcome nor a rejected sequence."""
        return next((batch for batch in self.outstanding if not batch.is_rejected), None)


@attrs.define
class Drained:
    """The batches to be sent now, by node. `next_at` is when the accumulator has to be looked at again."""

    batches: dict[int, list[Batch]] = attrs.field(factory=dict)
    next_at: float = inf
    is_leader_missing: bool = False
    is_identity_missing: bool = False


class Accumulator:
    """See the module's docstring. `identity` is None for a producer without idempotence.

    Batches of a transactional producer belong to its `transaction`, which hears of each batch that fails.

    A caller that adds a record to a batch also adds its size to the batch's and to the used memory. `on_batch` is
    called when a batch was begun, that is, when `drain` may return more.
    """

    def __init__(
        self,
        limits: AccumulatorLimits,
        identity: ProducerIdentity | None,
        ratios: CompressionRatios,
        memory: BufferMemory,
        on_batch: Callable[[], None] = lambda: None,
        transaction: ProducerTransaction | None = None,
        failures: UnreadFailures | None = None,
    ) -> None:
        self.limits = limits
        self.identity = identity
        self.transaction = transaction
        self.ratios = ratios
        self.memory = memory
        self.failures = failures or UnreadFailures()
        # While True, batches are sent without waiting for more records.
        self.is_urgent = False
        self._on_batch = on_batch
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(partition)
        return queue

    def batches(self) -> Iterator[Batch]:
        """All batches without an outcome."""
        for queue in self._active.values():
            yield from queue.outstanding
            yield from queue.waiting

    @property
    def is_empty(self) -> bool:
        return not self._active

    # Adding

    def batch_for(self, queue: PartitionQueue, size: int, now: float) -> Batch:
        """The batch that takes a record of this size; the caller adds it, and its size."""
        batch = queue.filling
        if batch is None or batch.size + size > batch.limit:
            batch = self.begin_batch(queue, now)
        return batch

    def begin_batch(self, queue: PartitionQueue, now: float) -> Batch:
        """Begins another batch; the one before it is complete."""
        limit = self.ratios.uncompressed_limit(
            queue.partition.topic, self.limits.batch_size, self.limits.request_size_max
        )
        batch = queue.filling = Batch(queue.partition, now, limit - _BATCH_OVERHEAD_BYTES)
        queue.waiting.append(batch)
        self._active[queue.partition] = queue
        self._on_batch()
        return batch

    def begin_held(self, partition: TopicPartition, now: float) -> Batch:
        """Begins a batch of records that cannot be placed yet. The caller keeps it."""
        self._on_batch()
        return Batch(partition, now, inf)

    def add_complete_batch(self, queue: PartitionQueue, records: RecordColumns, size: int, now: float) -> Batch:
        """Adds a batch of its own, after every record before. The caller has counted its size as used memory."""
        batch = self.begin_batch(queue, now)
        queue.filling = None
        # Only to a batch that is filling are records appended.
        batch.records = cast(list[NewRecord], records)
        batch.size = size
        return batch

    # Sending

    def drain(
        self, now: float, leader_of: Callable[[TopicPartition], int | None], is_ready: Callable[[int], bool]
    ) -> Drained:
        """Takes the batches that can be sent now: of each partition at most one per node and call.

        `is_ready(node)` tells whether the node can take a request.
        """
        drained = Drained()
        sizes: dict[int, float] = {}
        for queue in list(self._active.values()):
            batch = self._due(queue, now, drained)
            if batch is None:
                continue
            node = leader_of(queue.partition)
            if node is None:
                drained.is_leader_missing = True
                continue
            if (queue.on_wire and queue.wire_node != node) or not is_ready(node):
                continue
            size = self.ratios.compressed_size(queue.partition.topic, batch.size) + _BATCH_OVERHEAD_BYTES
            if node in sizes and sizes[node] + size > self.limits.request_size_max:
                drained.next_at = now
                continue
            sizes[node] = sizes.get(node, 0) + size
            drained.batches.setdefault(node, []).append(batch)
            self._take(queue, batch, node)
        return drained

    def _due(self, queue: PartitionQueue, now: float, drained: Drained) -> Batch | None:
        """Returns the batch of the partition to send next, if one is due."""
        drained.next_at = min(drained.next_at, queue.oldest().created_at + self.limits.delivery_timeout_s)
        if queue.must_renumber and not self._renumber(queue, drained):
            return None
        batch = next((each for each in queue.outstanding if not each.is_on_wire and not each.is_rejected), None)
        if batch is not None:
            if batch is not queue.oldest_to_resend():
                return None
            due_at = batch.retry_at
        elif queue.waiting and queue.on_wire < self._in_flight_max(queue) and self._may_assign_sequence(queue, drained):
            if self.transaction is not None and not self.transaction.may_send(queue.partition):
                return None
            batch = queue.waiting[0]
            is_complete = batch is not queue.filling or batch.size >= batch.limit or self.is_urgent
            due_at = now if is_complete else batch.created_at + self.limits.linger_s
        else:
            return None
        if due_at > now:
            drained.next_at = min(drained.next_at, due_at)
            return None
        return batch

    def _in_flight_max(self, queue: PartitionQueue) -> int:
        if self.identity is None or queue.sequences.is_proven:
            return self.limits.in_flight_max
        return _UNPROVEN_IN_FLIGHT_MAX

    def _may_assign_sequence(self, queue: PartitionQueue, drained: Drained) -> bool:
        """True if a new batch can get a sequence. Begins a new identity where a gap makes that necessary."""
        if self.identity is None:
            return True
        sequences = queue.sequences
        # A batch that expired on the wire may still be acknowledged, or appended.
        if not queue.outstanding and not queue.on_wire:
            if sequences.has_gap and sequences.is_all_acknowledged:
                sequences.has_gap = False
            elif sequences.has_gap and sequences.identity == self.identity.current:
                self.identity.bump()
            if self.identity.is_known and sequences.identity != self.identity.current:
                sequences.adopt(self.identity.current)
        drained.is_identity_missing |= not self.identity.is_known
        return self.identity.is_known and sequences.identity == self.identity.current and not sequences.has_gap

    def _renumber(self, queue: PartitionQueue, drained: Drained) -> bool:
        assert self.identity is not None, "only sequences are rejected"
        drained.is_identity_missing |= not self.identity.is_known
        if queue.on_wire or not self.identity.is_known:
            return False
        queue.must_renumber = False
        queue.sequences.adopt(self.identity.current)
        for batch in queue.outstanding:
            self._number(queue, batch)
        return True

    def _number(self, queue: PartitionQueue, batch: Batch) -> None:
        batch.identity = queue.sequences.identity
        batch.base_sequence = queue.sequences.take(len(batch.records))
        batch.is_rejected = False
        batch.encoded = None

    def _take(self, queue: PartitionQueue, batch: Batch, node: int) -> None:
        if batch not in queue.outstanding:
            queue.waiting.popleft()
            queue.outstanding.append(batch)
            if batch is queue.filling:
                queue.filling = None
            if self.identity is not None:
                self._number(queue, batch)
        batch.is_on_wire = True
        batch.attempts += 1
        queue.on_wire += 1
        queue.wire_node = node
        # The partition goes to the end of the line, so that a full request does not always leave out the same ones.
        self._active[queue.partition] = self._active.pop(queue.partition)

    # Outcomes

    def end_attempt(self, batch: Batch) -> None:
        """Ends the attempt to send the batch, which may still wait for its outcome."""
        self._queues[batch.partition].on_wire -= 1
        batch.is_on_wire = False

    def succeed(self, batch: Batch, base_offset: int = NO_OFFSET, log_append_time_ms: int = -1) -> None:
        """Notes that the batch was appended. If the batch has expired meanwhile, it leaves no gap in the sequence."""
        queue = self._queues[batch.partition]
        if batch.base_sequence != NO_SEQUENCE and batch.identity == queue.sequences.identity:
            queue.sequences.acknowledge(batch.base_sequence, len(batch.records))
            self._succeed_rejected(queue)
        if not batch.is_done:
            self._remove(queue, batch)
            batch.succeed(base_offset, log_append_time_ms)

    def reject_sequence(self, batch: Batch, failure: Exception) -> None:
        """The leader does not have what comes before the batch: OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID.

        The error says nothing while an earlier batch is to be sent again. Otherwise the oldest batch either is not in
        the log, or an earlier attempt has appended it and the leader has forgotten it: after a restart from a snapshot,
        the leader only knows the last batch of a producer. So the later batches are sent again, one after the other. A
        success shows that all batches before it were appended. If all are rejected, none is in the log, and all of them
        can be sent under a new epoch without a duplicate (KIP-360). A transaction gets its new epoch after it was
        aborted, so there the batch fails.
        """
        assert self.identity is not None, "only sequences are rejected"
        queue = self._queues[batch.partition]
        if batch.is_done or batch is not queue.oldest_to_resend() or queue.must_renumber:
            return
        if self.transaction is not None:
            self.fail(batch, failure)
            return
        batch.is_rejected = True
        was_never_appended = batch.attempts == 1 and batch is queue.outstanding[0]
        if was_never_appended or queue.oldest_to_resend() is None:
            self._begin_renumbering(queue)

    def _begin_renumbering(self, queue: PartitionQueue) -> None:
        assert self.identity is not None, "only sequences are renumbered"
        queue.must_renumber = True
        if queue.sequences.identity == self.identity.current:
            self.identity.bump()

    def _succeed_rejected(self, queue: PartitionQueue) -> None:
        """Succeeds the rejected batches before an appended one: they were appended too. Their offsets are not known."""
        for batch in [batch for batch in queue.outstanding if batch.is_rejected]:
            self._remove(queue, batch)
            batch.succeed(NO_OFFSET)

    def fail(self, batch: Batch, error: Exception, record_errors: dict[int, Exception] | None = None) -> None:
        """Fails the batch with this error."""
        if not batch.is_done:
            queue = self._queues[batch.partition]
            if batch.base_sequence != NO_SEQUENCE:
                queue.sequences.has_gap = True
            self._remove(queue, batch)
            if queue.outstanding and queue.oldest_to_resend() is None and not queue.must_renumber:
                self._begin_renumbering(queue)  # the batch was the last one to ask with
            self.note_failure(batch, error)
            batch.fail(error, record_errors)

    def note_failure(self, batch: Batch, error: Exception) -> None:
        """Notes that a batch is given up: its transaction, if there is one, can no longer be committed.

        Without a transaction the records count as unread failures, unless the caller waits for the whole batch.
        """
        if self.transaction is not None:
            self.transaction.batch_failed(error)
        elif not isinstance(batch.records, RecordColumns):
            batch.count_unread(self.failures, error)

    def split(self, batch: Batch, now: float) -> None:
        """Replaces a batch that is too large for the broker by two halves, with the same sequences."""
        if batch.is_done:
            return
        queue = self._queues[batch.partition]
        self.ratios.forget(batch.partition.topic)
        half = len(batch.records) // 2
        parts: list[Batch] = []
        for start, records in ((0, batch.records[:half]), (half, batch.records[half:])):
            part = Batch(batch.partition, batch.created_at, 0)
            part.records = records
            part.size = batch.size - parts[0].size if parts else _estimated_size(records)
            part.retry_at = now
            part.identity = batch.identity
            if batch.base_sequence != NO_SEQUENCE:
                part.base_sequence = sequence_after(batch.base_sequence, start)
            parts.append(part)
        at = queue.outstanding.index(batch)
        queue.outstanding[at : at + 1] = parts
        batch.move([(part, index) for part in parts for index in range(len(part.records))])

    def expired(self, now: float) -> list[Batch]:
        """The batches whose delivery timeout is over. The caller fails them."""
        timeout_s = self.limits.delivery_timeout_s
        found = []
        for queue in self._active.values():
            # The same sum as in `_due`: a difference may be rounded to another result, at the very end of the timeout.
            if queue.oldest().created_at + timeout_s <= now:
                batches = [*queue.outstanding, *queue.waiting]
                found += [batch for batch in batches if batch.created_at + timeout_s <= now]
        return found

    def _remove(self, queue: PartitionQueue, batch: Batch) -> None:
        if batch in queue.outstanding:
            queue.outstanding.remove(batch)
        else:
            queue.waiting.remove(batch)
            if batch is queue.filling:
                queue.filling = None
        self.memory.release(batch.size)
        if queue.is_empty:
            self._active.pop(queue.partition, None)


def _estimated_size(records: Iterable[NewRecord]) -> int:
    return sum(record_size(key, value, headers) for _, key, value, headers in records)
