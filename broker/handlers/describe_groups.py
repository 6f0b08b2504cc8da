"""DescribeGroups (key 15): classic groups. One that is not there is Dead; from version 6 that is an error as well."""

from typing import Final

from broker.coordinator.completion import gather
from broker.coordinator.decision import CoordinatorError
from broker.coordinator.group.classic.group import GroupState
from broker.handlers.authorized_operations import GROUP_OPERATIONS
from broker.handlers.completed import reply
from broker.handlers.handler import Handler, RequestContext
from broker.net.reply import Pending
from broker.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from broker.wire.errors import ErrorCode

_NOT_FOUND_FROM: Final = 6


def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse | Pending:
    group_ids = request.groups

    def respond(
        outcome: list[DescribedGroup | CoordinatorError] | CoordinatorError,
    ) -> DescribeGroupsResponse:
        assert not isinstance(outcome, CoordinatorError), "each group has its own error"
        groups = [
            _failed(each, group_id, context.api_version) if isinstance(each, CoordinatorError) else each
            for group_id, each in zip(group_ids, outcome, strict=True)
        ]
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    return reply(context, gather([context.services.groups.describe_group(each) for each in group_ids]), respond)


def _failed(error: CoordinatorError, group_id: str, version: int) -> DescribedGroup:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)
    if version >= _NOT_FOUND_FROM:
        dead.error_code = error.code
        dead.error_message = error.message
    return dead


HANDLER = Handler(api_key=15, min_version=0, max_version=6, immediate=describe_groups)
