"""The start offsets of share groups, which the share coordinator keeps: what a shard decides about them (KIP-932).

A decision comes before the request to the share coordinator, and another one when that has ended.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Final

from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, intersection, union
from broker.coordinator.group.share.partition_states import (
    RESET_OFFSET,
    Initialization,
    PartitionStates,
    StartOffsets,
)
from broker.coordinator.group.share.records import assignment_epoch_record, epoch_record, states_record
from broker.coordinator.group.share.shard import ShareGroupShard, config_of, share_group, share_group_or_new
from broker.coordinator.group.share.share_group import ShareGroup
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataImage, TopicImage

# Kafka's message.
UNKNOWN_PARTITION: Final = "This server does not host this topic-partition."

# A new group has this epoch, as in Kafka, without topics and without members.
_FIRST_EPOCH: Final = 1
_NO_HASH: Final = 0
_NO_TIME_MS: Final = 0
# The number of topics or partitions that are checked or described in one step: some 0.1 ms.
STEP_ITEMS: Final = 32

# Initialization


def still_initializing(state: ShareGroupShard, initialization: Initialization) -> PartitionSets:
    """The partitions that have yet to be initialized. An earlier request may have done so by now, and to do so again
    would undo what the group has consumed since.
    """
    group = state.groups.get(initialization.group_id)
    if not isinstance(group, ShareGroup):
        return NO_PARTITIONS
    return intersection(initialization.partitions, group.states.initializing)


def end_initialization(
    state: ShareGroupShard, initialization: Initialization, succeeded: PartitionSets, now_ms: int
) -> Decision[None]:
    """Records which of the partitions now have a state. After a failure, heartbeats begin again a little later."""
    group_id = initialization.group_id
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return Decision((), None)
    partitions = initialization.partitions
    ended = group.states.ended(succeeded, partitions)
    has_failed = any(partitions[topic_id] - succeeded.get(topic_id, frozenset()) for topic_id in partitions)
    pause_ms = config_of(state, group_id, state.config.share).heartbeat_interval_ms

    def apply() -> None:
        group.end_initialization(partitions)
        if has_failed:
            group.initialize_at_ms = now_ms + pause_ms

    return Decision(_change(state, group, ended), None, apply)


def _change(state: ShareGroupShard, group: ShareGroup, states: PartitionStates) -> list[CoordinatorRecord]:
    """The record of the group's new states; none if they are as before."""
    if states == group.states:
        return []
    return [states_record(group.group_id, states.as_value(state.context.image))]


# AlterShareGroupOffsets


def start_offsets(
    topics: Sequence[AlterShareGroupOffsetsRequestTopic], image: MetadataImage
) -> Generator[None, None, tuple[list[AlterShareGroupOffsetsResponseTopic], StartOffsets]]:
    """Checks new start offsets, in steps: a request can have 10,000, and the decision about the group is one step.

    Returns the response, which has all partitions, and the offsets of those whose codes in it are NONE.
    """
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
    offsets: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        known = image.topics.by_name.get(topic.topic_name)
        response = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        if known is not None:
            response.topic_id = known.topic_id
        for each in topic.partitions:
            error = _offset_error(known, each.partition_index, each.start_offset)
            response.partitions.append(_altered(each.partition_index, error))
            if known is not None and error is None:
                offsets.setdefault(known.topic_id, {})[each.partition_index] = each.start_offset
            if not len(response.partitions) % STEP_ITEMS:
                yield
        responses.append(response)
        if not len(responses) % STEP_ITEMS:
            yield
    return responses, offsets


def alter_offsets(
    state: ShareGroupShard, group_id: str, offsets: StartOffsets, now_ms: int
) -> Decision[Initialization]:
    """Decides about new start offsets, of which a group without members may have none yet. Raises KafkaError."""
    group = share_group_or_new(state, group_id)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    initialization = Initialization(group_id, group.epoch or _FIRST_EPOCH, offsets)
    records = _change(state, group, group.states.beginning(initialization.partitions))
    if records:
        records = [*_first_epoch(group), *records]

    def apply() -> None:
        if records:
            share_group(state, group_id).begin_initialization(initialization.partitions, now_ms)

    return Decision(records, initialization, apply)


def _first_epoch(group: ShareGroup) -> list[CoordinatorRecord]:
    """The records of a new group's epoch; none of other groups."""
    if group.epoch:
        return []
    return [
        epoch_record(group.group_id, _FIRST_EPOCH, _NO_HASH),
        assignment_epoch_record(group.group_id, _FIRST_EPOCH, _NO_TIME_MS),
    ]


def _offset_error(topic: TopicImage | None, partition: int, start_offset: int) -> KafkaError | None:
    if topic is None or partition not in topic.partitions:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION)
    if start_offset < RESET_OFFSET:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"{start_offset} is no start offset.")
    return None


def _altered(partition: int, error: KafkaError | None) -> AlterShareGroupOffsetsResponsePartition:
    if error is None:
        return AlterShareGroupOffsetsResponsePartition(partition_index=partition)
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=partition, error_code=error.code, error_message=error.message
    )


# DeleteShareGroupOffsets, and DeleteGroups


def delete_offsets(
    state: ShareGroupShard, group_id: str, topic_names: Iterable[str]
) -> Decision[tuple[PartitionSets, frozenset[str]]]:
    """Decides about the deletion of topics' states. Returns the partitions to delete, and the names of existing topics
    without a state. Raises KafkaError.
    """
    group = share_group(state, group_id)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    by_name = state.context.image.topics.by_name
    named = {by_name[name].topic_id: name for name in topic_names if name in by_name}
    partitions = group.states.to_delete(named, state.context.image)
    without = frozenset(name for topic_id, name in named.items() if topic_id not in partitions)
    return Decision(_change(state, group, group.states.deleting_topics(partitions)), (partitions, without))


def delete_states(state: ShareGroupShard, group_ids: Iterable[str]) -> Decision[dict[str, PartitionSets | KafkaError]]:
    """Decides about the deletion of all states of groups that are about to be deleted: the partitions to delete of each
    share group, or NON_EMPTY_GROUP. Other groups are left out.
    """
    records: list[CoordinatorRecord] = []
    outcomes: dict[str, PartitionSets | KafkaError] = {}
    for group_id in group_ids:
        group = state.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            continue
        if not group.is_empty:
            outcomes[group_id] = KafkaError(ErrorCode.NON_EMPTY_GROUP)
            continue
        partitions = group.states.to_delete(group.states.topic_ids, state.context.image)
        records += _change(state, group, group.states.deleting_topics(partitions))
        outcomes[group_id] = partitions
    return Decision(records, outcomes, atomic=False)


def still_deleting(state: ShareGroupShard, group_id: str, partitions: PartitionSets) -> PartitionSets:
    """The partitions that are still to be deleted. Those of a topic that a new member has subscribed to are not."""
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return NO_PARTITIONS
    return {topic_id: indexes for topic_id, indexes in partitions.items() if topic_id in group.states.deleting}


def end_deletion(state: ShareGroupShard, group_id: str, topic_ids: Iterable[bytes]) -> Decision[None]:
    """Records that the states of these topics are deleted."""
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return Decision((), None)
    return Decision(_change(state, group, group.states.deleted(topic_ids)), None)


# DescribeShareGroupOffsets


def initialized_partitions(state: ShareGroupShard, group_id: str) -> PartitionSets:
    """The partitions of which the group has a start offset; none if there is no such group."""
    group = state.groups.get(group_id)
    return group.states.initialized if isinstance(group, ShareGroup) else NO_PARTITIONS


def has_states(group: ShareGroup) -> bool:
    """True if the share coordinator may have states of the group that are not about to be deleted."""
    return any(union(group.states.initialized, group.states.initializing).values())
