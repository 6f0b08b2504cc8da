"""A consumer group whose last member of the consumer protocol goes becomes a classic group (KIP-848).

Its generation is the group's epoch, and what members are to have is their assignment; then they join again.
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
from broker.coordinator.group.classic.decisions import begin_step, decided
from broker.coordinator.group.classic.rebalance import begin_rebalance, expect_heartbeat, subscriptions
from broker.coordinator.group.classic.step import Step
from broker.coordinator.group.classic.stored_group import stored_key, stored_value
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.member import ConsumerMember
from broker.coordinator.group.consumer.shard import ConsumerGroupsHolder, cancel_timers
from broker.coordinator.group.group_kind import CONSUMER_PROTOCOL_TYPE
from broker.coordinator.group.mixed.embedded_protocol import as_assignment
from broker.coordinator.group.partition_sets import PartitionSets, difference, union
from broker.coordinator.group.record_formats import encode_key, encode_value
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from metadata.image import MetadataImage

T = TypeVar("T")


def can_downgrade(state: ConsumerGroupsHolder, members: Collection[ConsumerMember]) -> bool:
    """Whether a group that has these members from now on is to be a classic one."""
    return (
        state.config.consumer.can_downgrade
        and 0 < len(members) <= state.config.group_max_size
        and all(member.is_classic for member in members)
    )


def downgrade(
    state: ConsumerGroupsHolder, group: ConsumerGroup, members: Collection[ConsumerMember], response: T, now_ms: int
) -> Decision[T] | None:
    """Makes the group a classic one with these members, and begins a rebalance; None if it cannot become one."""
    if not can_downgrade(state, members):
        return None
    step = begin_downgrade(state, group, members, now_ms)
    stored = [stored_record(step.group)]
    begin_rebalance(step)
    return end_downgrade(state, group, step, stored, response)


def begin_downgrade(
    state: ConsumerGroupsHolder, group: ConsumerGroup, members: Collection[ConsumerMember], now_ms: int
) -> Step:
    """A step that begins with the classic group of these members, who all speak its protocol. It is stable."""
    step = begin_step(state, _classic_group(group, members, state.context.image, now_ms), now_ms)
    for member in step.group.members.values():
        expect_heartbeat(step, member)
    return step


def stored_record(group: ClassicGroup) -> CoordinatorRecord:
    """The record of the group as it begins.

    Nobody has led it. So another coordinator, should there be one before the rebalance is over, knows that one is due:
    what those had who are gone is in nobody's assignment.
    """
    value = stored_value(group)
    value.leader = None
    return CoordinatorRecord(encode_key(stored_key(group.group_id)), encode_value(value))


def end_downgrade(
    state: ConsumerGroupsHolder,
    group: ConsumerGroup,
    step: Step,
    stored: Collection[CoordinatorRecord],
    response: T,
) -> Decision[T]:
    """Of the consumer group nothing remains; what is `stored` of the classic one, and what the step came to."""
    decision = decided(state, step, response)
    apply = partial(_apply, state, group.group_id, list(group.members), decision)
    return Decision([*group.tombstones(), *stored, *decision.records], response, apply)


def _apply(state: ConsumerGroupsHolder, group_id: str, former: Collection[str], decision: Decision[T]) -> None:
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
    """What each is to have, without what others have yet to give up, and with what itself has to give up: should the
    group become a consumer group again before all have joined, that is in somebody's hands."""
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
    assert classic is not None, "members of the consumer protocol are none of a classic group"
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=distinct_protocols(classic.protocols),
    )
