"""JoinGroup: members come (back), and are held until the generation begins that they will be part of."""

from typing import Final

import attrs

from broker.coordinator.group.classic.classic_group import (
    ClassicGroup,
    GroupState,
    Member,
    Protocol,
    Waiter,
    distinct_protocols,
    session_key,
)
from broker.coordinator.group.classic.rebalance import (
    begin_rebalance,
    complete_if_all_joined,
    drop_member,
    expect_heartbeat,
    expire_session,
    joined_response,
    rebalance_or_complete,
)
from broker.coordinator.group.classic.step import NEWCOMER_TIMEOUT_MS, Step
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.sync_group import SyncGroupResponse
from broker.wire.errors import ErrorCode

UNKNOWN_MEMBER_ID: Final = ""


@attrs.frozen(kw_only=True)
class Joiner:
    """Who joins. `new_member_id` is for who has none yet, and was never given to anybody.

    `needs_member_id`: a dynamic member is told its id first, and joins with it (KIP-394).
    `can_skip_assignment`: a static member that leads may be told that nothing is to be assigned (KIP-814).
    """

    client_id: str
    client_host: str
    new_member_id: str
    needs_member_id: bool
    can_skip_assignment: bool


def join(step: Step, request: JoinGroupRequest, joiner: Joiner, waiter: Waiter) -> None:
    """Have `waiter` answered, at once or when the next generation begins."""
    group, member_id = step.group, request.member_id
    if not _has_room(step, member_id):
        if member_id in group.members or member_id in group.pending:
            drop_member(step, member_id)
        refuse(step, waiter, ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID)
        complete_if_all_joined(step)
    elif not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        refuse(step, waiter, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    elif member_id == UNKNOWN_MEMBER_ID:
        _join_unknown(step, request, joiner, waiter)
    elif member_id in group.pending and request.group_instance_id is None:
        _add(step, request, joiner, member_id, waiter)
    else:
        error = group.member_error(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            refuse(step, waiter, error, member_id)
        else:
            _join_again(step, request, group.members[member_id], waiter)


def refuse(step: Step, waiter: Waiter, error: ErrorCode, member_id: str) -> None:
    step.answer(waiter, JoinGroupResponse(error_code=error, member_id=member_id))


def _has_room(step: Step, member_id: str) -> bool:
    """Whether `group.max.size` lets it in. While members join again, those count that have: the last ones are out."""
    group, members_max = step.group, step.limits.members_max
    member = group.members.get(member_id)
    if group.is_empty:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.joining is not None) or group.joining_count < members_max
    return member is not None or len(group.members) < members_max


def _join_unknown(step: Step, request: JoinGroupRequest, joiner: Joiner, waiter: Waiter) -> None:
    group, member_id = step.group, joiner.new_member_id
    assert member_id not in {*group.members, *group.pending}, "an id was given out twice"
    if request.group_instance_id is not None:
        former_id = group.static_members.get(request.group_instance_id)
        if former_id is None:
            _add(step, request, joiner, member_id, waiter)
        else:
            _replace_static(step, request, joiner, former_id, waiter)
    elif joiner.needs_member_id:
        group.pending[member_id] = None
        step.set_timer(
            session_key(group.group_id, member_id),
            request.session_timeout_ms,
            lambda later: expire_session(later, member_id),
        )
        refuse(step, waiter, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add(step, request, joiner, member_id, waiter)


def _add(step: Step, request: JoinGroupRequest, joiner: Joiner, member_id: str, waiter: Waiter) -> None:
    group = step.group
    if not group.members:
        group.protocol_type = request.protocol_type
    if group.is_initial:
        group.has_newcomers = True
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=_protocols(request),
        is_new=True,
        joining=waiter,
    )
    group.put(member)
    expect_heartbeat(step, member, NEWCOMER_TIMEOUT_MS)
    rebalance_or_complete(step)


def _join_again(step: Step, request: JoinGroupRequest, member: Member, waiter: Waiter) -> None:
    """A rebalance begins where the leader asks for one, or a member has something new to say.

    Otherwise the member has missed what it was told of this generation, and is told again.
    """
    group = step.group
    is_forced = group.state is GroupState.STABLE and member.member_id == group.leader_id
    if group.is_empty:
        refuse(step, waiter, ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)
    elif group.state is GroupState.PREPARING_REBALANCE or is_forced or member.protocols != _protocols(request):
        _wait_again(step, request, member.member_id, waiter)
        rebalance_or_complete(step)
    else:
        step.answer(waiter, joined_response(group, member.member_id))


def _wait_again(step: Step, request: JoinGroupRequest, member_id: str, waiter: Waiter) -> Member:
    # Whoever waits twice has given up the first one: its answer is not read, and must not hold up what is behind it.
    step.answer_join(member_id, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member_id))
    return step.group.update(
        member_id,
        protocols=_protocols(request),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        joining=waiter,
    )


def _replace_static(step: Step, request: JoinGroupRequest, joiner: Joiner, former_id: str, waiter: Waiter) -> None:
    """A static member is back, in another life and under another id; the former one is fenced (KIP-345).

    In a stable group nothing changes by that, unless its protocols do: it gets the assignment it had.
    """
    group, former_leader = step.group, step.group.leader_id
    member_id = _take_over(step, former_id, joiner)
    expect_heartbeat(step, _wait_again(step, request, member_id, waiter))
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_joined(step)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be about to assign to the former id.
        begin_rebalance(step)
    elif group.protocol_name != group.elected_protocol():
        begin_rebalance(step)
    else:
        step.answer_join(member_id, _unchanged_response(group, member_id, joiner, former_leader))
        step.is_stored = True


def _unchanged_response(
    group: ClassicGroup, member_id: str, joiner: Joiner, former_leader: str | None
) -> JoinGroupResponse:
    """The generation as before. One that leads, and cannot be told not to assign, is told that another one leads."""
    response = joined_response(group, member_id)
    if joiner.can_skip_assignment:
        response.skip_assignment = member_id == group.leader_id
    else:
        response.members = []
        response.leader = former_leader or ""
    return response


def _take_over(step: Step, former_id: str, joiner: Joiner) -> str:
    group, member_id = step.group, joiner.new_member_id
    fenced = ErrorCode.FENCED_INSTANCE_ID
    step.answer_join(former_id, JoinGroupResponse(error_code=fenced, member_id=former_id, protocol_name=None))
    step.answer_sync(former_id, SyncGroupResponse(error_code=fenced))
    led = group.leader_id == former_id
    member = attrs.evolve(group.members[former_id], member_id=member_id)
    drop_member(step, former_id)
    group.put(member)
    if led:
        group.leader_id = member_id
    return member_id


def _protocols(request: JoinGroupRequest) -> tuple[Protocol, ...]:
    """As the member prefers them."""
    return distinct_protocols((each.name, each.metadata) for each in request.protocols)
