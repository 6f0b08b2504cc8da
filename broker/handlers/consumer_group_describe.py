"""ConsumerGroupDescribe (key 69): consumer groups, with current and target assignments of members (KIP-848)."""

from functools import partial
from typing import Final, TypeAlias

from broker.coordinator.runtime.completion import gather
from broker.coordinator.runtime.decision import CoordinatorError
from broker.handlers.authorized_operations import GROUP_OPERATIONS
from broker.handlers.group_portions import FEW_GROUPS, portions
from broker.net.reply import PendingReply
from broker.server.context import RequestContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.slices import each
from broker.wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

_Outcomes: TypeAlias = list[DescribedGroup | CoordinatorError]
_STEP_GROUPS: Final = 4


def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | PendingReply:
    """A group that is named more than once is described once."""
    group_ids = list(dict.fromkeys(request.group_ids))
    if len(group_ids) > FEW_GROUPS:
        return context.defer(_describe_many(context, request, group_ids))

    def respond(outcome: _Outcomes | CoordinatorError) -> ConsumerGroupDescribeResponse:
        assert not isinstance(outcome, CoordinatorError), "each group has its own error"
        groups = map(partial(_described, request), zip(group_ids, outcome, strict=True))
        return ConsumerGroupDescribeResponse(groups=list(groups))

    described = [context.services.groups.consumer_group_describe(group_id) for group_id in group_ids]
    return context.answer(gather(described), respond)


async def _describe_many(
    context: RequestContext, request: ConsumerGroupDescribeRequest, group_ids: list[str]
) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse()
    describe = context.services.groups.consumer_group_describe
    for some in portions(group_ids):
        completions = await context.finish(each(describe, some, _STEP_GROUPS))
        outcome = await gather(completions).wait()
        assert not isinstance(outcome, CoordinatorError), "each group has its own error"
        described = each(partial(_described, request), zip(some, outcome, strict=True))
        response.groups += await context.finish(described)
    return response


def _described(
    request: ConsumerGroupDescribeRequest, described: tuple[str, DescribedGroup | CoordinatorError]
) -> DescribedGroup:
    group_id, outcome = described
    if isinstance(outcome, CoordinatorError):
        return DescribedGroup(group_id=group_id, error_code=outcome.code, error_message=outcome.message or None)
    if request.include_authorized_operations and not outcome.error_code:
        outcome.authorized_operations = GROUP_OPERATIONS
    return outcome


HANDLER = Handler(ConsumerGroupDescribeRequest, consumer_group_describe, request_bytes_max=REQUEST_BYTES_MAX // 4)
