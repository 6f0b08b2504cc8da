"""ListGroups (key 16): the groups that this broker coordinates. While it loads some of them, it cannot tell."""

from broker.coordinator.decision import CoordinatorError
from broker.handlers.completed import reply
from broker.handlers.handler import SMALL_REQUEST_BYTES_MAX, Handler, RequestContext
from broker.net.reply import Pending
from broker.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from broker.wire.errors import ErrorCode


def list_groups(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse | Pending:
    completion = context.services.groups.list_groups(request.states_filter, request.types_filter)
    return reply(context, completion, _respond)


def _respond(outcome: list[list[ListedGroup] | CoordinatorError] | CoordinatorError) -> ListGroupsResponse:
    assert not isinstance(outcome, CoordinatorError), "each partition has its own error"
    groups: list[ListedGroup] = []
    for of_partition in outcome:
        if not isinstance(of_partition, CoordinatorError):
            groups += of_partition
        elif of_partition.code is not ErrorCode.NOT_COORDINATOR:  # another broker lists those
            return ListGroupsResponse(error_code=of_partition.code)
    return ListGroupsResponse(groups=groups)


HANDLER = Handler(
    request_bytes_max=SMALL_REQUEST_BYTES_MAX, api_key=16, min_version=0, max_version=5, immediate=list_groups
)
