"""DeleteGroups (key 42): delete groups without members, with their committed offsets."""

from typing import Final

from broker.handlers.group_portions import portions
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import each
from broker.wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.errors import ErrorCode, KafkaError

# Groups that are deleted in one step.
_STEP_GROUPS: Final = 16


def delete_groups(context: BrokerContext, request: DeleteGroupsRequest) -> Work[DeleteGroupsResponse]:
    """Deletes the groups in portions, each with one decision per partition that has groups of the portion."""
    response = DeleteGroupsResponse()
    for some in portions(list(dict.fromkeys(request.groups_names))):
        begun = yield from each(context.services.groups.delete_groups, portions(some, _STEP_GROUPS), 1)
        for names, completion in begun:
            outcome = yield from completion
            response.results += _results(names, outcome)
    return response


def _results(names: list[list[str]], outcome: list[dict[str, ErrorCode] | KafkaError]) -> list[DeletableGroupResult]:
    results: list[DeletableGroupResult] = []
    for theirs, codes in zip(names, outcome, strict=True):
        for name in theirs:
            code = codes.code if isinstance(codes, KafkaError) else codes[name]
            results.append(DeletableGroupResult(group_id=name, error_code=code))
    return results


HANDLER = Handler(DeleteGroupsRequest, delete_groups, request_bytes_max=REQUEST_BYTES_MAX // 4)
