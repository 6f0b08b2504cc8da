"""Which partitions of a share group have a state in the share coordinator, as the group's record lists them (KIP-932).

A partition is assigned to members once its state is initialized. The record is written before the share coordinator is
asked, so that a new group coordinator knows which requests may have been under way, and repeats them.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from broker.coordinator.group.partition_sets import (
    NO_PARTITIONS,
    PartitionSets,
    difference,
    intersection,
    of_topic,
    union,
)
from broker.coordinator.group.share.record_formats import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from kraft import lazy_attrs
from metadata.image import MetadataImage

# The start offset of a state that the leader of the partition sets by `share.auto.offset.reset`.
RESET_OFFSET: Final = -1
# Partitions that are added to a topic are consumed from their first record: no record was written before the group
# was subscribed.
_FIRST_OFFSET: Final = 0
_UNKNOWN_NAME: Final = "<UNKNOWN>"


# By topic id and partition.
StartOffsets: TypeAlias = Mapping[bytes, Mapping[int, int]]


@lazy_attrs.frozen
class Initialization:
    """States that the share coordinator has to initialize, with their start offsets, at `state_epoch`."""

    group_id: str
    state_epoch: int
    start_offsets: StartOffsets

    @property
    def partitions(self) -> PartitionSets:
        return {topic_id: frozenset(offsets) for topic_id, offsets in self.start_offsets.items()}


@lazy_attrs.frozen
class PartitionStates:
    """The partitions of one group. `deleting` has topic ids, since all partitions of a topic are deleted together.

    A partition that is initialized and initializing gets another start offset.
    """

    initializing: PartitionSets = NO_PARTITIONS
    initialized: PartitionSets = NO_PARTITIONS
    deleting: frozenset[bytes] = frozenset()

    @property
    def topic_ids(self) -> list[bytes]:
        """All topics of which the share coordinator has, or may have, states."""
        return list(dict.fromkeys([*self.initializing, *self.initialized, *sorted(self.deleting)]))

    def missing(self, topic_ids: Iterable[bytes], image: MetadataImage, *, under_way: PartitionSets) -> PartitionSets:
        """The partitions of these topics that have no initialized state.

        Partitions `under_way` are left out while they are initializing: a request waits for its response.
        """
        missing: dict[bytes, frozenset[int]] = {}
        for topic_id in topic_ids:
            partitions = image.topics.by_id[topic_id].partitions
            known = of_topic(self.initialized, topic_id)
            if topic_id in under_way:
                known |= of_topic(self.initializing, topic_id) & under_way[topic_id]
            if len(known) < len(partitions):
                missing[topic_id] = frozenset(partitions) - known
        return {topic_id: indexes for topic_id, indexes in missing.items() if indexes}

    def start_offset(self, topic_id: bytes) -> int:
        """The start offset of a partition's new state.

        Kafka also counts a topic that is only initializing as known. So a coordinator that repeats the first
        initialization of a topic ignores `share.auto.offset.reset` there.
        """
        return _FIRST_OFFSET if topic_id in self.initialized else RESET_OFFSET

    def to_delete(self, topic_ids: Iterable[bytes], image: MetadataImage) -> PartitionSets:
        """The partitions of these topics that have, or may have, a state."""
        partitions: dict[bytes, frozenset[int]] = {}
        for topic_id in topic_ids:
            topic = image.topics.by_id.get(topic_id)
            known = of_topic(self.initialized, topic_id) | of_topic(self.initializing, topic_id)
            if topic_id in self.deleting and topic is not None:
                known |= frozenset(topic.partitions)  # the record of a deletion that failed has only the topic
            if known:
                partitions[topic_id] = known
        return partitions

    # Changes

    def beginning(self, partitions: PartitionSets) -> "PartitionStates":
        """The states when an initialization of these partitions begins."""
        return PartitionStates(
            union(self.initializing, partitions), self.initialized, self.deleting.difference(partitions)
        )

    def ended(self, succeeded: PartitionSets, failed: PartitionSets) -> "PartitionStates":
        """The states when an initialization has ended.

        A partition that is no longer initializing stays as it is: its topic was deleted meanwhile, or its state is to
        be deleted.
        """
        return PartitionStates(
            difference(difference(self.initializing, succeeded), failed),
            union(self.initialized, intersection(succeeded, self.initializing)),
            self.deleting,
        )

    def deleting_topics(self, topic_ids: Iterable[bytes]) -> "PartitionStates":
        """The states when a deletion of these topics' states begins."""
        gone = frozenset(topic_ids)
        return PartitionStates(
            _without(self.initializing, gone), _without(self.initialized, gone), self.deleting | gone
        )

    def deleted(self, topic_ids: Iterable[bytes]) -> "PartitionStates":
        """The states when these topics' states are deleted."""
        return attrs.evolve(self, deleting=self.deleting.difference(topic_ids))

    def without(self, topic_ids: Iterable[bytes]) -> "PartitionStates":
        """The states after these topics were deleted themselves."""
        gone = frozenset(topic_ids)
        return PartitionStates(
            _without(self.initializing, gone), _without(self.initialized, gone), self.deleting - gone
        )

    # Records

    @classmethod
    def from_value(cls, value: ShareGroupStatePartitionMetadataValue) -> "PartitionStates":
        return cls(
            _merged(value.initializing_topics),
            _merged(value.initialized_topics),
            frozenset(topic.topic_id for topic in value.deleting_topics),
        )

    def as_value(self, image: MetadataImage) -> ShareGroupStatePartitionMetadataValue:
        return ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(self.initializing, image),
            initialized_topics=_infos(self.initialized, image),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=_name(topic_id, image)) for topic_id in sorted(self.deleting)
            ],
        )


NO_STATES: Final = PartitionStates()


def _without(sets: PartitionSets, gone: Collection[bytes]) -> PartitionSets:
    return {topic_id: indexes for topic_id, indexes in sets.items() if topic_id not in gone}


def _merged(topics: Iterable[TopicPartitionsInfo]) -> PartitionSets:
    merged: dict[bytes, frozenset[int]] = {}
    for topic in topics:
        merged[topic.topic_id] = merged.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return {topic_id: indexes for topic_id, indexes in merged.items() if indexes}


def _infos(sets: Mapping[bytes, frozenset[int]], image: MetadataImage) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=_name(topic_id, image), partitions=sorted(indexes))
        for topic_id, indexes in sets.items()
    ]


def _name(topic_id: bytes, image: MetadataImage) -> str:
    topic = image.topics.by_id.get(topic_id)
    return _UNKNOWN_NAME if topic is None else topic.name
