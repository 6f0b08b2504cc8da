"""Rebalances of classic groups: how one generation ends and the next one begins. Sessions of their members."""

from functools import partial
from typing import Final

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState, Member, session_key
from broker.coordinator.group.classic.step import Step, join_key, sync_key
from broker.wire.api.join_group import JoinGroupResponse, JoinGroupResponseMember
from broker.wire.api.sync_group import SyncGroupResponse
from broker.wire.consumer_protocol import subscribed_topics
from broker.wire.errors import ErrorCode

_REBALANCING: Final = frozenset({GroupState.COMPLETING_REBALANCE, GroupState.STABLE})


def rebalance_or_complete(step: Step) -> None:
    """Called after a change that all members have to learn: begins a rebalance, or goes on with the present one."""
    if step.group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_joined(step)
    else:
        begin_rebalance(step)


def begin_rebalance(step: Step) -> None:
    """Waits for all members to join again. A group that was empty waits for further members as well."""
    group = step.group
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member_id in list(group.members):
            group.update(member_id, assignment=b"")
            if step.answer_sync(member_id, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)):
                restart_session(step, group.members[member_id])
    group.pending_sync.clear()
    step.cancel_timer(sync_key(group.group_id))
    group.is_initial = group.is_empty
    group.move_to(GroupState.PREPARING_REBALANCE, step.now_ms)
    if group.is_initial:
        group.new_member_added = False
        _wait_for_new_members(
            step, step.limits.initial_delay_ms, max(group.rebalance_timeout_ms - step.limits.initial_delay_ms, 0)
        )
    elif group.has_all_members_joined:
        complete_join(step)
    else:
        step.set_timer(join_key(group.group_id), group.rebalance_timeout_ms, complete_join)


def complete_if_all_joined(step: Step) -> None:
    """Begins the generation if all members have joined. In a group that was empty, only the delay ends it."""
    group = step.group
    if group.state is GroupState.PREPARING_REBALANCE and not group.is_initial and group.has_all_members_joined:
        complete_join(step)


def _wait_for_new_members(step: Step, delay_ms: int, remaining_ms: int) -> None:
    step.set_timer(
        join_key(step.group.group_id),
        delay_ms,
        partial(_complete_unless_member_added, delay_ms=delay_ms, remaining_ms=remaining_ms),
    )


def _complete_unless_member_added(step: Step, delay_ms: int, remaining_ms: int) -> None:
    """Extends the delay if members have joined since it began, until the members' rebalance timeout is over."""
    if step.group.new_member_added and remaining_ms:
        step.group.new_member_added = False
        _wait_for_new_members(step, min(step.limits.initial_delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0))
    else:
        complete_join(step)


def complete_join(step: Step) -> None:
    """Begins the next generation with the members that have joined. Static members stay, if any member has joined."""
    group = step.group
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    step.cancel_timer(join_key(group.group_id))
    for member in list(group.members.values()):
        if member.joining is None and not member.is_static:
            drop_member(step, member.member_id)
    if group.members and not _elect_joined_leader(group):
        # Only static members are left, and none has joined: the group waits until they do or their sessions expire.
        step.set_timer(join_key(group.group_id), group.rebalance_timeout_ms, complete_join)
        return
    group.is_initial = group.new_member_added = False
    group.generation += 1
    group.pending_sync.clear()
    if group.members:
        _begin_generation(step)
    else:
        group.protocol_name = None
        group.subscribed_topics = subscriptions(group)
        group.move_to(GroupState.EMPTY, step.now_ms)
        step.is_stored = True


def _begin_generation(step: Step) -> None:
    group = step.group
    group.protocol_name = group.elected_protocol()
    group.subscribed_topics = subscriptions(group)
    group.move_to(GroupState.COMPLETING_REBALANCE, step.now_ms)
    told = [joined_response(group, member_id) for member_id in group.members]
    for response in told:
        step.answer_join(response.member_id, response)
        restart_session(step, group.update(response.member_id, is_new=False))
        group.pending_sync[response.member_id] = None
    step.set_timer(
        sync_key(group.group_id), group.rebalance_timeout_ms, partial(_expire_pending_sync, generation=group.generation)
    )


def _elect_joined_leader(group: ClassicGroup) -> bool:
    """Makes sure that the leader has joined, if need be by a new one; False if no member has joined."""
    leader = group.members.get(group.leader_id or "")
    if leader is not None and leader.joining is not None:
        return True
    joined = next((member.member_id for member in group.members.values() if member.joining is not None), None)
    if joined is None:
        return False
    group.leader_id = joined
    return True


def _expire_pending_sync(step: Step, generation: int) -> None:
    """Removes the members that have not fetched their assignment in time."""
    group = step.group
    if group.generation == generation and group.state in _REBALANCING and group.pending_sync:
        for member_id in list(group.pending_sync):
            drop_member(step, member_id)
        begin_rebalance(step)


def drop_member(step: Step, member_id: str) -> None:
    """Removes a member without parked responses, or a pending one, and ends its session."""
    step.group.remove(member_id)
    step.cancel_timer(session_key(step.group.group_id, member_id))


def refuse_and_drop(step: Step, member_id: str) -> None:
    """Removes a member. Its parked responses complete with UNKNOWN_MEMBER_ID, so that it joins as a new one."""
    refusal = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    step.answer_join(member_id, refusal)
    step.answer_sync(member_id, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    drop_member(step, member_id)


# Sessions


def restart_session(step: Step, member: Member, timeout_ms: int | None = None) -> None:
    """Starts the member's session again, after a request that shows the member is alive."""
    step.set_timer(
        session_key(step.group.group_id, member.member_id),
        member.session_timeout_ms if timeout_ms is None else timeout_ms,
        partial(expire_session, member_id=member.member_id),
    )


def expire_session(step: Step, member_id: str) -> None:
    """Removes a member whose heartbeat did not come in time, or a pending one that did not join in time."""
    group = step.group
    if member_id in group.pending:
        drop_member(step, member_id)
        complete_if_all_joined(step)
        return
    member = group.members.get(member_id)
    if member is None or (member.awaits_response and not member.is_new):
        return  # its session goes on after the response
    refuse_and_drop(step, member_id)
    if group.state in _REBALANCING:
        begin_rebalance(step)
    else:
        complete_if_all_joined(step)


# Responses


def joined_response(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """The member's response to JoinGroup. The leader's has the metadata of all members."""
    response = JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member_id,
    )
    if member_id == group.leader_id:
        response.members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
    return response


def subscriptions(group: ClassicGroup) -> frozenset[str] | None:
    """The topics that the members of this generation are subscribed to; None if their metadata cannot be read."""
    if not group.is_of_consumers:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        of_member = subscribed_topics(member.metadata(group.protocol_name))
        if of_member is None:
            return None
        topics.update(of_member)
    return frozenset(topics)
