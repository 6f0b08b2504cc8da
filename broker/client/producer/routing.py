"""Chooses the partition, and so the batch, of each record of a topic.

Records that cannot be placed yet, because the topic's metadata is not known or it does not have the partition that was
asked for, are held in the order in which they came and placed when the metadata arrives.
"""

from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Final

import attrs

from broker.client.arguments.check import shown
from broker.client.arguments.scalars import whole
from broker.client.errors import ConnectionLost, KafkaError, TimedOut
from broker.client.metadata_cache import NO_LEADER, TopicMetadata
from broker.client.producer.accumulator import Accumulator, PartitionQueue
from broker.client.producer.batch import Batch, record_size
from broker.client.producer.partitioners import KeyHashes, Partitioner, TopicPartitions, choose_sticky_partition
from broker.client.producer.record_arguments import BadPartition, check_topic, partition_number
from broker.client.records import RecordColumns
from broker.client.types import TopicPartition
from broker.wire.errors import ErrorCode
from broker.wire.uuids import ZERO_UUID

UNKNOWN_PARTITION: Final = -1


@attrs.frozen
class PartitionChoice:
    """How partitions are chosen. `custom` is None for Kafka's default.

    `is_slow(partition)` tells whether the broker of a partition takes longer than
    `partitioner.availability.timeout.ms`.
    """

    rng: Random
    batch_size: int = 16_384
    custom: Partitioner | None = None
    ignores_keys: bool = False
    is_adaptive: bool = True
    is_slow: Callable[[TopicPartition], bool] = lambda partition: False


def hold_timeout(
    topic: str, known: TopicMetadata | None, trouble: ConnectionLost | None, max_block_ms: float
) -> TimedOut:
    """The error of records that could not be placed within `max.block.ms`; `known` is what the metadata has."""
    if trouble is not None:
        reason = str(trouble)
    elif known is not None and known.partitions:
        count = len(known.partitions)
        partitions = "1 partition" if count == 1 else f"{count} partitions"
        reason = f"topic {topic} has {partitions}: the partition that was asked for is none of them"
    elif known is not None and known.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        reason = f"topic {topic} does not exist: create it, or check its name"
    elif known is not None:
        reason = f"topic {topic}: {KafkaError(known.error)}"
    else:
        reason = f"the brokers did not describe topic {topic}"
    error = TimedOut(f"the record was not sent within {max_block_ms:g} ms (max.block.ms): {reason}")
    error.__cause__ = trouble
    return error


class TopicRouting:
    """The partitions of one topic, and the records that wait for them to be known."""

    def __init__(
        self, topic: str, accumulator: Accumulator, choice: PartitionChoice, hashes: KeyHashes, now: Callable[[], float]
    ) -> None:
        check_topic(topic)
        self.topic = topic
        self.queues: list[PartitionQueue] = []
        self._topic_id = ZERO_UUID
        self._available: Sequence[int] = ()
        self._accumulator = accumulator
        self.choice = choice
        self._hashes = hashes
        self._clock = now
        # Where records without a key go, and how many bytes went there.
        self.sticky: PartitionQueue | None = None
        self._sticky_batch: Batch | None = None
        self._sticky_bytes = 0
        self._used_at = now()
        # Held records, and the partition that each of them was given.
        self._held: Batch | None = None
        self._held_partitions: list[int | None] = []

    @property
    def held(self) -> Batch | None:
        """The records that cannot be placed yet."""
        return self._held

    def is_idle_since(self, since: float) -> bool:
        """True if no record was added since then, and none waits for its outcome."""
        return self._used_at <= since and self._held is None and all(queue.is_empty for queue in self.queues)

    def update(self, metadata: TopicMetadata) -> None:
        """Takes the topic's partitions, and places the records that waited for them.

        Only a topic that was created again can have fewer than before. Outdated metadata can have fewer, too.
        """
        if metadata.id != self._topic_id:
            self._topic_id = metadata.id
            del self.queues[len(metadata.partitions) :]
            self.sticky = None
        for number in range(len(self.queues), len(metadata.partitions)):
            self.queues.append(self._accumulator.queue(TopicPartition(self.topic, number)))
        self._available = [each.partition for each in metadata.partitions if each.leader_id != NO_LEADER]
        if self._held is not None and self.queues:
            held, partitions = self._held, self._held_partitions
            self._held, self._held_partitions = None, []
            self._place(held, partitions)

    def give_up_held(self, error: Exception) -> None:
        """Fails the records that cannot be placed."""
        if (held := self._held) is not None:
            self._held, self._held_partitions = None, []
            self._accumulator.memory.release(held.size)
            self._accumulator.note_failure(held, error)
            held.fail(error)

    def batch_for(self, key: bytes | None, value: bytes | None, partition: int | None, size: int) -> Batch:
        """The batch that takes a record of this size; the caller adds it. Raises BadPartition."""
        if partition is not None and type(partition) is not int:
            partition = partition_number(self.topic, partition)
        if not self.queues or (partition is not None and not 0 <= partition < len(self.queues)):
            return self._hold(partition)
        if partition is None:
            choice = self.choice
            if choice.custom is not None:
                partition = self.apply(choice.custom, key, value)
            elif key is None or choice.ignores_keys:
                return self.sticky_batch(size)
            else:
                partition = self._hashes[key] % len(self.queues)
        queue = self.queues[partition]
        batch = queue.filling
        if batch is None or batch.size + size > batch.limit:
            batch = self._accumulator.begin_batch(queue, self._now())
        return batch

    def add_complete_batch(self, partition: int, records: RecordColumns, size: int) -> Batch:
        """Adds a batch of its own after the records before; the caller has counted its size as used memory."""
        queue = self._accumulator.queue(TopicPartition(self.topic, partition))
        return self._accumulator.add_complete_batch(queue, records, size, self._now())

    def sticky_batch(self, size: int) -> Batch:
        """The batch for a record without a key. The partition changes between batches, after `batch.size` bytes."""
        if self.sticky is None:
            self.sticky = self.next_sticky()
        batch = self.sticky.filling
        if batch is not None and batch.size + size <= batch.limit:
            return batch
        if self._sticky_batch is not None:
            self._sticky_bytes += self._sticky_batch.size
            if self._sticky_bytes >= self.choice.batch_size or batch is not None:
                self.sticky = self.next_sticky()
                self._sticky_bytes = 0
        self._sticky_batch = self._accumulator.batch_for(self.sticky, size, self._now())
        return self._sticky_batch

    def next_sticky(self) -> PartitionQueue:
        """Chooses a partition for records without a key."""
        choice = self.choice
        partition = choose_sticky_partition(
            TopicPartitions(len(self.queues), self._available),
            choice.rng,
            queue_length=(lambda number: len(self.queues[number].waiting)) if choice.is_adaptive else None,
            is_slow=lambda number: choice.is_slow(self.queues[number].partition),
        )
        return self.queues[partition]

    def apply(self, partitioner: Partitioner, key: bytes | None, value: bytes | None) -> int:
        """Calls a custom partitioner. Raises BadPartition, and the partitioner's exceptions."""
        chosen = partitioner(self.topic, key, value, TopicPartitions(len(self.queues), self._available))
        partition = whole(chosen)
        if partition is None or not 0 <= partition < len(self.queues):
            raise BadPartition(
                f"the partitioner returned partition {shown(chosen)} for topic {self.topic}, which has"
                f" {len(self.queues)}: it must return a number from 0 to the count of partitions minus 1"
            )
        return partition

    def _hold(self, partition: int | None) -> Batch:
        if partition is not None:
            partition = partition_number(self.topic, partition)
        if self._held is None:
            self._held = self._accumulator.begin_held(TopicPartition(self.topic, UNKNOWN_PARTITION), self._now())
        self._held_partitions.append(partition)
        return self._held

    def _now(self) -> float:
        """The time at which a batch is begun."""
        self._used_at = self._clock()
        return self._used_at

    def _place(self, held: Batch, partitions: list[int | None]) -> None:
        moved: list[tuple[Batch, int]] = []
        for record, partition in zip(held.records, partitions, strict=True):
            _, key, value, headers = record
            size = record_size(key, value, headers)
            try:
                batch = self.batch_for(key, value, partition, size)
            except Exception as error:  # noqa: BLE001  what the application's partitioner raises is the record's error
                batch = Batch(held.partition, held.created_at, inf)
                batch.records.append(record)
                self._accumulator.note_failure(batch, error)
                batch.fail(error)
                self._accumulator.memory.release(size)
                moved.append((batch, 0))
                continue
            batch.created_at = min(batch.created_at, held.created_at)
            batch.records.append(record)
            batch.size += size
            moved.append((batch, len(batch.records) - 1))
        held.move(moved)
