"""DescribeTopicPartitions (key 75): topics by name, in pages, with eligible leader replicas (KIP-966).

Unlike in Metadata, a partition without a leader has no error.
"""

from collections.abc import Iterator

from broker.handlers.authorization import authorized_operations
from broker.handlers.availability import ClusterView
from broker.handlers.topic_names import is_internal, unknown_topic_code
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.slices import STEP_ITEMS, Steps, each, filtered
from broker.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from broker.wire.errors import ErrorCode
from metadata.image import MetadataImage, PartitionImage, TopicImage
from metadata.protocol import AclOperation, ResourceType

_STEP = 16  # partitions; each takes about 5 us


def describe_topic_partitions(
    context: BrokerContext, request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    services = context.services
    image = services.loader.image
    if not _is_valid(request):
        return _refused(request)
    view = ClusterView(image.cluster, context.listener)
    left = max(1, min(request.response_partition_limit, services.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    pages, hidden = list(_pages(request, image)), list[str]()
    if context.server.authorizer is not None:
        pages, hidden = yield from _visible(context, request, pages)
    for name, first in pages:
        if len(response.topics) % STEP_ITEMS == STEP_ITEMS - 1:
            yield
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.by_name.get(name)
        if topic is None:
            response.topics.append(_unknown(context, name))
            continue
        end = min(len(topic.partitions), first + left)
        left -= max(0, end - first)
        response.topics.append((yield from _describe(context, view, topic, range(first, end))))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    response.topics += map(_hidden, hidden)
    return response


def _visible(
    context: BrokerContext, request: DescribeTopicPartitionsRequest, pages: list[tuple[str, int]]
) -> Steps[tuple[list[tuple[str, int]], list[str]]]:
    """Splits pages: those of topics that the client may describe, and the names of other topics that it has named."""
    is_tried = bool(request.topics)

    def may_describe(page: tuple[str, int]) -> bool:
        return context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, page[0], is_tried=is_tried)

    visible = yield from filtered(may_describe, pages)
    known = dict(visible)
    return visible, [name for name, _ in pages if is_tried and name not in known]


def _hidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Tells nothing of a topic, not even that it exists."""
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _is_valid(request: DescribeTopicPartitionsRequest) -> bool:
    """True without a cursor, or if a response to a request for the same topics can have returned the cursor."""
    cursor = request.cursor
    if cursor is None:
        return True
    names = [topic.name for topic in request.topics]
    return cursor.partition_index >= 0 and (not names or cursor.topic_name in names)


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )


def _pages(request: DescribeTopicPartitionsRequest, image: MetadataImage) -> Iterator[tuple[str, int]]:
    """The topics to describe, each with the partition to begin at, from the cursor on."""
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} if request.topics else image.topics.by_name)
    for name in names:
        if cursor is None or name > cursor.topic_name:
            yield name, 0
        elif name == cursor.topic_name:
            yield name, cursor.partition_index


def _describe(
    context: BrokerContext, view: ClusterView, topic: TopicImage, indexes: range
) -> Steps[DescribeTopicPartitionsResponseTopic]:
    partitions = yield from each(lambda index: _partition(view, index, topic.partitions[index]), indexes, _STEP)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, topic.name),
    )


def _partition(view: ClusterView, index: int, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    _, leader_id, offline_replicas = view.availability(partition)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas,
    )


def _unknown(context: BrokerContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=unknown_topic_code(name),
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=authorized_operations(context, ResourceType.TOPIC, name),
    )


# 5,000 topics: they are sorted in one go. Clients ask for more in pages.
HANDLER = Handler(DescribeTopicPartitionsRequest, describe_topic_partitions, request_bytes_max=REQUEST_BYTES_MAX // 4)
