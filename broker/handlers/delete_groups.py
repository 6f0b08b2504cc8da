"""DeleteGroups (key 42): forget groups without members, with all that they have committed."""

from broker.coordinator.decision import CoordinatorError
from broker.handlers.completed import reply
from broker.handlers.handler import Handler, RequestContext
from broker.net.reply import Pending
from broker.wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.errors import ErrorCode


def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse | Pending:
    names, completion = context.services.groups.delete_groups(list(dict.fromkeys(request.groups_names)))

    def respond(outcome: list[dict[str, ErrorCode] | CoordinatorError] | CoordinatorError) -> DeleteGroupsResponse:
        assert not isinstance(outcome, CoordinatorError), "each partition has its own error"
        results: list[DeletableGroupResult] = []
        for theirs, codes in zip(names, outcome, strict=True):
            for name in theirs:
                code = codes.code if isinstance(codes, CoordinatorError) else codes[name]
                results.append(DeletableGroupResult(group_id=name, error_code=code))
        return DeleteGroupsResponse(results=results)

    return reply(context, completion, respond)


HANDLER = Handler(api_key=42, min_version=0, max_version=2, immediate=delete_groups)
