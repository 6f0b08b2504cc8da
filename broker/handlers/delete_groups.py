"""DeleteGroups (key 42): delete groups without members, with their committed offsets."""

from broker.coordinator.runtime.decision import CoordinatorError
from broker.handlers.group_portions import FEW_GROUPS, portions
from broker.net.reply import PendingReply
from broker.server.context import RequestContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.slices import each
from broker.wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.errors import ErrorCode


def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse | PendingReply:
    group_ids = list(dict.fromkeys(request.groups_names))
    if len(group_ids) > FEW_GROUPS:
        return context.defer(_delete_many(context, group_ids))
    names, completion = context.services.groups.delete_groups(group_ids)
    return context.answer(completion, lambda outcome: DeleteGroupsResponse(results=_results(names, outcome)))


async def _delete_many(context: RequestContext, group_ids: list[str]) -> DeleteGroupsResponse:
    """Deletes the groups in portions, each with one decision per partition that has groups of the portion."""
    response = DeleteGroupsResponse()
    for some in portions(group_ids):
        begun = await context.finish(each(context.services.groups.delete_groups, portions(some, FEW_GROUPS), 1))
        context.services.partitions.commit_staged()  # no connection's turn commits it
        for names, completion in begun:
            outcome = await completion.wait()
            response.results += _results(names, outcome)
    return response


def _results(
    names: list[list[str]], outcome: list[dict[str, ErrorCode] | CoordinatorError] | CoordinatorError
) -> list[DeletableGroupResult]:
    assert not isinstance(outcome, CoordinatorError), "each partition has its own error"
    results: list[DeletableGroupResult] = []
    for theirs, codes in zip(names, outcome, strict=True):
        for name in theirs:
            code = codes.code if isinstance(codes, CoordinatorError) else codes[name]
            results.append(DeletableGroupResult(group_id=name, error_code=code))
    return results


HANDLER = Handler(DeleteGroupsRequest, delete_groups, request_bytes_max=REQUEST_BYTES_MAX // 4)
