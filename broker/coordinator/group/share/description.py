"""ShareGroupDescribe, as a shard of groups decides it (KIP-932)."""

from typing import Final

from broker.coordinator.group.share.shard import ShareGroupShard, share_group
from broker.coordinator.group.share.share_group import ShareMember
from broker.wire.api.share_group_describe import (
    DescribedAssignment,
    DescribedGroup,
    DescribedMember,
    DescribedTopicPartitions,
)
from metadata.image import MetadataImage

# The only assignor of share groups, by its name in Kafka.
ASSIGNOR: Final = "simple"


def describe_share_group(state: ShareGroupShard, group_id: str) -> DescribedGroup:
    """Describes a share group. Raises KafkaError if there is none under this id."""
    group, image = share_group(state, group_id), state.context.image
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_described(member, image) for member in group.members.values()],
    )


def _described(member: ShareMember, image: MetadataImage) -> DescribedMember:
    """Describes a member, with its assignment without deleted topics."""
    topics = [
        DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
        for topic_id, partitions in member.assigned.items()
        if (topic := image.topics.by_id.get(topic_id)) is not None
    ]
    return DescribedMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        assignment=DescribedAssignment(topic_partitions=topics),
    )
