"""A classic group becomes a consumer group when a member of the consumer protocol joins (KIP-848).

The other members go on with the classic protocol. They keep their assignment, and their generation becomes their member
epoch. They learn which partitions to revoke when they join again. Kafka takes only the assignment of a member for its
partitions. Here a member also owns the partitions that it reported when it joined last, since it may not have seen its
assignment yet.
"""

from broker.coordinator.group.classic.classic_group import ClassicGroup, Member
from broker.coordinator.group.classic.classic_group import session_key as classic_session_key
from broker.coordinator.group.classic.step import join_key, sync_key
from broker.coordinator.group.config import ConsumerGroupConfig
from broker.coordinator.group.consumer.assignment_epochs import assigned_at
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.heartbeat import HeartbeatClient, heartbeat, heartbeat_of_member
from broker.coordinator.group.consumer.leaving import add_pending_join, fenced, start_session
from broker.coordinator.group.consumer.member import JOIN_EPOCH, ClassicProtocolMember, ConsumerMember
from broker.coordinator.group.consumer.records import (
    assignment_epoch_record,
    assignment_record,
    epoch_record,
    member_record,
    target_record,
)
from broker.coordinator.group.consumer.shard import ConsumerGroupShard, config_of, consumer_group
from broker.coordinator.group.mixed.embedded_protocol import as_sets
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, of_topic, union
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from broker.wire.api.join_group import JoinGroupResponse
from broker.wire.api.sync_group import SyncGroupResponse
from broker.wire.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
)
from broker.wire.errors import ErrorCode, KafkaError, WireError
from kraft import lazy_attrs
from metadata.image import MetadataImage

# The hash of no topics. So the next heartbeat finds that the topics have changed, and computes a target assignment.
_UNKNOWN_HASH = 0


def consumer_group_heartbeat(
    shard: ConsumerGroupShard, request: ConsumerGroupHeartbeatRequest, caller: HeartbeatClient, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Decides about a heartbeat, and upgrades a classic group that the member joins. Raises KafkaError."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup) or request.member_epoch < JOIN_EPOCH:
        return heartbeat(shard, request, caller, now_ms)
    if request.member_epoch != JOIN_EPOCH:
        _check_not_replaced(group, request)
        return heartbeat(shard, request, caller, now_ms)
    upgraded = _upgrade(group, shard.config.consumer, shard.context.image)
    joined = heartbeat_of_member(shard, upgraded.group, request, caller, now_ms)

    def apply() -> None:
        upgraded.apply(shard)
        if joined.apply is not None:
            joined.apply()

    return Decision([*upgraded.records, *joined.records], joined.response, apply)


def _check_not_replaced(group: ClassicGroup, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raises KafkaError if a classic member with the same instance id has replaced the member in the group.

    The error fences the member. With GROUP_ID_NOT_FOUND it would rejoin and replace the classic member, which would
    rejoin in turn, and so on.
    """
    instance_id = request.instance_id
    if instance_id is not None and group.static_members.get(instance_id, request.member_id) != request.member_id:
        raise fenced(request.member_id, instance_id, group.static_members[instance_id])


@lazy_attrs.frozen
class _Upgrade:
    """The upgrade of the classic group `former` to `group` by `records`. Nothing changes before these are replayed."""

    former: ClassicGroup
    group: ConsumerGroup
    records: list[CoordinatorRecord]

    def apply(self, state: ConsumerGroupShard) -> None:
        """Makes members with parked responses join again, and starts new sessions for all members."""
        group_id, timers = self.group.group_id, state.context.timers
        timers.cancel(join_key(group_id))
        timers.cancel(sync_key(group_id))
        for member_id in (*self.former.members, *self.former.pending):
            timers.cancel(classic_session_key(group_id, member_id))
        for member in self.group.members.values():
            start_session(state, group_id, member)
        for member_id in self.former.pending:
            add_pending_join(
                state, consumer_group(state, group_id), member_id, config_of(state, group_id).session_timeout_ms
            )
        for waiting in self.former.members.values():
            if waiting.joining is not None:
                # Kafka sends REBALANCE_IN_PROGRESS, which stops aiokafka and is an application error in librdkafka.
                later = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                waiting.joining.complete(JoinGroupResponse(error_code=later, member_id=waiting.member_id))
            if waiting.syncing is not None:
                waiting.syncing.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _upgrade(former: ClassicGroup, config: ConsumerGroupConfig, image: MetadataImage) -> _Upgrade:
    """Upgrades a group. Raises KafkaError if it has to stay a classic one. A group without members is just
    removed.
    """
    if former.is_empty:
        return _Upgrade(former, ConsumerGroup(former.group_id), former.tombstones())
    if not config.can_upgrade:
        raise _refusal(former, "its migration is not enabled")
    if not former.is_of_consumers:
        raise _refusal(former, "its members are not consumers")
    if len(former.members) > config.members_max:
        raise _refusal(former, "it has more members than a consumer group may have")
    group = ConsumerGroup(former.group_id)
    group.epoch = group.assignment_epoch = former.generation
    for member in _members(former, image):
        group.put(member)
        group.targets[member.member_id] = member.assigned
    return _Upgrade(former, group, [*former.tombstones(), *_records(group)])


def _refusal(former: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {former.group_id} to consumer group because {reason}.",
    )


def _records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """All records of the group, in the order in which Kafka writes them."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, group.epoch, _UNKNOWN_HASH),
        *(target_record(group_id, member_id, target) for member_id, target in group.targets.items()),
        assignment_epoch_record(group_id, group.assignment_epoch),
        *(assignment_record(group_id, member) for member in members),
    ]


def _members(former: ClassicGroup, image: MetadataImage) -> list[ConsumerMember]:
    """The members of the consumer group. Raises KafkaError if their metadata cannot be read, or if assignments
    hold data that only the leader can read.
    """
    protocol = former.elected_protocol() if former.members else ""
    try:
        subscriptions = {each.member_id: decode_subscription(each.metadata(protocol)) for each in _all(former)}
        assigned = {each.member_id: _assigned(former, each, image) for each in _all(former)}
    except WireError as error:
        raise _refusal(former, "what its members say cannot be read") from error
    taken: dict[bytes, frozenset[int]] = {}
    has = {member_id: _take_unclaimed(taken, sets) for member_id, sets in assigned.items()}
    for member_id, subscription in subscriptions.items():
        # The member may still use the partitions it had when it joined. If not, it says so when it joins again.
        had = _take_unclaimed(taken, as_sets(subscription.owned_partitions, image))
        has[member_id] = union(has[member_id], had)
    return [_member(former, each, subscriptions[each.member_id], has[each.member_id]) for each in _all(former)]


def _all(former: ClassicGroup) -> list[Member]:
    return list(former.members.values())


def _assigned(former: ClassicGroup, member: Member, image: MetadataImage) -> PartitionSets:
    if not member.assignment:
        return NO_PARTITIONS
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _refusal(former, "its members' own assignor keeps data in assignments")
    return as_sets(assignment.assigned_partitions, image)


def _take_unclaimed(taken: dict[bytes, frozenset[int]], sets: PartitionSets) -> PartitionSets:
    """The partitions of `sets` that are not in `taken`; adds them to `taken`."""
    claimed = {topic_id: partitions - of_topic(taken, topic_id) for topic_id, partitions in sets.items()}
    for topic_id, partitions in claimed.items():
        taken[topic_id] = of_topic(taken, topic_id) | partitions
    return {topic_id: partitions for topic_id, partitions in claimed.items() if partitions}


def _member(
    former: ClassicGroup, member: Member, subscription: ConsumerProtocolSubscription, assigned: PartitionSets
) -> ConsumerMember:
    protocols = tuple((protocol.name, protocol.metadata) for protocol in member.protocols)
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=former.generation,
        previous_member_epoch=former.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=tuple(sorted(dict.fromkeys(subscription.topics))),
        assigned=assigned,
        assignment_epochs=assigned_at(former.generation, assigned),
        classic=ClassicProtocolMember(member.session_timeout_ms, protocols),
    )
