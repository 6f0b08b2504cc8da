"""ShareGroupDescribe (key 77): share groups, with their members and what each is assigned (KIP-932)."""

from functools import partial
from typing import Final

from broker.coordinator.runtime.completion import Completion, failed, gather
from broker.handlers.authorization import authorized_operations, refusal
from broker.handlers.group_portions import portions
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import each
from broker.wire.api.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

_STEP_GROUPS: Final = 4
_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def share_group_describe(
    context: BrokerContext, request: ShareGroupDescribeRequest
) -> Work[ShareGroupDescribeResponse]:
    """A group that is named more than once is described once."""
    response = ShareGroupDescribeResponse()
    for group_ids in portions(list(dict.fromkeys(request.group_ids))):
        completions = yield from each(partial(_describe, context), group_ids, _STEP_GROUPS)
        outcomes = yield from gather(completions)
        described = partial(_described, context, request)
        response.groups += yield from each(described, zip(group_ids, outcomes, strict=True), _STEP_GROUPS)
    return response


def _describe(context: BrokerContext, group_id: str) -> Completion[DescribedGroup]:
    groups = context.services.shares.groups
    not_served = groups.refusal()
    if not_served is not None:
        return failed(not_served)
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return failed(refusal(ResourceType.GROUP))
    return groups.describe(group_id)


def _described(
    context: BrokerContext,
    request: ShareGroupDescribeRequest,
    id_and_outcome: tuple[str, DescribedGroup | KafkaError],
) -> DescribedGroup:
    group_id, outcome = id_and_outcome
    if not isinstance(outcome, KafkaError) and not _may_see_topics(context, outcome):
        outcome = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN_TOPICS)
    if isinstance(outcome, KafkaError):
        return DescribedGroup(group_id=group_id, error_code=outcome.code, error_message=message_of(outcome))
    if request.include_authorized_operations:
        outcome.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return outcome


def _may_see_topics(context: BrokerContext, group: DescribedGroup) -> bool:
    """True if the client may describe all topics of which members have partitions."""
    if context.server.authorizer is None:
        return True
    names = dict.fromkeys(topic.topic_name for member in group.members for topic in member.assignment.topic_partitions)
    return all(context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


HANDLER = Handler(ShareGroupDescribeRequest, share_group_describe, request_bytes_max=REQUEST_BYTES_MAX // 4)
