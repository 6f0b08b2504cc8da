"""ConsumerGroupDescribe (key 69): groups of the consumer protocol, with what members have and are to have (KIP-848)."""

from broker.coordinator.completion import gather
from broker.coordinator.decision import CoordinatorError
from broker.handlers.authorized_operations import GROUP_OPERATIONS
from broker.handlers.completed import reply
from broker.handlers.handler import Handler, RequestContext
from broker.net.reply import Pending
from broker.wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Pending:
    group_ids = request.group_ids

    def respond(
        outcome: list[DescribedGroup | CoordinatorError] | CoordinatorError,
    ) -> ConsumerGroupDescribeResponse:
        assert not isinstance(outcome, CoordinatorError), "each group has its own error"
        groups = [
            DescribedGroup(group_id=group_id, error_code=each.code, error_message=each.message or None)
            if isinstance(each, CoordinatorError)
            else each
            for group_id, each in zip(group_ids, outcome, strict=True)
        ]
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    described = [context.services.groups.consumer_group_describe(group_id) for group_id in group_ids]
    return reply(context, gather(described), respond)


HANDLER = Handler(api_key=69, min_version=0, max_version=1, immediate=consumer_group_describe)
