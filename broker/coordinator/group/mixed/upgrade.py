"""A classic group of consumers becomes a consumer group, when a member of the consumer protocol comes (KIP-848).

The others stay as they are: members that speak the classic protocol, with what they were assigned last, at their
generation for an epoch. What they have to give up they learn when they join again, as in any rebalance. Kafka takes
their assignments for what they have; here, what they said to have when they joined last is theirs until then as well.
"""

import attrs

from broker.coordinator.group.classic.classic_group import ClassicGroup, Member
from broker.coordinator.group.classic.classic_group import session_key as classic_session_key
from broker.coordinator.group.classic.step import join_key, sync_key
from broker.coordinator.group.config import ConsumerGroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.leaving import offer, start_session
from broker.coordinator.group.consumer.member import ClassicProtocolMember, ConsumerMember
from broker.coordinator.group.consumer.records import (
    assignment_epoch_record,
    assignment_record,
    epoch_record,
    member_record,
    target_record,
)
from broker.coordinator.group.consumer.shard import ConsumerGroupsHolder, config_of, consumer_group
from broker.coordinator.group.mixed.embedded_protocol import as_sets
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, of_topic, union
from broker.coordinator.runtime.decision import CoordinatorError, CoordinatorRecord
from broker.wire.api.join_group import JoinGroupResponse
from broker.wire.api.sync_group import SyncGroupResponse
from broker.wire.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
)
from broker.wire.errors import ErrorCode, WireError
from metadata.image import MetadataImage

# Of no topics at all: whoever looks at the group's topics next finds that they have changed, and computes new targets.
_UNKNOWN_HASH = 0


@attrs.frozen
class Upgrade:
    """`group` is what `former` becomes by `records`; nothing has changed before these are replayed."""

    former: ClassicGroup
    group: ConsumerGroup
    records: list[CoordinatorRecord]

    def apply(self, state: ConsumerGroupsHolder) -> None:
        """Have those who wait join again, and begin the sessions of all anew."""
        group_id, timers = self.group.group_id, state.context.timers
        timers.cancel(join_key(group_id))
        timers.cancel(sync_key(group_id))
        for member_id in (*self.former.members, *self.former.pending):
            timers.cancel(classic_session_key(group_id, member_id))
        for member in self.group.members.values():
            start_session(state, group_id, member)
        for member_id in self.former.pending:
            offer(state, consumer_group(state, group_id), member_id, config_of(state, group_id).session_timeout_ms)
        for waiting in self.former.members.values():
            if waiting.joining is not None:
                # Kafka says REBALANCE_IN_PROGRESS, which ends aiokafka, and is an error to who uses librdkafka.
                later = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                waiting.joining.complete(JoinGroupResponse(error_code=later, member_id=waiting.member_id))
            if waiting.syncing is not None:
                waiting.syncing.complete(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def upgrade(former: ClassicGroup, config: ConsumerGroupConfig, image: MetadataImage) -> Upgrade:
    """Raises CoordinatorError where the group has to remain what it is. One without members is simply forgotten."""
    if former.is_empty:
        return Upgrade(former, ConsumerGroup(former.group_id), former.tombstones())
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
    return Upgrade(former, group, [*former.tombstones(), *_records(group)])


def _refusal(former: ClassicGroup, reason: str) -> CoordinatorError:
    return CoordinatorError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {former.group_id} to consumer group because {reason}.",
    )


def _records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """All that the group is; in the order in which Kafka writes it."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, group.epoch, _UNKNOWN_HASH),
        *(target_record(group_id, member_id, target) for member_id, target in group.targets.items()),
        assignment_epoch_record(group_id, group.assignment_epoch),
        *(assignment_record(group_id, member) for member in members),
    ]


def _members(former: ClassicGroup, image: MetadataImage) -> list[ConsumerMember]:
    """Raises CoordinatorError where they cannot be understood, or would lose what only their leader understands."""
    protocol = former.elected_protocol() if former.members else ""
    try:
        subscriptions = {each.member_id: decode_subscription(each.metadata(protocol)) for each in _all(former)}
        assigned = {each.member_id: _assigned(former, each, image) for each in _all(former)}
    except WireError as error:
        raise _refusal(former, "what its members say cannot be read") from error
    taken: dict[bytes, frozenset[int]] = {}
    has = {member_id: _claim(taken, sets) for member_id, sets in assigned.items()}
    for member_id, subscription in subscriptions.items():
        # It may not have read its assignment yet, and still use what it had when it joined. If not, it soon says so.
        had = _claim(taken, as_sets(subscription.owned_partitions, image))
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


def _claim(taken: dict[bytes, frozenset[int]], sets: PartitionSets) -> PartitionSets:
    """Of these partitions, those that nobody has claimed before, and has them from now on."""
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
        classic=ClassicProtocolMember(member.session_timeout_ms, protocols),
    )
