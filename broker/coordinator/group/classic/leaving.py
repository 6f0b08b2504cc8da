"""LeaveGroup: members leave, or an administrator removes them."""

from collections.abc import Sequence

from broker.coordinator.group.classic.classic_group import GroupState
from broker.coordinator.group.classic.rebalance import (
    begin_rebalance,
    complete_if_all_joined,
    drop_member,
    refuse_and_drop,
)
from broker.coordinator.group.classic.step import Step
from broker.wire.api.leave_group import MemberIdentity, MemberResponse
from broker.wire.errors import ErrorCode


def leave(step: Step, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
    """Removes these members; begins a rebalance if any of them was in the group."""
    group = step.group
    responses = [
        MemberResponse(
            member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=_leave_one(step, each)
        )
        for each in members
    ]
    if any(response.error_code == ErrorCode.NONE for response in responses):
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            begin_rebalance(step)
        else:
            complete_if_all_joined(step)
    return responses


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
