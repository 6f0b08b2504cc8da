"""ConsumerGroupDescribe (key 69, KIP-848) and ShareGroupDescribe (key 77, KIP-932): groups and what members have."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from broker.coordinator.runtime.completion import Completion, failed, gather
from broker.handlers.authorization import authorized_operations, refusal
from broker.handlers.group_portions import portions
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import each
from broker.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from broker.wire.api.consumer_group_describe import DescribedGroup as ConsumerGroup
from broker.wire.api.share_group_describe import DescribedGroup as ShareGroup
from broker.wire.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import AclOperation, ResourceType

G = TypeVar("G", ConsumerGroup, ShareGroup)

_STEP_GROUPS: Final = 4
_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def consumer_group_describe(
    context: BrokerContext, request: ConsumerGroupDescribeRequest
) -> Work[ConsumerGroupDescribeResponse]:
    groups = context.services.groups

    def describe(group_id: str) -> Completion[ConsumerGroup]:
        if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            return failed(refusal(ResourceType.GROUP))
        return groups.consumer_group_describe(group_id)

    described = yield from _described_groups(context, request, describe, ConsumerGroup)
    return ConsumerGroupDescribeResponse(groups=described)


def share_group_describe(
    context: BrokerContext, request: ShareGroupDescribeRequest
) -> Work[ShareGroupDescribeResponse]:
    groups = context.services.shares.groups

    def describe(group_id: str) -> Completion[ShareGroup]:
        not_served = groups.refusal()
        if not_served is not None:
            return failed(not_served)
        if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            return failed(refusal(ResourceType.GROUP))
        return groups.describe(group_id)

    described = yield from _described_groups(context, request, describe, ShareGroup)
    return ShareGroupDescribeResponse(groups=described)


def _described_groups(
    context: BrokerContext,
    request: ConsumerGroupDescribeRequest | ShareGroupDescribeRequest,
    describe: Callable[[str], Completion[G]],
    group_class: type[G],
) -> Work[list[G]]:
    """The groups of the request, each once. `group_class` is the class of a group that has an error."""
    described: list[G] = []
    respond = partial(_described, context, group_class, includes_operations=request.include_authorized_operations)
    for group_ids in portions(list(dict.fromkeys(request.group_ids))):
        completions = yield from each(describe, group_ids, _STEP_GROUPS)
        outcomes = yield from gather(completions)
        described += yield from each(respond, zip(group_ids, outcomes, strict=True), _STEP_GROUPS)
    return described


def _described(
    context: BrokerContext,
    group_class: type[G],
    id_and_outcome: tuple[str, G | KafkaError],
    *,
    includes_operations: bool,
) -> G:
    group_id, outcome = id_and_outcome
    if not isinstance(outcome, KafkaError) and not _may_see(context, outcome.members):
        outcome = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN_TOPICS)
    if isinstance(outcome, KafkaError):
        return group_class(group_id=group_id, error_code=outcome.code, error_message=message_of(outcome))
    if includes_operations:
        outcome.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
    return outcome


def _may_see(context: BrokerContext, members: Iterable[Any]) -> bool:
    """True if the client may describe all topics of which members have partitions, or will get some."""
    if context.server.authorizer is None:
        return True
    assignments = [member.assignment for member in members]
    assignments += [member.target_assignment for member in members if hasattr(member, "target_assignment")]
    names = dict.fromkeys(topic.topic_name for assignment in assignments for topic in assignment.topic_partitions)
    return all(context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names)


CONSUMER_HANDLER = Handler(
    ConsumerGroupDescribeRequest, consumer_group_describe, request_bytes_max=REQUEST_BYTES_MAX // 4
)
SHARE_HANDLER = Handler(ShareGroupDescribeRequest, share_group_describe, request_bytes_max=REQUEST_BYTES_MAX // 4)
