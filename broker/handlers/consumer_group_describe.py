"""ConsumerGroupDescribe (key 69): consumer groups, with current and target assignments of members (KIP-848)."""

from functools import partial
from typing import Final

from broker.coordinator.runtime.completion import gather
from broker.handlers.authorized_operations import GROUP_OPERATIONS
from broker.handlers.group_portions import portions
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import each
from broker.wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from broker.wire.errors import KafkaError

_STEP_GROUPS: Final = 4


def consumer_group_describe(
    context: BrokerContext, request: ConsumerGroupDescribeRequest
) -> Work[ConsumerGroupDescribeResponse]:
    """A group that is named more than once is described once."""
    response = ConsumerGroupDescribeResponse()
    describe = context.services.groups.consumer_group_describe
    for group_ids in portions(list(dict.fromkeys(request.group_ids))):
        completions = yield from each(describe, group_ids, _STEP_GROUPS)
        outcomes = yield from gather(completions)
        response.groups += yield from each(partial(_described, request), zip(group_ids, outcomes, strict=True))
    return response


def _described(
    request: ConsumerGroupDescribeRequest, id_and_outcome: tuple[str, DescribedGroup | KafkaError]
) -> DescribedGroup:
    group_id, outcome = id_and_outcome
    if isinstance(outcome, KafkaError):
        return DescribedGroup(group_id=group_id, error_code=outcome.code, error_message=message_of(outcome))
    if request.include_authorized_operations and not outcome.error_code:
        outcome.authorized_operations = GROUP_OPERATIONS
    return outcome


HANDLER = Handler(ConsumerGroupDescribeRequest, consumer_group_describe, request_bytes_max=REQUEST_BYTES_MAX // 4)
