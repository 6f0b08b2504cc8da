"""ListGroups (key 16): the groups that this broker coordinates. While it loads a partition, it returns an error."""

from functools import partial

from broker.coordinator.group.administration import lower_case
from broker.coordinator.runtime.completion import gather
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import each, filtered
from broker.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType


def list_groups(context: BrokerContext, request: ListGroupsRequest) -> Work[ListGroupsResponse]:
    if not context.services.coordination.are_made:
        yield from in_task(context.services.coordination.make())
    groups = context.services.groups
    ask = partial(groups.list_groups, lower_case(request.states_filter), lower_case(request.types_filter))
    completions = yield from each(ask, groups.runtime.led_partitions, step_items=1)
    outcome = yield from gather(completions)
    response = _respond(outcome)
    if not context.allows_cluster(AclOperation.DESCRIBE, is_tried=False):
        response.groups = yield from filtered(partial(_may_see, context), response.groups)
    return response


def _may_see(context: BrokerContext, group: ListedGroup) -> bool:
    return context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, is_tried=False)


def _respond(outcome: list[list[ListedGroup] | KafkaError]) -> ListGroupsResponse:
    groups: list[ListedGroup] = []
    for of_partition in outcome:
        if not isinstance(of_partition, KafkaError):
            groups += of_partition
        elif of_partition.code is not ErrorCode.NOT_COORDINATOR:  # another broker lists those
            return ListGroupsResponse(error_code=of_partition.code)
    return ListGroupsResponse(groups=groups)


HANDLER = Handler(ListGroupsRequest, list_groups, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
