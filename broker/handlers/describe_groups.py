"""DescribeGroups (key 15): classic groups. An unknown group is Dead, and from version 6 on also an error."""

from functools import partial
from typing import Final, TypeAlias

from broker.coordinator.group.classic.classic_group import GroupState
from broker.coordinator.runtime.completion import gather
from broker.coordinator.runtime.decision import CoordinatorError
from broker.handlers.authorized_operations import GROUP_OPERATIONS
from broker.handlers.group_portions import FEW_GROUPS, portions
from broker.net.reply import PendingReply
from broker.server.context import RequestContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.slices import each
from broker.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from broker.wire.errors import ErrorCode

_NOT_FOUND_FROM: Final = 6

_Outcomes: TypeAlias = list[DescribedGroup | CoordinatorError]


def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse | PendingReply:
    """A group that is named more than once is described once."""
    group_ids = list(dict.fromkeys(request.groups))
    if len(group_ids) > FEW_GROUPS:
        return context.defer(_describe_many(context, request, group_ids))

    def respond(outcome: _Outcomes | CoordinatorError) -> DescribeGroupsResponse:
        assert not isinstance(outcome, CoordinatorError), "each group has its own error"
        groups = map(partial(_described, context, request), zip(group_ids, outcome, strict=True))
        return DescribeGroupsResponse(groups=list(groups))

    return context.answer(gather([context.services.groups.describe_group(each) for each in group_ids]), respond)


async def _describe_many(
    context: RequestContext, request: DescribeGroupsRequest, group_ids: list[str]
) -> DescribeGroupsResponse:
    response = DescribeGroupsResponse()
    for some in portions(group_ids):
        completions = await context.finish(each(context.services.groups.describe_group, some))
        outcome = await gather(completions).wait()
        assert not isinstance(outcome, CoordinatorError), "each group has its own error"
        described = each(partial(_described, context, request), zip(some, outcome, strict=True))
        response.groups += await context.finish(described)
    return response


def _described(
    context: RequestContext, request: DescribeGroupsRequest, described: tuple[str, DescribedGroup | CoordinatorError]
) -> DescribedGroup:
    group_id, outcome = described
    group = _failed(outcome, group_id, context.api_version) if isinstance(outcome, CoordinatorError) else outcome
    if request.include_authorized_operations and not group.error_code:
        group.authorized_operations = GROUP_OPERATIONS
    return group


def _failed(error: CoordinatorError, group_id: str, version: int) -> DescribedGroup:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)
    if version >= _NOT_FOUND_FROM:
        dead.error_code = error.code
        dead.error_message = error.message
    return dead


HANDLER = Handler(DescribeGroupsRequest, describe_groups, request_bytes_max=REQUEST_BYTES_MAX // 4)
