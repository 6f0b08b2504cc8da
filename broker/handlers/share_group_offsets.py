"""DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92): the start offsets of share
groups, which the share coordinator keeps (KIP-932).
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, Protocol, TypeVar

from broker.handlers.authorization import check, refusal
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work
from broker.server.slices import STEP_ITEMS, Steps, each, filtered
from broker.wire.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from broker.wire.api.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from broker.wire.api.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from broker.wire.errors import KafkaError
from metadata.protocol import AclOperation, ResourceType

# Each partition is a request to the share coordinator, which writes a record. A million of them is a day's work.
_REQUEST_BYTES_MAX: Final = REQUEST_BYTES_MAX // 8


def describe_share_group_offsets(
    context: BrokerContext, request: DescribeShareGroupOffsetsRequest
) -> Work[DescribeShareGroupOffsetsResponse]:
    """A group that is named again for all its topics is described once: 32,000 times 1,000 partitions fit no memory."""
    response = DescribeShareGroupOffsetsResponse()
    whole: set[str] = set()
    for number, group in enumerate(request.groups, 1):
        if not number % STEP_ITEMS:
            yield None
        if group.topics is None:
            if group.group_id in whole:
                continue
            whole.add(group.group_id)
        try:
            described = yield from _describe(context, group)
        except KafkaError as error:
            described = DescribeShareGroupOffsetsResponseGroup(
                group_id=group.group_id, error_code=error.code, error_message=message_of(error)
            )
        response.groups.append(described)
    return response


def _describe(
    context: BrokerContext, group: DescribeShareGroupOffsetsRequestGroup
) -> Work[DescribeShareGroupOffsetsResponseGroup]:
    """Describes one group. All offsets are those of the topics that the client may describe. Raises KafkaError."""
    groups = context.services.shares.groups
    _check_served(context)
    check(context, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
    asked, hidden = group.topics, list[DescribeShareGroupOffsetsRequestTopic]()
    if asked is not None:
        asked, hidden = yield from _permitted(context, AclOperation.DESCRIBE, asked)
    topics = []
    if asked is None or asked:
        topics = yield from groups.describe_offsets(group.group_id, asked)
    if asked is None:
        topics = yield from filtered(lambda topic: _may(context, AclOperation.DESCRIBE, topic.topic_name), topics)
    for topic in hidden:
        topics.append((yield from _hidden(topic)))
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=topics)


def _hidden(topic: DescribeShareGroupOffsetsRequestTopic) -> Steps[DescribeShareGroupOffsetsResponseTopic]:
    error = refusal(ResourceType.TOPIC)
    refused = partial(
        DescribeShareGroupOffsetsResponsePartition, error_code=error.code, error_message=message_of(error)
    )
    yield
    partitions = yield from each(lambda index: refused(partition_index=index), topic.partitions)
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def alter_share_group_offsets(
    context: BrokerContext, request: AlterShareGroupOffsetsRequest
) -> Work[AlterShareGroupOffsetsResponse]:
    try:
        _check_served(context)
        check(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        allowed, denied = yield from _permitted(context, AclOperation.READ, request.topics)
        altered = yield from context.services.shares.groups.alter_offsets(request.group_id, allowed)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=message_of(error))
    for topic in denied:
        altered.append((yield from _not_altered(topic)))
    return AlterShareGroupOffsetsResponse(responses=altered)


def _not_altered(topic: AlterShareGroupOffsetsRequestTopic) -> Steps[AlterShareGroupOffsetsResponseTopic]:
    error = refusal(ResourceType.TOPIC)
    refused = partial(AlterShareGroupOffsetsResponsePartition, error_code=error.code, error_message=message_of(error))
    yield
    partitions = yield from each(lambda asked: refused(partition_index=asked.partition_index), topic.partitions)
    return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def delete_share_group_offsets(
    context: BrokerContext, request: DeleteShareGroupOffsetsRequest
) -> Work[DeleteShareGroupOffsetsResponse]:
    topics = {topic.topic_name: topic for topic in request.topics}.values()
    try:
        _check_served(context)
        check(context, AclOperation.DELETE, ResourceType.GROUP, request.group_id)
        allowed, denied = yield from _permitted(context, AclOperation.READ, topics)
        names = [topic.topic_name for topic in allowed]
        deleted = yield from context.services.shares.groups.delete_offsets(request.group_id, names)
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=message_of(error))
    refused = refusal(ResourceType.TOPIC)
    hidden = partial(DeleteShareGroupOffsetsResponseTopic, error_code=refused.code, error_message=message_of(refused))
    deleted += yield from each(lambda topic: hidden(topic_name=topic.topic_name), denied)
    return DeleteShareGroupOffsetsResponse(responses=deleted)


def _check_served(context: BrokerContext) -> None:
    """Raises KafkaError if the cluster's `share.version` is 0."""
    error = context.services.shares.groups.refusal()
    if error is not None:
        raise error


class _Topic(Protocol):
    """The topic of a request."""

    topic_name: str


_T = TypeVar("_T", bound=_Topic)


def _permitted(
    context: BrokerContext, operation: AclOperation, topics: Iterable[_T]
) -> Steps[tuple[list[_T], list[_T]]]:
    """Splits topics into those that the client may use and the others."""
    permitted: list[_T] = []
    others: list[_T] = []
    for number, topic in enumerate(topics, 1):
        (permitted if _may(context, operation, topic.topic_name) else others).append(topic)
        if not number % STEP_ITEMS:
            yield
    return permitted, others


def _may(context: BrokerContext, operation: AclOperation, topic: str) -> bool:
    return context.allows(operation, ResourceType.TOPIC, topic)


DESCRIBE_HANDLER = Handler(
    DescribeShareGroupOffsetsRequest, describe_share_group_offsets, request_bytes_max=_REQUEST_BYTES_MAX
)
ALTER_HANDLER = Handler(AlterShareGroupOffsetsRequest, alter_share_group_offsets, request_bytes_max=_REQUEST_BYTES_MAX)
DELETE_HANDLER = Handler(
    DeleteShareGroupOffsetsRequest, delete_share_group_offsets, request_bytes_max=_REQUEST_BYTES_MAX
)
