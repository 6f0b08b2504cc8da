"""Metadata (key 3): brokers, topics and the leaders of partitions; creates missing topics if that is allowed.

In version 0, an empty list of topics means all topics, and responses list only replicas that can be reached. In later
versions null means all topics. From version 12 on, requests may name topics by id.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import trio

from broker.handlers.active_controller import active_controller
from broker.handlers.authorization import authorized_cluster_operations, authorized_operations
from broker.handlers.availability import ClusterView
from broker.handlers.topic_creation import create_missing_topics
from broker.handlers.topic_names import is_internal, unknown_topic_code
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import STEP_ITEMS, Steps, filtered
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
from metadata.protocol import AclOperation, ResourceType

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
    """The state that a request is answered from. `operations` are the client's on a topic; None if not asked for."""

    image: MetadataImage
    cluster: ClusterView
    version: int
    operations: Callable[[str], int] | None = None


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
            names += _to_create(context, request, some, failures)
        if names:  # create missing topics with the broker's defaults (`auto.create.topics.enable`)
            failures |= yield from in_task(create_missing_topics(context, names[:_CREATED_TOPICS_MAX]))
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


def _to_create(
    context: BrokerContext,
    request: MetadataRequest,
    topics: list[MetadataRequestTopic],
    failures: dict[str, ErrorCode],
) -> list[str]:
    """The names of `topics`, some of the request's, that do not exist and may be created.

    Those that the client may not create are added to `failures`.
    """
    services = context.services
    if not request.allow_auto_topic_creation or not services.config.auto_create_topics_enable:
        return []
    if any(topic.topic_id != _NO_TOPIC_ID for topic in topics):
        return []  # a request has topic ids or names, never both
    known = services.loader.image.topics.by_name
    # Internal topics are left to their coordinators, which know how they have to be configured.
    names = [name for name in _names(topics) if name not in known and not is_internal(name)]
    if context.server.authorizer is None or context.allows_cluster(AclOperation.CREATE, is_tried=False):
        return names
    allowed = []
    for name in names:
        if _may_describe(context, name, is_tried=False):
            if context.allows(AclOperation.CREATE, ResourceType.TOPIC, name):
                allowed.append(name)
            else:
                failures[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return allowed


def _may_describe(context: BrokerContext, name: str, *, is_tried: bool = True) -> bool:
    return context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, is_tried=is_tried)


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
    cluster = ClusterView(image.cluster, context.listener)
    lost = services.lost_brokers.to_list(context.session, image.cluster) if request.topics else ()
    operations = None
    if request.include_topic_authorized_operations:
        operations = partial(authorized_operations, context, ResourceType.TOPIC)
    view = View(image, cluster, context.api_version, operations)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=image.cluster.brokers[broker_id].rack
            )
            for broker_id, endpoint in cluster.with_lost(lost)
        ],
        cluster_id=services.cluster_id,
        controller_id=active_controller(context),
    )
    response.topics = yield from _topics(context, view, request, failures)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_cluster_operations(context)
    return response


def _topics(context: BrokerContext, view: View, request: MetadataRequest, failures: dict[str, ErrorCode]) -> Steps[Any]:
    if request.topics is None or (view.version == 0 and not request.topics):
        return (yield from _all_topics(context, view))
    topics = []
    topic_ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != _NO_TOPIC_ID)
    found: Iterator[TopicImage | MetadataResponseTopic] = (
        (_by_id(context, view, topic_id) for topic_id in topic_ids)
        if topic_ids
        else (_by_name(context, view, name, failures) for name in _names(request.topics))
    )
    for number, topic in enumerate(found):
        topics.append((yield from _topic(view, topic)) if isinstance(topic, TopicImage) else topic)
        if number % STEP_ITEMS == STEP_ITEMS - 1:
            yield
    return topics


def _all_topics(context: BrokerContext, view: View) -> Steps[Any]:
    """All topics that the client may describe, encoded if they are the same for all clients."""
    described = partial(_topic, view)
    if context.server.authorizer is not None:
        every = [topic for _, topic in view.image.topics.by_name.items()]
        visible = yield from filtered(lambda topic: _may_describe(context, topic.name, is_tried=False), every)
        if view.operations is not None or len(visible) < len(every):
            topics = []
            for topic in visible:
                topics.append((yield from described(topic)))
                yield
            return topics
    variant = Variant(context.listener, view.version, view.operations is not None)
    return (yield from context.services.topic_encodings.encode(variant, view.image, described))


def _by_id(context: BrokerContext, view: View, topic_id: bytes) -> TopicImage | MetadataResponseTopic:
    topic = view.image.topics.by_id.get(topic_id)
    if topic is None:
        return _refused_topic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not _may_describe(context, topic.name):
        return _refused_topic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return topic


def _by_name(
    context: BrokerContext, view: View, name: str, failures: dict[str, ErrorCode]
) -> TopicImage | MetadataResponseTopic:
    if not _may_describe(context, name):
        return _refused_topic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = view.image.topics.by_name.get(name)
    if topic is not None:
        return topic
    missing = _refused_topic(failures.get(name) or unknown_topic_code(name), name)
    missing.is_internal = is_internal(name)
    if view.operations is not None and missing.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        missing.topic_authorized_operations = view.operations(name)  # also of a topic that does not exist, as in Kafka
    return missing


def _refused_topic(code: ErrorCode, name: str | None, topic_id: bytes = _NO_TOPIC_ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])


def _topic(view: View, topic: TopicImage) -> Steps[MetadataResponseTopic]:
    described = MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=is_internal(topic.name), partitions=[]
    )
    if view.operations is not None:
        described.topic_authorized_operations = view.operations(topic.name)
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
