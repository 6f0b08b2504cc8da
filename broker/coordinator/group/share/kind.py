"""Share groups as a kind of group: how their records are replayed, and how they follow metadata and leadership."""

from collections.abc import Callable
from typing import Any, Final

import attrs

from broker.coordinator.group.group_kind import GroupKind, replays_of
from broker.coordinator.group.partition_sets import NO_PARTITIONS, partition_sets
from broker.coordinator.group.share.leaving import start_session
from broker.coordinator.group.share.partition_states import NO_STATES, PartitionStates
from broker.coordinator.group.share.record_formats import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from broker.coordinator.group.share.records import states_record
from broker.coordinator.group.share.shard import ShareGroupShard, config_of
from broker.coordinator.group.share.share_group import LEAVE_EPOCH, NO_ASSIGNMENT_EPOCH, ShareGroup, ShareMember
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from metadata.image import MetadataDelta, MetadataImage

_DELETED_TOPICS: Final = "share-deleted-topics"

# See `broker.coordinator.group.group_kind.replays_of` for the functions that replay.


def _replay_epoch(group: ShareGroup, key: Any, value: Any) -> None:
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _replay_member(group: ShareGroup, key: Any, value: Any) -> None:
    if value is None:
        group.remove(key.member_id)
    else:
        group.put(_member(group, key.member_id).with_metadata(value))


def _replay_target(group: ShareGroup, key: Any, value: Any) -> None:
    group.set_target(key.member_id, None if value is None else partition_sets(value.topic_partitions))


def _replay_assignment_epoch(group: ShareGroup, key: Any, value: Any) -> None:
    if value is None:
        group.assignment_epoch, group.assigned_at_ms = NO_ASSIGNMENT_EPOCH, 0
    else:
        group.assignment_epoch, group.assigned_at_ms = value.assignment_epoch, value.assignment_timestamp


def _replay_assignment(group: ShareGroup, key: Any, value: Any) -> None:
    if value is not None:
        group.put(_member(group, key.member_id).with_assignment(value))
    elif key.member_id in group.members:
        group.put(
            attrs.evolve(
                group.members[key.member_id],
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=NO_PARTITIONS,
            )
        )


def _replay_states(group: ShareGroup, key: Any, value: Any) -> None:
    group.states = NO_STATES if value is None else PartitionStates.from_value(value)


def _member(group: ShareGroup, member_id: str) -> ShareMember:
    member = group.members.get(member_id)
    return ShareMember(member_id=member_id) if member is None else member


_REPLAY: Final[dict[type[Any], Callable[[ShareGroup, Any, Any], None]]] = {
    ShareGroupMetadataKey: _replay_epoch,
    ShareGroupMemberMetadataKey: _replay_member,
    ShareGroupTargetAssignmentMetadataKey: _replay_assignment_epoch,
    ShareGroupTargetAssignmentMemberKey: _replay_target,
    ShareGroupCurrentMemberAssignmentKey: _replay_assignment,
    ShareGroupStatePartitionMetadataKey: _replay_states,
}


def _on_loaded(state: ShareGroupShard, now_ms: int) -> None:
    """Starts new sessions for all members, since only their former coordinator knows their last heartbeats.

    The next heartbeat repeats the initializations of the former coordinator, whose responses are lost.
    """
    for group in share_groups(state):
        config = config_of(state, group.group_id, state.config.share)
        for member_id in group.members:
            start_session(state, group.group_id, member_id, config)
    _remove_deleted_topics(state)


def _on_metadata_change(state: ShareGroupShard, delta: MetadataDelta, image: MetadataImage) -> None:
    """Makes groups that are subscribed to a changed topic look at their topics with the next heartbeat."""
    names = [topic.name for topics in (delta.topics.changed, delta.topics.deleted) for topic in topics.values()]
    if not names:
        return
    for group in state.groups.values():
        if isinstance(group, ShareGroup) and any(group.is_subscribed_to(name) for name in names):
            group.has_stale_topics = True
    if delta.topics.deleted:
        _remove_deleted_topics(state)


def _remove_deleted_topics(state: ShareGroupShard) -> None:
    """Has groups forget topics that were deleted, whose states the share coordinator removes by itself."""
    topics = state.context.image.topics.by_id
    if any(topic_id not in topics for group in share_groups(state) for topic_id in group.states.topic_ids):
        state.context.timers.schedule(_DELETED_TOPICS, 0, _decide_without_deleted_topics)


def _decide_without_deleted_topics(state: ShareGroupShard, now_ms: int) -> Decision[None]:
    records: list[CoordinatorRecord] = []
    image = state.context.image
    for group in share_groups(state):
        gone = [topic_id for topic_id in group.states.topic_ids if topic_id not in image.topics.by_id]
        if gone:
            records.append(states_record(group.group_id, group.states.without(gone).as_value(image)))
    return Decision(records, None, atomic=False)


def share_groups(state: ShareGroupShard) -> list[ShareGroup]:
    return [group for group in state.groups.values() if isinstance(group, ShareGroup)]


SHARE_GROUPS: Final = GroupKind(
    replay=replays_of(ShareGroup, ShareGroupMetadataKey, _REPLAY),
    on_loaded=_on_loaded,
    on_metadata_change=_on_metadata_change,
)
