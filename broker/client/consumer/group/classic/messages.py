"""Subscriptions and assignments as the members of a classic group exchange them (ConsumerProtocol.java)."""

from collections.abc import Mapping, Sequence

from broker.client.consumer.errors import AssignmentError
from broker.client.consumer.group.assignors import MemberSubscription
from broker.client.types import TopicPartition
from broker.wire.api.join_group import JoinGroupResponseMember
from broker.wire.consumer_protocol import (
    VERSION_MAX,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    group_by_topic,
)
from broker.wire.errors import WireError


def subscription_bytes(subscription: MemberSubscription) -> bytes:
    """A subscription in the latest version; members of earlier ones read the beginning of it."""
    return encode_subscription(
        ConsumerProtocolSubscription(
            topics=sorted(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=group_by_topic(subscription.owned),
            generation_id=subscription.generation,
            rack_id=subscription.rack,
        ),
        VERSION_MAX,
    )


def read_member(member: JoinGroupResponseMember) -> MemberSubscription:
    """A member's subscription of any version. Raises AssignmentError."""
    try:
        read = decode_subscription(member.metadata)
    except WireError as error:
        raise AssignmentError(f"the subscription of member {member.member_id} cannot be read: {error}") from error
    return MemberSubscription(
        topics=read.topics,
        owned=_flat(read.owned_partitions),
        generation=read.generation_id,
        user_data=read.user_data,
        instance_id=member.group_instance_id,
        rack=read.rack_id or None,
    )


def assignment_bytes(partitions: Sequence[TopicPartition]) -> bytes:
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=group_by_topic(partitions)), VERSION_MAX)


def read_assignment(encoded: bytes) -> list[TopicPartition]:
    """Decodes this member's assignment. Raises AssignmentError, also if the leader sent none."""
    try:
        return _flat(decode_assignment(encoded).assigned_partitions)
    except WireError as error:
        raise AssignmentError(f"the assignment that the group's leader made cannot be read: {error}") from error


def _flat(topics: Sequence[OwnedPartitions]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, index) for each in topics for index in each.partitions]


def check_cooperative(
    members: Mapping[str, MemberSubscription], assignments: Mapping[str, Sequence[TopicPartition]]
) -> None:
    """Raises AssignmentError if a partition is given to one member while another still owns it (KIP-429)."""
    owners = {partition: member for member, each in members.items() for partition in each.owned}
    for member, partitions in assignments.items():
        for partition in partitions:
            owner = owners.get(partition, member)
            if owner != member and partition not in members[member].owned:
                raise AssignmentError(f"the assignor gave {partition} to {member} before {owner} has revoked it")
