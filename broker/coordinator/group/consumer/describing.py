"""ConsumerGroupDescribe, as a shard of groups decides it."""

from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.shard import ConsumerGroupShard, consumer_group
from broker.coordinator.group.partition_sets import PartitionSets, union
from broker.wire.api.consumer_group_describe import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    DescribedAssignment,
    DescribedGroup,
    DescribedMember,
    DescribedTopicPartitions,
)
from metadata.image import MetadataImage


def describe(state: ConsumerGroupShard, group_id: str) -> DescribedGroup:
    """Describes a consumer group. Raises CoordinatorError if there is none under this id."""
    group, image = consumer_group(state, group_id), state.context.image
    members = group.members.values()
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(members, state.config.consumer.assignors[0]),
        members=[_described(member, group.target_of(member.member_id), image) for member in members],
    )


def _described(member: ConsumerMember, target: PartitionSets, image: MetadataImage) -> DescribedMember:
    """Describes a member. Its assignment is all that it owns, which includes what it has yet to revoke."""
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex or "",
        assignment=_assignment(union(member.assigned, member.pending_revocation), image),
        target_assignment=_assignment(target, image),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(sets: PartitionSets, image: MetadataImage) -> DescribedAssignment:
    """The assignment without deleted topics."""
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
            for topic_id, partitions in sets.items()
            if (topic := image.topics.by_id.get(topic_id)) is not None
        ]
    )
