"""A shard of the share coordinator without a node: decisions are appended to a list and replayed, as by the runtime."""

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.runtime.shard import OnTimer
from broker.coordinator.share.shard import ShareCoordinatorShard
from broker.coordinator.share.share_state import SharePartitionKey, StateBatch
from metadata.configuration import BrokerConfigs
from metadata.image import MetadataDelta, MetadataImage
from metadata.records import PartitionRecord, RemoveTopicRecord, TopicRecord

T = TypeVar("T")
GROUP = "group"
TOPIC_ID = bytes(7) + b"\1" + bytes(7) + b"\2"
KEY = SharePartitionKey(GROUP, TOPIC_ID, 0)
PARTITIONS = 2


class ShareShard:
    """The shard. `log` has the records from offset `start` on; the metadata has one topic with two partitions."""

    def __init__(self, updates_per_snapshot: int = 3, cold_interval_ms: int = 300_000) -> None:
        self.config = BrokerConfigs(
            {
                "share.coordinator.snapshot.update.records.per.snapshot": updates_per_snapshot,
                "share.coordinator.cold.partition.snapshot.interval.ms": cold_interval_ms,
            }
        )
        self.now_ms = 1_700_000_000_000
        self.image = MetadataImage()
        self.log: list[CoordinatorRecord] = []
        self.start = 0
        self.timers = self
        self.due: dict[Hashable, OnTimer] = {}
        self.change(TopicRecord(name="topic", topic_id=TOPIC_ID))
        self.change(
            *(
                PartitionRecord(topic_id=TOPIC_ID, partition_id=index, replicas=(1,), isr=(1,), leader=1)
                for index in range(PARTITIONS)
            )
        )
        self.state = self.loaded()

    def change(self, *records: Any) -> None:
        """Changes the metadata."""
        delta = MetadataDelta(self.image)
        delta.replay(list(records))
        self.image = delta.apply(0)
        if self.log:
            self.state.metadata_changed(delta, self.image)

    def delete_topic(self) -> None:
        self.change(RemoveTopicRecord(topic_id=TOPIC_ID))

    def loaded(self) -> ShareCoordinatorShard:
        """A new state, loaded from the log."""
        state = ShareCoordinatorShard(self, self.config)
        for offset, record in enumerate(self.log, self.start):
            state.replay(record.key, record.value, offset)
        state.loaded(self.now_ms)
        return state

    def prune(self) -> None:
        """Deletes the redundant records."""
        redundant = self.state.redundant_offset or 0
        del self.log[: redundant - self.start]
        self.start = max(redundant, self.start)

    def write(self, decide: Any, **fields: Any) -> Any:
        """Carries out a request; returns its response. Raises KafkaError."""
        return self._perform(partial(decide, **fields)(self.state, self.now_ms))

    def fire(self) -> None:
        """Calls the timers that are scheduled, and not those that they schedule."""
        due, self.due = self.due, {}
        for decide in due.values():
            self._perform(decide(self.state, self.now_ms))

    def _perform(self, decision: Decision[T]) -> T:
        for record in decision.records:
            self.log.append(record)
            self.state.replay(record.key, record.value, self.start + len(self.log) - 1)
        if decision.apply is not None:
            decision.apply()
        return decision.response

    # The runtime's interface for a shard

    def schedule(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        self.due[key] = decide

    def schedule_once(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        self.due.setdefault(key, decide)

    def postpone(self, key: Hashable, delay_ms: float) -> None: ...

    def cancel(self, key: Hashable) -> None: ...

    def park(self) -> Completion[Any]:
        raise NotImplementedError


def by_offset(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    """The delivery state and count of each offset."""
    return {
        offset: (batch.delivery_state, batch.delivery_count)
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
