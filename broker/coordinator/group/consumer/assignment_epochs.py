"""The epochs at which partitions were assigned to a member (KIP-1251).

The member may commit offsets of a partition at any epoch from the partition's assignment on. So a commit that crosses
a heartbeat, whose response has raised the member's epoch, is not lost. A commit from before the assignment is refused:
another member may have consumed the partition since.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from broker.coordinator.group.partition_sets import PartitionSets, of_topic
from broker.coordinator.group.record_formats import AssignedTopicPartitions

# By topic id and partition.
AssignmentEpochs: TypeAlias = Mapping[bytes, Mapping[int, int]]

NO_EPOCHS: Final[AssignmentEpochs] = {}
# No partition is assigned at a lower epoch; a member that has left has a negative one.
FIRST_EPOCH: Final = 0


def assigned_at(epoch: int, partitions: PartitionSets) -> AssignmentEpochs:
    """The epochs of partitions that are all assigned at the same one."""
    return {topic_id: dict.fromkeys(indexes, epoch) for topic_id, indexes in partitions.items()}


def after_step(former: AssignmentEpochs, keeps: PartitionSets, gets: PartitionSets, epoch: int) -> AssignmentEpochs:
    """The epochs of the partitions that a member keeps, and of those that it gets at `epoch`."""
    epochs: dict[bytes, dict[int, int]] = {}
    for topic_id in dict.fromkeys([*keeps, *gets]):
        its_former = former.get(topic_id, {})
        epochs[topic_id] = {index: its_former[index] for index in of_topic(keeps, topic_id)}
        epochs[topic_id].update(dict.fromkeys(of_topic(gets, topic_id), epoch))
    return epochs


def as_records(partitions: PartitionSets, epochs: AssignmentEpochs) -> list[AssignedTopicPartitions]:
    """The partitions of a record, each with its epoch."""
    return [
        AssignedTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(indexes),
            assignment_epochs=[epochs[topic_id][index] for index in sorted(indexes)],
        )
        for topic_id, indexes in partitions.items()
    ]


def from_records(topics: Iterable[Any], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """The epochs of a record's partitions. Partitions without epochs, which Kafka before 4.3 wrote, count as assigned
    at the member's epoch.
    """
    epochs: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        theirs = topic.assignment_epochs
        if theirs is None or len(theirs) != len(topic.partitions):
            theirs = [max(member_epoch, FIRST_EPOCH)] * len(topic.partitions)
        epochs.setdefault(topic.topic_id, {}).update(zip(topic.partitions, theirs, strict=True))
    return epochs
