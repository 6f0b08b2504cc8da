"""Leadership goes back to preferred leaders after some time (auto.leader.rebalance.enable).

A broker that went and came again leads nothing: others have taken over. Its partitions are known here from the moment
it is in sync with them again, so that a check looks at those which can move, and at no others: a cluster in balance
costs nothing, however many partitions it has. Soft state of the active controller, which never reaches the log.
"""

from typing import Final

from metadata.configuration import ConfigSchema
from metadata.controller.elect_leaders import preferred_election
from metadata.controller.partition_change_builder import ElectionRules, election_rules
from metadata.image import MetadataDelta, MetadataImage, PartitionImage
from metadata.records import NO_LEADER, PartitionChangeRecord

# Kafka's bound on what one check moves, and its pause before the next where there was more to move: a batch keeps the
# controller from all else, and each of its leaders begins with an epoch of its own.
ELECTIONS_PER_BATCH_MAX: Final = 1_000
BETWEEN_BATCHES_MS: Final = 10


class LeaderBalance:
    """`interval_ms` is leader.imbalance.check.interval.seconds, None where nothing is to be moved by itself.

    The first check comes so long after something can be moved, as in Kafka, and the next so long after it. Times are
    milliseconds of one steady clock.
    """

    def __init__(self, schema: ConfigSchema, interval_ms: float | None) -> None:
        self._schema = schema
        self._interval_ms = interval_ms
        self._imbalanced: dict[tuple[bytes, int], None] = {}
        self._check_ms: float | None = None

    @property
    def next_check_ms(self) -> float | None:
        """When `batch` is to be called; None while there is nothing to move."""
        return self._check_ms

    def reset(self, image: MetadataImage, now_ms: float) -> None:
        """This controller takes over."""
        self._imbalanced.clear()
        self._check_ms = None
        if self._interval_ms is not None:
            for topic in image.topics.by_id.values():
                for partition_id, partition in topic.partitions.items():
                    self._track((topic.topic_id, partition_id), partition)
            self._schedule_check(now_ms)

    def update(self, delta: MetadataDelta, now_ms: float) -> None:
        """Costs what has changed."""
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
        """What the check that is due moves; those first that could be moved first."""
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
    """Whether another replica leads than the first one, which is in sync."""
    preferred = partition.replicas[0]
    return partition.leader not in (preferred, NO_LEADER) and preferred in partition.isr
