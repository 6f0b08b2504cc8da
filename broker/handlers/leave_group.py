"""LeaveGroup (key 13): members leave, or an administrator removes them. Up to version 2 a request names one member."""

from typing import Final

from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import STEP_ITEMS
from broker.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_MANY_FROM: Final = 3


def leave_group(context: BrokerContext, request: LeaveGroupRequest) -> Work[LeaveGroupResponse]:
    if not context.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    is_one = context.api_version < _MANY_FROM
    members = [MemberIdentity(member_id=request.member_id)] if is_one else request.members
    outcome = yield from context.services.groups.leave_group(request.group_id, members)
    if isinstance(outcome, KafkaError):
        return LeaveGroupResponse(error_code=outcome.code)
    if is_one:
        return LeaveGroupResponse(error_code=outcome[0])
    response = LeaveGroupResponse()
    for number, (member, code) in enumerate(zip(members, outcome, strict=True), 1):
        response.members.append(
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)
        )
        if not number % STEP_ITEMS:
            yield None
    return response


HANDLER = Handler(LeaveGroupRequest, leave_group, request_bytes_max=REQUEST_BYTES_MAX // 4)
