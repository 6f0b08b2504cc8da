"""A consumer group becomes a classic group when its last member of the consumer protocol leaves (KIP-848).

The group's epoch becomes the generation, and the target assignment becomes the members' assignment. Then the group
rebalances.
"""

from collections.abc import Collection
from functools import partial
from typing import TypeVar

from broker.coordinator.group.classic.classic_group import (
    ClassicGroup,
    GroupState,
    Member,
    distinct_protocols,
)
from broker.coordinator.group.classic.kind import begin_step, decided
from broker.coordinator.group.classic.rebalance import begin_rebalance, restart_session, subscriptions
from broker.coordinator.group.classic.step import Step
from broker.coordinator.group.classic.stored_group import stored_key, stored_value
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.shard import ConsumerGroupShard, cancel_timers
from broker.coordinator.group.group_kind import CONSUMER_PROTOCOL_TYPE
from broker.coordinator.group.mixed.embedded_protocol import as_assignment
from broker.coordinator.group.partition_sets import PartitionSets, difference, union
from broker.coordinator.group.record_formats import encode_key, encode_value
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from metadata.image import MetadataImage

T = TypeVar("T")


def can_downgrade(state: ConsumerGroupShard, members: Collection[ConsumerMember]) -> bool:
    """True if a consumer group with these members must become a classic group, as all use the classic protocol."""
    return (
        state.config.consumer.can_downgrade
        and 0 < len(members) <= state.config.group_max_size
        and all(member.is_classic for member in members)
    )


def downgrade(
    state: ConsumerGroupShard, group: ConsumerGroup, members: Collection[ConsumerMember], response: T, now_ms: int
) -> Decision[T] | None:
    """Makes the group a classic one with these members, and begins a rebalance; None if it cannot become one."""
    if not can_downgrade(state, members):
        return None
    step = begin_downgrade(state, group, members, now_ms)
    stored = [stored_record(step.group)]
    begin_rebalance(step)
    return end_downgrade(state, group, step, stored, response)


def begin_downgrade(
    state: ConsumerGroupShard, group: ConsumerGroup, members: Collection[ConsumerMember], now_ms: int
) -> Step:
    """A step that begins with a stable classic group of these members, which all use the classic protocol."""
    step = begin_step(state, _classic_group(group, members, state.context.image, now_ms), now_ms)
    for member in step.group.members.values():
        restart_session(step, member)
    return step


def stored_record(group: ClassicGroup) -> CoordinatorRecord:
    """The record of the classic group as the downgrade creates it.

    It has no leader. So if the coordinator fails over before the rebalance is over, the next one knows that a rebalance
    is due. Without one, partitions of removed members would stay unassigned.
    """
    value = stored_value(group)
    value.leader = None
    return CoordinatorRecord(encode_key(stored_key(group.group_id)), encode_value(value))


def end_downgrade(
    state: ConsumerGroupShard,
    group: ConsumerGroup,
    step: Step,
    stored: Collection[CoordinatorRecord],
    response: T,
) -> Decision[T]:
    """The decision of a downgrade: removes the consumer group, writes the classic one, and performs the step."""
    decision = decided(state, step, response)
    apply = partial(_apply, state, group.group_id, list(group.members), decision)
    return Decision([*group.tombstones(), *stored, *decision.records], response, apply)


def _apply(state: ConsumerGroupShard, group_id: str, former: Collection[str], decision: Decision[T]) -> None:
    for member_id in former:
        cancel_timers(state, group_id, member_id)
    if decision.apply is not None:
        decision.apply()


def _classic_group(
    group: ConsumerGroup, members: Collection[ConsumerMember], image: MetadataImage, now_ms: int
) -> ClassicGroup:
    classic = ClassicGroup(
        group.group_id,
        state=GroupState.STABLE,
        state_since_ms=now_ms,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    for member in members:
        classic.put(_member(member))
    classic.protocol_name = name = classic.elected_protocol()
    for member_id, partitions in _assignments(group, members).items():
        metadata = classic.members[member_id].metadata(name)
        classic.update(member_id, assignment=as_assignment(partitions, metadata, image))
    classic.subscribed_topics = subscriptions(classic)
    return classic


def _assignments(group: ConsumerGroup, members: Collection[ConsumerMember]) -> dict[str, PartitionSets]:
    """The members' assignments in the classic group: their target, without partitions that other members still own, and
    with those that they have yet to revoke themselves.

    If the group becomes a consumer group again before all members have joined, those partitions have an owner.
    """
    names = {member.member_id for member in members}
    assignments = {}
    for member in members:
        has = union(member.assigned, member.pending_revocation)
        others_have = {
            topic_id: frozenset(index for index in partitions if group.owner_of(topic_id, index) in names)
            for topic_id, partitions in group.target_of(member.member_id).items()
        }
        assignments[member.member_id] = union(has, difference(group.target_of(member.member_id), others_have))
    return assignments


def _member(member: ConsumerMember) -> Member:
    classic = member.classic
    assert classic is not None, "a classic group has only classic members"
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=distinct_protocols(classic.protocols),
    )
