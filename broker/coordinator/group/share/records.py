"""The records that change a share group."""

from collections.abc import Iterable
from typing import Any

from broker.coordinator.group.partition_sets import PartitionSets, as_message
from broker.coordinator.group.record_formats import encode_key, encode_value
from broker.coordinator.group.share.record_formats import (
    SharedTopicPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from broker.coordinator.runtime.decision import CoordinatorRecord


def _record(key: Any, value: Any | None) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None if value is None else encode_value(value))


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member_id: str, value: ShareGroupMemberMetadataValue) -> CoordinatorRecord:
    """The member's attributes and subscription."""
    return _record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def target_record(group_id: str, member_id: str, target: PartitionSets) -> CoordinatorRecord:
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=as_message(target, SharedTopicPartitions))
    return _record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The epoch and the time of the target assignment; the time is 0 if the group has no members."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def assignment_record(
    group_id: str, member_id: str, value: ShareGroupCurrentMemberAssignmentValue
) -> CoordinatorRecord:
    """The member's current assignment and epoch."""
    return _record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), value)


def states_record(group_id: str, value: ShareGroupStatePartitionMetadataValue) -> CoordinatorRecord:
    """The partitions of the group that have a state."""
    return _record(ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Removes a member, in the order in which Kafka can replay the tombstones."""
    return [
        _record(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        _record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        _record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str, members: Iterable[str]) -> list[CoordinatorRecord]:
    """Removes a group, in the order in which Kafka can replay the tombstones."""
    member_ids = list(members)
    keys: list[Any] = [
        *(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each) for each in member_ids),
        *(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each) for each in member_ids),
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        *(ShareGroupMemberMetadataKey(group_id=group_id, member_id=each) for each in member_ids),
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupMetadataKey(group_id=group_id),
    ]
    return [_record(key, None) for key in keys]
