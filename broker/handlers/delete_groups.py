"""DeleteGroups (key 42): delete groups without members, with their committed offsets.

From version 3 on, a result has the message of the coordinator's error, if that has one (KIP-1331).
"""

from functools import partial
from typing import Final

from broker.handlers.group_portions import portions
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import each, filtered
from broker.wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

# Groups that are deleted in one step.
_STEP_GROUPS: Final = 16


def delete_groups(context: BrokerContext, request: DeleteGroupsRequest) -> Work[DeleteGroupsResponse]:
    """Deletes the groups in portions, each with one decision per partition that has groups of the portion."""
    response = DeleteGroupsResponse()
    named = list(dict.fromkeys(request.groups_names))
    allowed = yield from filtered(partial(context.allows, AclOperation.DELETE, ResourceType.GROUP), named)
    if len(allowed) < len(named):
        refused = dict.fromkeys(named)
        for group_id in allowed:
            del refused[group_id]
        response.results += yield from each(_refused, refused)
    for named_ids in portions(allowed):
        group_ids, failed = named_ids, dict[str, KafkaError]()
        if context.services.shares.groups.has_any(named_ids):
            failed = yield from context.services.shares.groups.delete_states(named_ids)
            group_ids = [group_id for group_id in named_ids if group_id not in failed]
        response.results += [_result(group_id, error) for group_id, error in failed.items()]
        begun = yield from each(context.services.groups.delete_groups, portions(group_ids, _STEP_GROUPS), 1)
        for by_partition, completion in begun:
            outcomes = yield from completion
            response.results += _results(by_partition, outcomes)
    return response


def _result(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error.code, error_message=error.message or None)


def _refused(group_id: str) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _results(
    by_partition: list[list[str]], outcomes: list[dict[str, ErrorCode] | KafkaError]
) -> list[DeletableGroupResult]:
    results: list[DeletableGroupResult] = []
    for group_ids, outcome in zip(by_partition, outcomes, strict=True):
        for group_id in group_ids:
            if isinstance(outcome, KafkaError):
                code, message = outcome.code, outcome.message or None
            else:
                code, message = outcome[group_id], None
            results.append(DeletableGroupResult(group_id=group_id, error_code=code, error_message=message))
    return results


HANDLER = Handler(DeleteGroupsRequest, delete_groups, request_bytes_max=REQUEST_BYTES_MAX // 4)
