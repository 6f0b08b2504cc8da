"""SyncGroup: the leader sends the assignment, which is written, and each member gets its own part."""

from broker.coordinator.group.classic.classic_group import ClassicGroup, GroupState, ParkedResponse
from broker.coordinator.group.classic.rebalance import restart_session
from broker.coordinator.group.classic.step import Step, sync_key
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.errors import ErrorCode


def sync(step: Step, request: SyncGroupRequest, waiter: ParkedResponse) -> None:
    """Completes `waiter` at once, or when the leader has sent the assignment."""
    group, member_id = step.group, request.member_id
    error = _error(group, request)
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


def _error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
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
