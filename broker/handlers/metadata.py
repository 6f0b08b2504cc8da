"""Metadata (key 3): brokers, topics and their partitions' leaders; creates topics on the way where that is allowed.

Version 0 asks for all topics with an empty list, later ones with null. From version 12 topics may be asked for by id.
Without an authorizer, authorized operations stay at Kafka's value for "not computed".
"""

from typing import Final

from broker.handlers.availability import availability
from broker.handlers.handler import Handler, RequestContext
from broker.handlers.topic_names import is_internal, why_unknown
from broker.net.connection import ProtocolError
from broker.net.reply import Pending
from broker.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.errors import ErrorCode
from metadata.controller import NewTopic
from metadata.errors import ApiError
from metadata.image import MetadataImage, PartitionImage, TopicImage

_TOPIC_IDS_FROM: Final = 12
_NO_TOPIC_ID: Final = bytes(16)


def metadata(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Pending:
    missing = _to_create(context, request)
    if missing:
        return context.defer(_create_and_answer(context, request, missing))
    return _answer(context, request, {})


async def _create_and_answer(context: RequestContext, request: MetadataRequest, missing: list[str]) -> MetadataResponse:
    """Create the topics with the broker's defaults (`auto.create.topics.enable`), then answer about all."""
    failures: dict[str, ErrorCode] = {}
    try:
        results = await context.services.controller.create_topics([NewTopic(name) for name in missing])
    except ApiError as error:
        failures = dict.fromkeys(missing, ErrorCode[error.name])
    else:
        failures = {result.name: ErrorCode[result.error.name] for result in results if result.error is not None}
    return _answer(context, request, failures)


def _to_create(context: RequestContext, request: MetadataRequest) -> list[str]:
    services = context.services
    if not request.topics or not request.allow_auto_topic_creation or not services.config.auto_create_topics_enable:
        return []
    known = services.loader.image.topics.by_name
    names = [topic.name for topic in request.topics if topic.name is not None and topic.name not in known]
    return list(dict.fromkeys(names))


def _answer(context: RequestContext, request: MetadataRequest, failures: dict[str, ErrorCode]) -> MetadataResponse:
    services = context.services
    image = services.loader.image
    listener = context.connection.listener
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in image.cluster.brokers.values()
            if not broker.fenced and (endpoint := broker.end_points.get(listener)) is not None
        ],
        cluster_id=services.cluster_id,
        controller_id=services.config.node_id,
        topics=_topics(context, request, image, failures),
    )


def _topics(
    context: RequestContext, request: MetadataRequest, image: MetadataImage, failures: dict[str, ErrorCode]
) -> list[MetadataResponseTopic]:
    if request.topics is None or (context.api_version == 0 and not request.topics):
        return [_topic(image, topic) for topic in image.topics.by_name.values()]
    answers = []
    for asked in request.topics:
        if asked.name is None or asked.topic_id != _NO_TOPIC_ID:
            if context.api_version < _TOPIC_IDS_FROM:
                raise ProtocolError(f"topic ids are not supported in Metadata version {context.api_version}")
            topic = image.topics.by_id.get(asked.topic_id)
            unknown = MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id, partitions=[]
            )
        else:
            topic = image.topics.by_name.get(asked.name)
            unknown = MetadataResponseTopic(
                error_code=failures.get(asked.name) or why_unknown(asked.name),
                name=asked.name,
                is_internal=is_internal(asked.name),
                partitions=[],
            )
        answers.append(unknown if topic is None else _topic(image, topic))
    return answers


def _topic(image: MetadataImage, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(image, index, partition) for index, partition in topic.partitions.items()],
    )


def _partition(image: MetadataImage, index: int, partition: PartitionImage) -> MetadataResponsePartition:
    error_code, leader_id, offline_replicas = availability(image.cluster, partition)
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline_replicas,
    )


HANDLER = Handler(api_key=3, min_version=0, max_version=13, immediate=metadata)
