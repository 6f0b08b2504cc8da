"""JoinGroup, SyncGroup and LeaveGroup, as steps of a classic group.

A member joins, and its response is parked until the generation begins that the member belongs to. The leader then sends
the assignment, which is written, and each member gets its own part. Members leave, or an administrator removes them.
"""

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from broker.coordinator.group.classic.classic_group import (
    ClassicGroup,
    GroupState,
    Member,
    ParkedResponse,
    Protocol,
    distinct_protocols,
    session_key,
)
from broker.coordinator.group.classic.rebalance import (
    begin_rebalance,
    complete_if_all_joined,
    drop_member,
    expire_session,
    joined_response,
    rebalance_or_complete,
    refuse_and_drop,
    restart_session,
)
from broker.coordinator.group.classic.step import NEW_MEMBER_TIMEOUT_MS, Step, sync_key
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.errors import ErrorCode
from kraft import lazy_attrs

UNKNOWN_MEMBER_ID: Final = ""


@lazy_attrs.frozen(kw_only=True)
class JoiningClient:
    """The client that sends a JoinGroup. `new_member_id` is for a client without a member id; it was never used before.

    `needs_member_id`: a dynamic member is told its member id first, and joins with it (KIP-394). `can_skip_assignment`:
    a static member that is the leader can be told to skip the assignment (KIP-814). `topic_filter` is true for the
    topics that the client may describe; None if it may describe all.
    """

    client_id: str
    client_host: str
    new_member_id: str
    needs_member_id: bool
    can_skip_assignment: bool
    topic_filter: Callable[[str], bool] | None = None


def join(step: Step, request: JoinGroupRequest, joiner: JoiningClient, waiter: ParkedResponse) -> None:
    """Completes `waiter` at once, or when the next generation begins."""
    group, member_id = step.group, request.member_id
    if not _may_join(step, member_id):
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


def refuse(step: Step, waiter: ParkedResponse, error: ErrorCode, member_id: str) -> None:
    step.answer(waiter, JoinGroupResponse(error_code=error, member_id=member_id))


def _may_join(step: Step, member_id: str) -> bool:
    """True if `group.max.size` permits the member. In a rebalance, members count that have joined again: the last ones
    are refused.
    """
    group, members_max = step.group, step.limits.members_max
    member = group.members.get(member_id)
    if group.is_empty:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.joining is not None) or group.joining_count < members_max
    return member is not None or len(group.members) < members_max


def _join_unknown(step: Step, request: JoinGroupRequest, joiner: JoiningClient, waiter: ParkedResponse) -> None:
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


def _add(step: Step, request: JoinGroupRequest, joiner: JoiningClient, member_id: str, waiter: ParkedResponse) -> None:
    group = step.group
    if not group.members:
        group.protocol_type = request.protocol_type
    if group.is_initial:
        group.new_member_added = True
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
    restart_session(step, member, NEW_MEMBER_TIMEOUT_MS)
    rebalance_or_complete(step)


def _join_again(step: Step, request: JoinGroupRequest, member: Member, waiter: ParkedResponse) -> None:
    """Begins a rebalance if the leader joins again, or if the member's protocols have changed.

    Otherwise the member has missed the response of this generation, and gets it again.
    """
    group = step.group
    is_forced = group.state is GroupState.STABLE and member.member_id == group.leader_id
    if group.is_empty:
        refuse(step, waiter, ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)
    elif group.state is GroupState.PREPARING_REBALANCE or is_forced or member.protocols != _protocols(request):
        _update_and_wait(step, request, member.member_id, waiter)
        rebalance_or_complete(step)
    else:
        step.answer(waiter, joined_response(group, member.member_id))


def _update_and_wait(step: Step, request: JoinGroupRequest, member_id: str, waiter: ParkedResponse) -> Member:
    # A client that joins again no longer reads the first response. It must not block later ones of the connection.
    step.answer_join(member_id, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member_id))
    return step.group.update(
        member_id,
        protocols=_protocols(request),
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        joining=waiter,
    )


def _replace_static(
    step: Step, request: JoinGroupRequest, joiner: JoiningClient, former_id: str, waiter: ParkedResponse
) -> None:
    """A static member has restarted and has a new member id; its former member id is fenced (KIP-345).

    A stable group does not rebalance if the elected protocol stays the same: the member keeps its assignment.
    """
    group, former_leader = step.group, step.group.leader_id
    member_id = _replace_member_id(step, former_id, joiner)
    restart_session(step, _update_and_wait(step, request, member_id, waiter))
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_joined(step)
    elif group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may be about to assign to the former id.
        begin_rebalance(step)
    elif group.protocol_name != group.elected_protocol():
        begin_rebalance(step)
    else:
        step.answer_join(member_id, _same_generation_response(group, member_id, joiner, former_leader))
        step.is_stored = True


def _same_generation_response(
    group: ClassicGroup, member_id: str, joiner: JoiningClient, former_leader: str | None
) -> JoinGroupResponse:
    """The response of the present generation. A leader whose client does not know `skip_assignment` is told that the
    former leader leads, so that it does not assign.
    """
    response = joined_response(group, member_id)
    if joiner.can_skip_assignment:
        response.skip_assignment = member_id == group.leader_id
    else:
        response.members = []
        response.leader = former_leader or ""
    return response


def _replace_member_id(step: Step, former_id: str, joiner: JoiningClient) -> str:
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
    """The client's protocols in the order of its preference."""
    return distinct_protocols((each.name, each.metadata) for each in request.protocols)


def sync(step: Step, request: SyncGroupRequest, waiter: ParkedResponse) -> None:
    """Completes `waiter` at once, or when the leader has sent the assignment."""
    group, member_id = step.group, request.member_id
    error = _sync_error(group, request)
    if error is not ErrorCode.NONE:
        step.answer(waiter, SyncGroupResponse(error_code=error))
        return
    _mark_synced(step, member_id)
    if group.state is GroupState.STABLE:
        step.answer(waiter, _assigned(group, member_id))
        return
    # A client that syncs again no longer reads the first response.
    step.answer_sync(member_id, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    group.update(member_id, syncing=waiter)
    if member_id == group.leader_id:
        _assign(step, {each.member_id: each.assignment for each in request.assignments})


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if group.is_empty:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _contradicts(request.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _contradicts(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _contradicts(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


def _mark_synced(step: Step, member_id: str) -> None:
    group = step.group
    group.pending_sync.pop(member_id, None)
    if not group.pending_sync:
        step.cancel_timer(sync_key(group.group_id))


def _assign(step: Step, assignments: dict[str, bytes]) -> None:
    """Completes the generation. A member that the leader left out has an empty assignment."""
    group = step.group
    for member_id in list(group.members):
        group.update(member_id, assignment=assignments.get(member_id, b""))
    group.move_to(GroupState.STABLE, step.now_ms)
    step.is_stored = True
    for member_id in list(group.members):
        if step.answer_sync(member_id, _assigned(group, member_id)):
            # A session does not expire while a response is parked.
            restart_session(step, group.members[member_id])


def _assigned(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=group.members[member_id].assignment,
    )


def leave(step: Step, members: Sequence[MemberIdentity]) -> list[ErrorCode]:
    """Removes these members; begins a rebalance if any of them was in the group. Returns an error code for each."""
    group = step.group
    codes = [_leave_one(step, each) for each in members]
    if ErrorCode.NONE in codes:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            begin_rebalance(step)
        else:
            complete_if_all_joined(step)
    return codes


def _leave_one(step: Step, who: MemberIdentity) -> ErrorCode:
    """Removes one member. A static member may be identified by its instance id alone."""
    group, member_id = step.group, who.member_id
    if not member_id:
        instance_id = who.group_instance_id
        member_id = "" if instance_id is None else group.static_members.get(instance_id, "")
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending:
        drop_member(step, member_id)
        return ErrorCode.NONE
    else:
        error = group.member_error(member_id, who.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
    refuse_and_drop(step, member_id)
    return ErrorCode.NONE
