"""ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups, as a shard of groups decides them."""

from collections.abc import Collection, Iterable, Sequence

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState, Member
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.shard import ConsumerGroupShard, consumer_group
from broker.coordinator.group.group_kind import Group
from broker.coordinator.group.offsets.committed_offsets import OffsetsShard
from broker.coordinator.group.offsets.requests import delete_all_offsets
from broker.coordinator.group.partition_sets import PartitionSets, union
from broker.coordinator.group.share.offsets import has_states
from broker.coordinator.group.share.share_group import ShareGroup
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.wire.api.consumer_group_describe import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    DescribedAssignment,
    DescribedMember,
    DescribedTopicPartitions,
)
from broker.wire.api.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from broker.wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from broker.wire.api.list_groups import ListedGroup
from broker.wire.errors import ErrorCode, KafkaError
from metadata.image import MetadataImage


def lower_case(names: Iterable[str]) -> Collection[str]:
    """The names of a filter in lower case, in which `list_groups` compares them."""
    return frozenset(map(str.lower, names))


def list_groups(shard: OffsetsShard, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
    """Lists the groups of this shard that are in one of these states and of one of these types, given in lower case.

    An empty filter matches every group. A simple group, which only has offsets, is listed as a classic one.
    """
    groups: list[Group] = list(shard.groups.values())
    groups += [ClassicGroup(group_id) for group_id in shard.offsets.group_ids() if group_id not in shard.groups]
    listed = map(_listed, groups)
    return [each for each in listed if _matches(each.group_state, states) and _matches(each.group_type, types)]


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state,
        group_type=group.group_type,
    )


def _matches(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in wanted


def describe_group(shard: OffsetsShard, group_id: str) -> DescribedGroup:
    """Describes a classic group, or a simple one. Raises KafkaError if there is none under this id."""
    group = shard.groups.get(group_id)
    if group is None and shard.offsets.has_group(group_id):
        group = ClassicGroup(group_id)
    if not isinstance(group, ClassicGroup):
        what = "not found" if group is None else "is not a classic group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_described(member, group.protocol_name if is_stable else None) for member in group.members.values()],
    )


def _described(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    """Describes a member with its last assignment; with its metadata only if `protocol_name` is given."""
    described = DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_assignment=member.assignment,
    )
    if protocol_name is not None:
        described.member_metadata = member.metadata(protocol_name)
    return described


def delete_groups(shard: OffsetsShard, now_ms: int, group_ids: Sequence[str]) -> Decision[dict[str, ErrorCode]]:
    """Deletes groups that have no members, with their offsets (KIP-229). The response has a code for each group id.

    The states of share groups are deleted before. A group that has some again had a member meanwhile.
    """
    records: list[CoordinatorRecord] = []
    codes: dict[str, ErrorCode] = {}
    for group_id in group_ids:
        group = shard.groups.get(group_id)
        if group is None and not shard.offsets.has_group(group_id):
            codes[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
        elif group is not None and (not group.is_empty or (isinstance(group, ShareGroup) and has_states(group))):
            codes[group_id] = ErrorCode.NON_EMPTY_GROUP
        else:
            codes[group_id] = ErrorCode.NONE
            records += delete_all_offsets(shard, group_id)
            records += [] if group is None else group.tombstones()
    return Decision(records, codes, atomic=False)


def describe_consumer_group(state: ConsumerGroupShard, group_id: str) -> DescribedConsumerGroup:
    """Describes a consumer group. Raises KafkaError if there is none under this id."""
    group, image = consumer_group(state, group_id), state.context.image
    members = group.members.values()
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(members, state.config.consumer.assignors[0]),
        members=[_described_consumer(member, group.target_of(member.member_id), image) for member in members],
    )


def _described_consumer(member: ConsumerMember, target: PartitionSets, image: MetadataImage) -> DescribedMember:
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
