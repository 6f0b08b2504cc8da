"""Metadata (key 3): brokers, topics and the leaders of partitions; creates missing topics if that is allowed.

In version 0, an empty list of topics means all topics, and responses list only replicas that can be reached. In later
versions null means all topics. From version 12 on, requests may name topics by id.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import trio

from broker.handlers.active_controller import active_controller
from broker.handlers.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from broker.handlers.availability import ClusterView
from broker.handlers.topic_creation import create_missing_topics
from broker.handlers.topic_names import is_internal, unknown_topic_code
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import STEP_ITEMS, Steps
from broker.server.topic_encodings import Variant
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
# Turns of the event loop after which a connection that has ended is in `disconnected_brokers`, and some to spare.
_DISCONNECT_TURNS: Final = 6
# An election takes far less. Clients may still reach a leader that only this broker cannot reach.
_ELECTION_S: Final = 0.5
_NO_TOPIC_ID: Final = bytes(16)
# Partitions whose leaders are checked after each change of the metadata, for a request that waits for an election.
_AWAITED_PARTITIONS_MAX: Final = 2_000
_STEP_PARTITIONS: Final = 16
_STEP_NAMES: Final = 256
# Topics that one request has created; clients ask again for those that are unknown.
_CREATED_TOPICS_MAX: Final = 500


class View(NamedTuple):
    """The state that a request is answered from."""

    image: MetadataImage
    cluster: ClusterView
    version: int


def metadata(context: BrokerContext, request: MetadataRequest) -> Work[MetadataResponse]:
    topics = request.topics
    if topics is not None and len(topics) > 1:
        topics = request.topics = yield from _distinct(topics)
    failures: dict[str, ErrorCode] = {}
    if topics:
        names: list[str] = []
        for first in range(0, len(topics), _STEP_NAMES):
            if first:
                yield None
            some = topics[first : first + _STEP_NAMES]
            if _has_invalid_topic(context, some):
                return _refused(topics)
            names += _to_create(context, request, some)
        if names:  # create missing topics with the broker's defaults (`auto.create.topics.enable`)
            failures = yield from in_task(create_missing_topics(context, names[:_CREATED_TOPICS_MAX]))
        elif len(context.services.loader.image.cluster.brokers) > 1:
            yield from in_task(_until_failed_over(context, request))
    return (yield from _response(context, request, failures))


def _has_invalid_topic(context: BrokerContext, topics: list[MetadataRequestTopic]) -> bool:
    """True if a version without topic ids names a topic by id, or if a topic has no name."""
    if context.api_version >= _TOPIC_IDS_FROM:
        return False
    return any(topic.name is None or any(topic.topic_id) for topic in topics)


def _distinct(topics: list[MetadataRequestTopic]) -> Steps[list[MetadataRequestTopic]]:
    """The topics without repetitions, in the order of the request."""
    distinct: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
    for number, topic in enumerate(topics):
        distinct.setdefault((topic.name, topic.topic_id), topic)
        if number % STEP_ITEMS == STEP_ITEMS - 1:
            yield
    return list(distinct.values())


async def _until_failed_over(context: BrokerContext, request: MetadataRequest) -> None:
    """Wait until a new leader is known, if the leader of a requested topic has just failed.

    A client often asks because its connection to a leader broke, and this broker may not have processed the end of its
    own connection yet. With the former leader in the response, the client would retry there, and ask again long after
    the election.
    """
    for _ in range(_DISCONNECT_TURNS):
        await trio.lowlevel.checkpoint()
    services = context.services

    def is_led(image: MetadataImage) -> bool:
        if not services.disconnected_brokers:
            return True
        partitions = (
            partition for topic in _requested_topics(image, request) for partition in topic.partitions.values()
        )
        awaited = islice(partitions, _AWAITED_PARTITIONS_MAX)
        return all(partition.leader not in services.disconnected_brokers for partition in awaited)

    await services.image_waits.until(is_led, _ELECTION_S)


def _requested_topics(image: MetadataImage, request: MetadataRequest) -> Iterator[TopicImage]:
    topics = image.topics
    for topic in request.topics or []:
        found = topics.by_name.get(topic.name) if topic.name is not None else topics.by_id.get(topic.topic_id)
        if found is not None:
            yield found


def _to_create(context: BrokerContext, request: MetadataRequest, topics: list[MetadataRequestTopic]) -> list[str]:
    """The names of `topics`, some of the request's, that do not exist and may be created."""
    services = context.services
    if not request.allow_auto_topic_creation or not services.config.auto_create_topics_enable:
        return []
    if any(topic.topic_id != _NO_TOPIC_ID for topic in topics):
        return []  # a request has topic ids or names, never both
    known = services.loader.image.topics.by_name
    # Internal topics are left to their coordinators, which know how they have to be configured.
    return [name for name in _names(topics) if name not in known and not is_internal(name)]


def _names(topics: list[MetadataRequestTopic]) -> list[str]:
    """The topics' names without repetitions, in the order of the request."""
    return list(dict.fromkeys(topic.name for topic in topics if topic.name is not None))


def _refused(topics: list[MetadataRequestTopic]) -> MetadataResponse:
    """The response to a request for which `_has_invalid_topic` is true."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
            )
            for topic in topics
        ]
    )


def _response(
    context: BrokerContext, request: MetadataRequest, failures: dict[str, ErrorCode]
) -> Steps[MetadataResponse]:
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
    )
    response.topics = yield from _topics(context, view, request, failures)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _topics(context: BrokerContext, view: View, request: MetadataRequest, failures: dict[str, ErrorCode]) -> Steps[Any]:
    with_operations = request.include_topic_authorized_operations
    describe = partial(_topic, view, with_operations)
    if request.topics is None or (view.version == 0 and not request.topics):
        variant = Variant(context.listener, view.version, with_operations)
        return (yield from context.services.topic_encodings.encode(variant, view.image, describe))
    topics = []
    topic_ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != _NO_TOPIC_ID)
    found: Iterator[TopicImage | MetadataResponseTopic] = (
        (_by_id(view, topic_id) for topic_id in topic_ids)
        if topic_ids
        else (_by_name(view, with_operations, name, failures) for name in _names(request.topics))
    )
    for number, topic in enumerate(found):
        topics.append((yield from describe(topic)) if isinstance(topic, TopicImage) else topic)
        if number % STEP_ITEMS == STEP_ITEMS - 1:
            yield
    return topics


def _by_id(view: View, topic_id: bytes) -> TopicImage | MetadataResponseTopic:
    topic = view.image.topics.by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[])
    return topic


def _by_name(
    view: View, with_operations: bool, name: str, failures: dict[str, ErrorCode]
) -> TopicImage | MetadataResponseTopic:
    topic = view.image.topics.by_name.get(name)
    if topic is not None:
        return topic
    missing = MetadataResponseTopic(
        error_code=failures.get(name) or unknown_topic_code(name),
        name=name,
        is_internal=is_internal(name),
        partitions=[],
    )
    if with_operations:  # also of a topic that does not exist, as in Kafka
        missing.topic_authorized_operations = TOPIC_OPERATIONS
    return missing


def _topic(view: View, with_operations: bool, topic: TopicImage) -> Steps[MetadataResponseTopic]:
    described = MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=is_internal(topic.name), partitions=[]
    )
    if with_operations:
        described.topic_authorized_operations = TOPIC_OPERATIONS
    for index, partition in topic.partitions.items():
        described.partitions.append(_partition(view, index, partition))
        if index % _STEP_PARTITIONS == _STEP_PARTITIONS - 1:
            yield
    return described


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
HANDLER = Handler(MetadataRequest, metadata, request_bytes_max=2 * REQUEST_BYTES_MAX)
