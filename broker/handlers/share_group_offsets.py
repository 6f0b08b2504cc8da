"""DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92): the start offsets of share
groups, which the share coordinator keeps (KIP-932).
"""

from typing import Final, TypeVar

from broker.handlers.authorization import check, refusal
from broker.handlers.response_errors import message_of
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
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

T = TypeVar("T")

# Each partition is a request to the share coordinator, which writes a record. A million of them is a day's work.
_REQUEST_BYTES_MAX: Final = REQUEST_BYTES_MAX // 8


def describe_share_group_offsets(
    context: BrokerContext, request: DescribeShareGroupOffsetsRequest
) -> Work[DescribeShareGroupOffsetsResponse]:
    response = DescribeShareGroupOffsetsResponse()
    for group in request.groups:
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
    asked, hidden = group.topics, []
    if asked is not None:
        hidden = [topic for topic in asked if not _may(context, AclOperation.DESCRIBE, topic.topic_name)]
        asked = [topic for topic in asked if topic not in hidden]
    topics = []
    if asked is None or asked:
        topics = yield from in_task(groups.describe_offsets(group.group_id, asked))
    if asked is None:
        topics = [topic for topic in topics if _may(context, AclOperation.DESCRIBE, topic.topic_name)]
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group.group_id, topics=[*topics, *(_hidden(topic) for topic in hidden)]
    )


def _hidden(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    error = refusal(ResourceType.TOPIC)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=error.code, error_message=message_of(error)
            )
            for index in topic.partitions
        ],
    )


def alter_share_group_offsets(
    context: BrokerContext, request: AlterShareGroupOffsetsRequest
) -> Work[AlterShareGroupOffsetsResponse]:
    try:
        _check_served(context)
        check(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        allowed = [topic for topic in request.topics if _may(context, AclOperation.READ, topic.topic_name)]
        altered = yield from in_task(context.services.shares.groups.alter_offsets(request.group_id, allowed))
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=message_of(error))
    hidden = [_not_altered(topic) for topic in request.topics if topic not in allowed]
    return AlterShareGroupOffsetsResponse(responses=[*altered, *hidden])


def _not_altered(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    error = refusal(ResourceType.TOPIC)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=error.code, error_message=message_of(error)
            )
            for each in topic.partitions
        ],
    )


def delete_share_group_offsets(
    context: BrokerContext, request: DeleteShareGroupOffsetsRequest
) -> Work[DeleteShareGroupOffsetsResponse]:
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    try:
        _check_served(context)
        check(context, AclOperation.DELETE, ResourceType.GROUP, request.group_id)
        allowed = [name for name in names if _may(context, AclOperation.READ, name)]
        deleted = yield from in_task(context.services.shares.groups.delete_offsets(request.group_id, allowed))
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=message_of(error))
    denied = refusal(ResourceType.TOPIC)
    hidden = [
        DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=denied.code, error_message=message_of(denied))
        for name in names
        if name not in allowed
    ]
    return DeleteShareGroupOffsetsResponse(responses=[*deleted, *hidden])


def _check_served(context: BrokerContext) -> None:
    """Raises KafkaError if the cluster's `share.version` is 0."""
    error = context.services.shares.groups.refusal()
    if error is not None:
        raise error


def _may(context: BrokerContext, operation: AclOperation, topic: str) -> bool:
    return context.allows(operation, ResourceType.TOPIC, topic)


DESCRIBE_HANDLER = Handler(
    DescribeShareGroupOffsetsRequest, describe_share_group_offsets, request_bytes_max=_REQUEST_BYTES_MAX
)
ALTER_HANDLER = Handler(AlterShareGroupOffsetsRequest, alter_share_group_offsets, request_bytes_max=_REQUEST_BYTES_MAX)
DELETE_HANDLER = Handler(
    DeleteShareGroupOffsetsRequest, delete_share_group_offsets, request_bytes_max=_REQUEST_BYTES_MAX
)
