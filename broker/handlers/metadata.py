"""Metadata (key 3): brokers, topics and their partitions' leaders; creates topics on the way where that is allowed.

Version 0 asks for all topics with an empty list, later ones with null, and is told only of replicas that can be
reached. From version 12 topics may be asked for by id.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import trio

from broker.handlers.active_controller import active_controller
from broker.handlers.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from broker.handlers.availability import ClusterView
from broker.handlers.handler import REQUEST_BYTES_MAX, Handler, RequestContext
from broker.handlers.topic_creation import create_missing_topics
from broker.handlers.topic_names import is_internal, why_unknown
from broker.net.reply import Pending
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.errors import ErrorCode
from metadata.image import MetadataImage, PartitionImage, TopicImage

_LISTENER_NOT_FOUND_FROM: Final = 6
_TOPIC_IDS_FROM: Final = 12
# From the arrival of a connection's end to its being known as lost, in turns of the event loop, and some to spare.
_TURNS_OF_NEWS: Final = 6
# An election takes far less. A leader that is out of this broker's reach only may not be out of the client's.
_ELECTION_S: Final = 0.5
_NO_TOPIC_ID: Final = bytes(16)


class View(NamedTuple):
    """What a request is answered from."""

    image: MetadataImage
    cluster: ClusterView
    version: int


def metadata(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Pending:
    topics = request.topics or []
    if context.api_version < _TOPIC_IDS_FROM and any(topic.name is None or any(topic.topic_id) for topic in topics):
        return _refused(topics)
    missing = _to_create(context, request)
    if missing:
        return context.defer(_create_and_answer(context, request, missing))
    if request.topics and len(context.services.loader.image.cluster.brokers) > 1:
        return context.defer(_answer_after_news(context, request))
    return _answer(context, request, {})


async def _answer_after_news(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Who asks may do so because a leader has died, and is as quick as the news of it: that is dealt with first.

    Told of the dead leader a client would try that again, and ask the next time long after there is another. So it is
    told when there is.
    """
    for _ in range(_TURNS_OF_NEWS):
        await trio.lowlevel.checkpoint()
    services = context.services

    def is_led(image: MetadataImage) -> bool:
        partitions = (partition for topic in _asked(image, request) for partition in topic.partitions.values())
        return not services.lost_brokers or all(each.leader not in services.lost_brokers for each in partitions)

    await services.image_waits.until(is_led, _ELECTION_S)
    return _answer(context, request, {})


def _asked(image: MetadataImage, request: MetadataRequest) -> Iterator[TopicImage]:
    topics = image.topics
    for asked in request.topics or []:
        found = topics.by_name.get(asked.name) if asked.name is not None else topics.by_id.get(asked.topic_id)
        if found is not None:
            yield found


async def _create_and_answer(context: RequestContext, request: MetadataRequest, missing: list[str]) -> MetadataResponse:
    """Create the topics with the broker's defaults (`auto.create.topics.enable`), then answer about all."""
    failures = await create_missing_topics(context, missing)
    return _answer(context, request, failures)


def _to_create(context: RequestContext, request: MetadataRequest) -> list[str]:
    services = context.services
    if not request.topics or not request.allow_auto_topic_creation or not services.config.auto_create_topics_enable:
        return []
    if any(topic.topic_id != _NO_TOPIC_ID for topic in request.topics):
        return []  # a request asks for ids or for names, never both
    known = services.loader.image.topics.by_name
    # Internal topics are left to their coordinators, which know how they have to be configured.
    return [name for name in _names(request.topics) if name not in known and not is_internal(name)]


def _names(topics: list[MetadataRequestTopic]) -> list[str]:
    """Each once, in the order of the request."""
    return list(dict.fromkeys(topic.name for topic in topics if topic.name is not None))


def _refused(topics: list[MetadataRequestTopic]) -> MetadataResponse:
    """A version without topic ids asks by topic id, or for a topic without a name."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
            )
            for topic in topics
        ]
    )


def _answer(context: RequestContext, request: MetadataRequest, failures: dict[str, ErrorCode]) -> MetadataResponse:
    services = context.services
    image = services.loader.image
    view = View(image, ClusterView(image.cluster, context.listener), context.api_version)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=image.cluster.brokers[broker_id].rack
            )
            for broker_id, endpoint in view.cluster.endpoints.items()
        ],
        cluster_id=services.cluster_id,
        controller_id=active_controller(context),
        topics=_topics(view, request, failures),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None:  # also of a topic that does not exist, as in Kafka
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return response


def _topics(view: View, request: MetadataRequest, failures: dict[str, ErrorCode]) -> list[MetadataResponseTopic]:
    if request.topics is None or (view.version == 0 and not request.topics):
        return [_topic(view, topic) for topic in view.image.topics.by_name.values()]
    topic_ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != _NO_TOPIC_ID)
    if topic_ids:
        return [_by_id(view, topic_id) for topic_id in topic_ids]
    return [_by_name(view, name, failures) for name in _names(request.topics)]


def _by_id(view: View, topic_id: bytes) -> MetadataResponseTopic:
    topic = view.image.topics.by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[])
    return _topic(view, topic)


def _by_name(view: View, name: str, failures: dict[str, ErrorCode]) -> MetadataResponseTopic:
    topic = view.image.topics.by_name.get(name)
    if topic is None:
        return MetadataResponseTopic(
            error_code=failures.get(name) or why_unknown(name), name=name, is_internal=is_internal(name), partitions=[]
        )
    return _topic(view, topic)


def _topic(view: View, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(view, index, partition) for index, partition in topic.partitions.items()],
    )


def _partition(view: View, index: int, partition: PartitionImage) -> MetadataResponsePartition:
    error_code, leader_id, offline_replicas = view.cluster.availability(partition)
    replicas, isr = list(partition.replicas), list(partition.isr)
    if view.version == 0:
        replicas, isr = view.cluster.reachable(replicas), view.cluster.reachable(isr)
        if error_code is ErrorCode.NONE and len(replicas) + len(isr) < len(partition.replicas) + len(partition.isr):
            error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    if error_code is ErrorCode.LISTENER_NOT_FOUND and view.version < _LISTENER_NOT_FOUND_FROM:
        error_code = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas,
    )


# 10,000 topics by name, or 100,000 by id.
HANDLER = Handler(api_key=3, min_version=0, max_version=13, immediate=metadata, request_bytes_max=2 * REQUEST_BYTES_MAX)
