"""The records that change a consumer group."""

from collections.abc import Iterable
from typing import Any

from broker.coordinator.group.consumer.member import ConsumerMember, ResolvedRegex
from broker.coordinator.group.partition_sets import PartitionSets, as_message
from broker.coordinator.group.record_formats import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
    encode_key,
    encode_value,
)
from broker.coordinator.runtime.decision import CoordinatorRecord


def _record(key: Any, value: Any | None) -> CoordinatorRecord:
    return CoordinatorRecord(encode_key(key), None if value is None else encode_value(value))


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The member's attributes and subscription."""
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return _record(key, member.metadata_value())


def target_record(group_id: str, member_id: str, target: PartitionSets) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=as_message(target, TopicPartitions))
    return _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def assignment_epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def assignment_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """The member's current assignment and epoch."""
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, member.assignment_value())


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> CoordinatorRecord:
    """The topics of a regular expression; None removes the expression."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    if resolved is None:
        return _record(key, None)
    return _record(
        key,
        ConsumerGroupRegularExpressionValue(
            topics=list(resolved.topic_names), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Removes a member, in the order in which Kafka can replay the tombstones."""
    return [
        _record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        _record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group_id: str, members: Iterable[str], regexes: Iterable[str]) -> list[CoordinatorRecord]:
    """Removes a group, in the order in which Kafka can replay the tombstones."""
    member_ids = list(members)
    keys: list[Any] = [
        *(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each) for each in member_ids),
        *(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each) for each in member_ids),
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        *(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=each) for each in member_ids),
        *(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=each) for each in regexes),
        ConsumerGroupMetadataKey(group_id=group_id),
    ]
    return [_record(key, None) for key in keys]
