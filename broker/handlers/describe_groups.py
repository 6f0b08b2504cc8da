"""DescribeGroups (key 15): classic groups. An unknown group is Dead, and from version 6 on also an error."""

from functools import partial
from typing import Final

from broker.coordinator.group.classic.classic_group import GroupState
from broker.coordinator.runtime.completion import Completion, failed, gather
from broker.handlers.authorization import authorized_operations, refusal
from broker.handlers.group_portions import portions
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import each
from broker.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_NOT_FOUND_FROM: Final = 6


def describe_groups(context: BrokerContext, request: DescribeGroupsRequest) -> Work[DescribeGroupsResponse]:
    """A group that is named more than once is described once."""
    response = DescribeGroupsResponse()
    described = partial(_described, context, request)
    for group_ids in portions(list(dict.fromkeys(request.groups))):
        completions = yield from each(partial(_describe, context), group_ids)
        outcomes = yield from gather(completions)
        response.groups += yield from each(described, zip(group_ids, outcomes, strict=True))
    return response


def _describe(context: BrokerContext, group_id: str) -> Completion[DescribedGroup]:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return failed(refusal(ResourceType.GROUP))
    return context.services.groups.describe_group(group_id)


def _described(
    context: BrokerContext, request: DescribeGroupsRequest, id_and_outcome: tuple[str, DescribedGroup | KafkaError]
) -> DescribedGroup:
    group_id, outcome = id_and_outcome
    group = _failed(outcome, group_id, context.api_version) if isinstance(outcome, KafkaError) else outcome
    if request.include_authorized_operations and not group.error_code:
        group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return group


def _failed(error: KafkaError, group_id: str, version: int) -> DescribedGroup:
    if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    dead = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)
    if version >= _NOT_FOUND_FROM:
        dead.error_code = error.code
        dead.error_message = error.message
    return dead


HANDLER = Handler(DescribeGroupsRequest, describe_groups, request_bytes_max=REQUEST_BYTES_MAX // 4)
