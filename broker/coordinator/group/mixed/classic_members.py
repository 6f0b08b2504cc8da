"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group (KIP-848).

The member epoch is the member's generation. A JoinGroup corresponds to a heartbeat with all fields: it carries the
subscription and the owned partitions, makes one step of reconciliation, and is answered at once, without a wait for
other members. SyncGroup returns the assignment. Heartbeat tells the member when to join again. The member has its
rebalance timeout to join again, and the same time to sync.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import attrs

from broker.coordinator.group.classic.rebalance import begin_rebalance
from broker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoiningClient
from broker.coordinator.group.classic.requests import join as join_classic_group
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, members_with
from broker.coordinator.group.consumer.heartbeat import apply_update, check_size, replacement, successor
from broker.coordinator.group.consumer.leaving import (
    add_pending_join,
    removal_timer,
    remove_members,
    start_session,
    static_member,
)
from broker.coordinator.group.consumer.member import ClassicProtocolMember, ConsumerMember, MemberState
from broker.coordinator.group.consumer.member_update import MemberUpdate
from broker.coordinator.group.consumer.shard import (
    ConsumerGroupShard,
    decision_context,
    join_key,
    pending_join_key,
    sync_key,
)
from broker.coordinator.group.group_kind import CONSUMER_PROTOCOL_TYPE
from broker.coordinator.group.mixed.downgrade import begin_downgrade, can_downgrade, end_downgrade, stored_record
from broker.coordinator.group.mixed.embedded_protocol import as_assignment, as_sets
from broker.coordinator.group.partition_sets import NO_PARTITIONS, difference, intersection
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.consumer_protocol import ConsumerProtocolSubscription, decode_subscription
from broker.wire.errors import ErrorCode, KafkaError, WireError

T = TypeVar("T")

_UNCHANGED: Final = -1


def join(
    state: ConsumerGroupShard, group: ConsumerGroup, request: JoinGroupRequest, joiner: JoiningClient, now_ms: int
) -> Decision[Completion[JoinGroupResponse]]:
    """Decides about a JoinGroup of a classic member. Raises KafkaError."""
    is_unknown, instance_id = request.member_id == UNKNOWN_MEMBER_ID, request.group_instance_id
    member_id = joiner.new_member_id if is_unknown else request.member_id
    check_size(state, group, member_id)
    subscription = _subscription(group, request, member_id)
    if is_unknown and instance_id is None and joiner.needs_member_id:
        refusal = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        return _parked(
            state, refusal, apply=lambda: add_pending_join(state, group, member_id, request.session_timeout_ms)
        )
    incarnation = None if instance_id is None else group.static_member(instance_id)
    replaced = incarnation if is_unknown else None
    former = _former(group, request, member_id) if replaced is None else successor(replaced, member_id)
    member = _updated_from(former, request, subscription, joiner)
    if incarnation is not None and _replaces_last_consumer(state, group, member, incarnation):
        return _join_downgraded_group(state, group, member, incarnation, request, joiner, now_ms)
    records = [] if replaced is None else replacement(group, former, replaced)
    update = MemberUpdate(group, decision_context(state, now_ms, joiner.topic_filter), former, replaced, records)
    member = update.run(member, as_sets(subscription.owned_partitions, state.context.image))
    return _joined(state, update, member, records)


def _former(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> ConsumerMember:
    """The member before its join, which replaces no other one. Raises KafkaError."""
    is_unknown, instance_id = request.member_id == UNKNOWN_MEMBER_ID, request.group_instance_id
    if instance_id is not None and not is_unknown:
        return static_member(group, instance_id, member_id)
    if is_unknown or member_id in group.pending_joins:
        # A consumer may have joined with that id meanwhile.
        return group.members.get(member_id, ConsumerMember(member_id=member_id))
    # A member that was removed must not join as a new one: it could commit offsets of partitions it has lost.
    return group.member(member_id)


def _subscription(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> ConsumerProtocolSubscription:
    """The member's subscription, which is the same in all of its protocols. Raises KafkaError."""
    others = [
        {name for name, _ in other.classic.protocols}
        for other in group.members.values()
        if other.classic is not None
        and other.member_id != member_id
        and (request.group_instance_id is None or other.instance_id != request.group_instance_id)
    ]
    names = [each.name for each in request.protocols if all(each.name in theirs for theirs in others)]
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not names:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    try:
        subscriptions = [decode_subscription(each.metadata) for each in request.protocols]
    except WireError as error:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s subscription cannot be read."
        ) from error
    return subscriptions[0]


def _updated_from(
    member: ConsumerMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, joiner: JoiningClient
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return attrs.evolve(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _UNCHANGED else timeout_ms,
        topic_names=tuple(sorted(dict.fromkeys(subscription.topics))),
        topic_regex=None,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        classic=ClassicProtocolMember(
            request.session_timeout_ms, tuple((each.name, bytes(each.metadata)) for each in request.protocols)
        ),
    )


def _joined(
    state: ConsumerGroupShard, update: MemberUpdate, member: ConsumerMember, records: Sequence[CoordinatorRecord]
) -> Decision[Completion[JoinGroupResponse]]:
    group_id, member_id = update.group.group_id, member.member_id
    response = JoinGroupResponse(
        member_id=member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=_protocol(member)[0],
    )

    def apply() -> None:
        apply_update(state, update, member)
        update.group.pending_joins.discard(member_id)
        state.context.timers.cancel(pending_join_key(group_id, member_id))
        state.context.timers.cancel(join_key(group_id, member_id))
        state.context.timers.schedule(
            sync_key(group_id, member_id), member.rebalance_timeout_ms, removal_timer(group_id, member_id)
        )

    return _parked(state, response, records, apply)


def _replaces_last_consumer(
    state: ConsumerGroupShard, group: ConsumerGroup, member: ConsumerMember, replaced: ConsumerMember
) -> bool:
    """True if `replaced` is the last member of the consumer protocol, so that the group becomes a classic one.

    `member` may have the same member id. A classic group that is full would refuse the member.
    """
    if replaced.is_classic:
        return False
    members = members_with(group, member, without=[replaced.member_id])
    return can_downgrade(state, members.values()) and len(members) < state.config.group_max_size


def _join_downgraded_group(
    state: ConsumerGroupShard,
    group: ConsumerGroup,
    member: ConsumerMember,
    replaced: ConsumerMember,
    request: JoinGroupRequest,
    joiner: JoiningClient,
    now_ms: int,
) -> Decision[Completion[JoinGroupResponse]]:
    """A static member has restarted with the classic protocol, and was the last member of the consumer protocol.

    It joins the classic group as a static member does. It keeps its assignment without a rebalance, if nothing changes.
    """
    former = attrs.evolve(member, member_id=replaced.member_id)
    others = [each for each in group.members.values() if each is not replaced]
    is_settled = group.epoch == group.assignment_epoch and all(
        each.is_reconciled_to(group.assignment_epoch) for each in others
    )
    goes_on = is_settled and (member.topic_names, member.topic_regex) == (replaced.topic_names, replaced.topic_regex)
    if goes_on:
        # The former incarnation has stopped, so the partitions it had to revoke are revoked.
        keeps = intersection(replaced.assigned, group.target_of(replaced.member_id))
        former = attrs.evolve(former, assigned=keeps, pending_revocation=NO_PARTITIONS)
    step = begin_downgrade(state, group, [*others, former], now_ms)
    stored = [stored_record(step.group)]
    if not goes_on:
        begin_rebalance(step)
    waiter = state.context.park()
    join_classic_group(step, request, joiner, waiter)
    return end_downgrade(state, group, step, stored, waiter)


def sync(
    state: ConsumerGroupShard, group: ConsumerGroup, request: SyncGroupRequest
) -> Decision[Completion[SyncGroupResponse]]:
    """Decides about a SyncGroup of a classic member. Raises KafkaError."""
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    name, metadata = _protocol(member)
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {member.member_id} joined with the protocol {name} of type {CONSUMER_PROTOCOL_TYPE}.",
        )
    if group.epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        refusal = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return _parked(state, refusal, apply=lambda: _start_join_timeout(state, group, member))
    response = SyncGroupResponse(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=name,
        assignment=as_assignment(member.assigned, metadata, state.context.image),
    )

    def apply() -> None:
        state.context.timers.cancel(sync_key(group.group_id, member.member_id))
        start_session(state, group.group_id, member)

    return _parked(state, response, apply=apply)


def heartbeat(state: ConsumerGroupShard, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[ErrorCode]:
    """Decides about a Heartbeat of a classic member: NONE, or REBALANCE_IN_PROGRESS. Raises KafkaError."""
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    must_rejoin = _must_rejoin(group, member)

    def apply() -> None:
        start_session(state, group.group_id, member)
        if must_rejoin:
            _start_join_timeout(state, group, member)

    return Decision((), ErrorCode.REBALANCE_IN_PROGRESS if must_rejoin else ErrorCode.NONE, apply)


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if the member has a new epoch or partitions to get, or has to report that it revoked partitions."""
    if member.member_epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_unreleased_partitions(group, member)


def _waits_for_unreleased_partitions(group: ConsumerGroup, member: ConsumerMember) -> bool:
    lacking = difference(group.target_of(member.member_id), member.assigned)
    return any(
        group.owner_of(topic_id, partition) is not None
        for topic_id, partitions in lacking.items()
        for partition in partitions
    )


def _start_join_timeout(state: ConsumerGroupShard, group: ConsumerGroup, member: ConsumerMember) -> None:
    """The member has to join again within its rebalance timeout, counted from the first time it was told to."""
    state.context.timers.schedule_once(
        join_key(group.group_id, member.member_id),
        member.rebalance_timeout_ms,
        removal_timer(group.group_id, member.member_id),
    )


def leave(
    state: ConsumerGroupShard, group: ConsumerGroup, members: Sequence[MemberIdentity], now_ms: int
) -> Decision[list[ErrorCode]]:
    """Decides on an error code for each member. An administrator may remove members of both protocols."""
    leaving: dict[str, ConsumerMember] = {}
    codes = []
    for each in members:
        member = _leaving(group, each)
        if isinstance(member, ConsumerMember):
            leaving[member.member_id] = member
            codes.append(ErrorCode.NONE)
        else:
            codes.append(member)
    return remove_members(state, group, list(leaving.values()), codes, now_ms)


def _leaving(group: ConsumerGroup, who: MemberIdentity) -> ConsumerMember | ErrorCode:
    """The member to remove, or the error. A static member may be identified by its instance id alone.

    Errors are not raised: that would take ten times as long.
    """
    instance_id, member_id = who.group_instance_id, who.member_id
    if instance_id is None:
        return group.members.get(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.static_member(instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.FENCED_INSTANCE_ID if member_id and member.member_id != member_id else member


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """The member. Raises KafkaError if it does not use the classic protocol or is in another generation."""
    member = group.member(member_id) if instance_id is None else static_member(group, instance_id, member_id)
    if not member.is_classic:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not speak the classic protocol.")
    if generation != member.member_epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"Member {member.member_id} is in generation {member.member_epoch}, not in {generation}.",
        )
    return member


def _protocol(member: ConsumerMember) -> tuple[str, bytes]:
    """The name and metadata of the protocol that the member is told. Its first one will do, since no member assigns by
    it.
    """
    assert member.classic is not None, "it speaks the classic protocol"
    return member.classic.protocols[0]


def _parked(
    state: ConsumerGroupShard,
    response: Any,
    records: Sequence[CoordinatorRecord] = (),
    apply: Callable[[], None] | None = None,
) -> Decision[Completion[Any]]:
    """A decision whose response is parked, as callers of JoinGroup and SyncGroup expect."""
    waiter = state.context.park()

    def complete() -> None:
        if apply is not None:
            apply()
        waiter.complete(response)

    return Decision(records, waiter, complete)
