"""Consumer groups as a kind of group: how their records are replayed, and how they follow metadata and leadership."""

from collections.abc import Callable
from typing import Any, Final

import attrs

from broker.coordinator.group.consumer.assignment_epochs import NO_EPOCHS
from broker.coordinator.group.consumer.consumer_group import NO_ASSIGNMENT_EPOCH, ConsumerGroup
from broker.coordinator.group.consumer.leaving import start_rebalance_timeout, start_session
from broker.coordinator.group.consumer.member import LEAVE_EPOCH, ConsumerMember, MemberState, ResolvedRegex
from broker.coordinator.group.consumer.shard import ConsumerGroupShard
from broker.coordinator.group.group_kind import GroupKind, replays_of
from broker.coordinator.group.partition_sets import NO_PARTITIONS, partition_sets
from broker.coordinator.group.record_formats import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from metadata.image import MetadataDelta, MetadataImage

# See `broker.coordinator.group.group_kind.replays_of` for the functions that replay.


def _replay_epoch(group: ConsumerGroup, key: Any, value: Any) -> None:
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _replay_member(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.remove(key.member_id)
    else:
        group.put(_member(group, key.member_id).with_metadata(value))


def _replay_target(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = partition_sets(value.topic_partitions)


def _replay_assignment_epoch(group: ConsumerGroup, key: Any, value: Any) -> None:
    group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch


def _replay_assignment(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is not None:
        group.put(_member(group, key.member_id).with_assignment(value))
    elif key.member_id in group.members:
        group.put(
            attrs.evolve(
                group.members[key.member_id],
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=NO_PARTITIONS,
                pending_revocation=NO_PARTITIONS,
                assignment_epochs=NO_EPOCHS,
            )
        )


def _replay_regex(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = ResolvedRegex(tuple(value.topics), value.version, value.timestamp)


def _replay_nothing(group: ConsumerGroup, key: Any, value: Any) -> None:
    """The record is not needed, since ConsumerGroupMetadataValue has a hash of the metadata."""


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    return ConsumerMember(member_id=member_id) if member is None else member


_REPLAY: Final[dict[type[Any], Callable[[ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: _replay_epoch,
    ConsumerGroupPartitionMetadataKey: _replay_nothing,
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_assignment_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_assignment,
    ConsumerGroupRegularExpressionKey: _replay_regex,
}


def _on_loaded(state: ConsumerGroupShard, now_ms: int) -> None:
    """Starts new sessions for all members, since only their former coordinator knows their last heartbeats."""
    state.topics_version = state.context.image.offset
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                start_session(state, group.group_id, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    start_rebalance_timeout(state, group.group_id, member)


def _on_metadata_change(state: ConsumerGroupShard, delta: MetadataDelta, image: MetadataImage) -> None:
    """Makes groups that are subscribed to a changed topic look at their topics with the next heartbeat."""
    changed, deleted = delta.topics.changed.values(), delta.topics.deleted.values()
    if any(topic.base is None for topic in changed):
        state.topics_version = image.offset
    names = [topic.name for topic in changed] + [topic.name for topic in deleted]
    if not names:
        return
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup) and any(group.is_subscribed_to(name) for name in names):
            group.refresh_at_ms = 0


CONSUMER_GROUPS: Final = GroupKind(
    replay=replays_of(ConsumerGroup, ConsumerGroupMetadataKey, _REPLAY),
    on_loaded=_on_loaded,
    on_metadata_change=_on_metadata_change,
)
