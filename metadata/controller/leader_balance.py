"""Elects preferred leaders of imbalanced partitions periodically (auto.leader.rebalance.enable).

After a restart, a broker leads no partitions, because other brokers have taken over. A partition becomes imbalanced
when its preferred leader is in the ISR again. The set of imbalanced partitions follows the metadata, so a check visits
only these, and costs nothing in a balanced cluster. The set is soft state of the active controller.
"""

from typing import Final

from metadata.configuration import ConfigSchema
from metadata.controller.elect_leaders import preferred_election
from metadata.controller.partition_change_builder import ElectionRules, election_rules
from metadata.image import MetadataDelta, MetadataImage, PartitionImage
from metadata.records import NO_LEADER, PartitionChangeRecord

# Kafka's bound of elections in one batch, and its pause before the next batch. A batch blocks the controller, and each
# of its leaders starts a new epoch.
ELECTIONS_PER_BATCH_MAX: Final = 1_000
BETWEEN_BATCHES_MS: Final = 10


class LeaderBalance:
    """`interval_ms` is leader.imbalance.check.interval.seconds in ms; None disables automatic elections.

    The first check is one interval after a partition has become imbalanced, as in Kafka. Times are milliseconds of one
    monotonic clock.
    """

    def __init__(self, schema: ConfigSchema, interval_ms: float | None) -> None:
        self._schema = schema
        self._interval_ms = interval_ms
        self._imbalanced: dict[tuple[bytes, int], None] = {}
        self._check_ms: float | None = None

    @property
    def next_check_ms(self) -> float | None:
        """The time at which `batch` is to be called; None without imbalanced partitions."""
        return self._check_ms

    def reset(self, image: MetadataImage, now_ms: float) -> None:
        """Start from an image when this controller becomes active."""
        self._imbalanced.clear()
        self._check_ms = None
        if self._interval_ms is not None:
            for topic in image.topics.by_id.values():
                for partition_id, partition in topic.partitions.items():
                    self._track((topic.topic_id, partition_id), partition)
            self._schedule_check(now_ms)

    def update(self, delta: MetadataDelta, now_ms: float) -> None:
        """Follow a change. The cost depends on the number of changed partitions."""
        if self._interval_ms is None:
            return
        for topic in delta.topics.deleted.values():
            for partition_id in topic.partitions:
                self._imbalanced.pop((topic.topic_id, partition_id), None)
        for changed in delta.topics.changed.values():
            for partition_id, partition in changed.partitions.items():
                self._track((changed.topic_id, partition_id), partition)
        self._schedule_check(now_ms)

    def batch(self, image: MetadataImage, now_ms: float) -> list[PartitionChangeRecord]:
        """Return the elections of a check, in the order in which the partitions became imbalanced."""
        assert self._interval_ms is not None, "no check is ever due"
        records: list[PartitionChangeRecord] = []
        rules: dict[bytes, ElectionRules] = {}
        for topic_id, partition_id in self._imbalanced:
            topic = image.topics.by_id[topic_id]
            if topic_id not in rules:
                rules[topic_id] = election_rules(image, topic, self._schema)
            partition = topic.partitions[partition_id]
            record = preferred_election(image, topic, partition_id, partition, rules[topic_id])
            if record is not None:
                records.append(record)
                if len(records) == ELECTIONS_PER_BATCH_MAX:
                    self._check_ms = now_ms + BETWEEN_BATCHES_MS
                    return records
        self._check_ms = now_ms + self._interval_ms if self._imbalanced else None
        return records

    def _track(self, key: tuple[bytes, int], partition: PartitionImage) -> None:
        if is_imbalanced(partition):
            self._imbalanced[key] = None
        else:
            self._imbalanced.pop(key, None)

    def _schedule_check(self, now_ms: float) -> None:
        if self._imbalanced and self._check_ms is None and self._interval_ms is not None:
            self._check_ms = now_ms + self._interval_ms


def is_imbalanced(partition: PartitionImage) -> bool:
    """True if another replica leads than the preferred one, which is in sync."""
    preferred = partition.replicas[0]
    return partition.leader not in (preferred, NO_LEADER) and preferred in partition.isr
