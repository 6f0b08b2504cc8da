"""FindCoordinator (key 10): the broker that leads the partition which a group or a transactional id belongs to.

Whoever asks first for a coordinator has its topic created. Nobody is told of this broker before it coordinates, if only
by loading: librdkafka gives up a commit that it is sent away with.

Transactions have no coordinator yet. After a retriable error a transactional client asks again for ever, and librdkafka
retries all others but CLUSTER_AUTHORIZATION_FAILED and TRANSACTIONAL_ID_AUTHORIZATION_FAILED. With the first of the two
the Java client shows the message too, so that is the answer. Share groups have no coordinator either: brokers, which
alone look for one, take INVALID_REQUEST as final.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.handlers.completed import FEW_GROUPS
from broker.handlers.current_leader import Endpoint, leader_endpoints
from broker.handlers.topic_creation import create_missing_topics
from broker.net.reply import Pending
from broker.server.handler import REQUEST_BYTES_MAX, Handler, RequestContext
from broker.server.slices import each
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.errors import ErrorCode, KafkaError

_MANY_FROM: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1
_NOBODY: Final = -1
_NO_TRANSACTIONS: Final = "This cluster does not support transactions: use a producer without a transactional.id."
# How long a partition that this broker is to lead may take to be there.
_PATIENCE_S: Final = 1.0
_STEP_KEYS: Final = 8


def find_coordinator(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse | Pending:
    if context.api_version >= _MANY_FROM:
        request.coordinator_keys = list(dict.fromkeys(request.coordinator_keys))
        if len(request.coordinator_keys) > FEW_GROUPS:
            return context.defer(_find_many(context, request))
    if request.key_type == _GROUP:
        if CONSUMER_OFFSETS not in context.services.loader.image.topics.by_name:
            return context.defer(_create_and_answer(context, request))
        if _to_come(context, request):
            return context.defer(_wait_and_answer(context, request))
    return _answer(context, request)


async def _find_many(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """As `find_coordinator`, in slices."""
    keys = request.coordinator_keys
    if request.key_type == _GROUP:
        if CONSUMER_OFFSETS not in context.services.loader.image.topics.by_name:
            await _create(context)
        runtime = context.services.groups.runtime
        indexes = await context.finish(each(runtime.partition_for, keys, _STEP_KEYS))
        await runtime.wait_until_coordinated(_yet_to_come(context, dict.fromkeys(indexes)), _PATIENCE_S)
    found = await context.finish(each(partial(_found, context, request.key_type), keys, _STEP_KEYS))
    return FindCoordinatorResponse(coordinators=found)


async def _create_and_answer(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    await _create(context)
    return await _wait_and_answer(context, request)


async def _create(context: RequestContext) -> None:
    failures = await create_missing_topics(context, [CONSUMER_OFFSETS])
    if failures:
        _trace_failure(context, failures[CONSUMER_OFFSETS])


def _trace_failure(context: RequestContext, error: ErrorCode) -> None:
    """The client hears that it may ask again, as with Kafka, and would do so for ever: the operator has to know."""
    services = context.services
    reason = error.name
    if error is ErrorCode.INVALID_REPLICATION_FACTOR:
        brokers = sum(not broker.fenced for broker in services.loader.image.cluster.brokers.values())
        reason = (
            f"offsets.topic.replication.factor is {services.config.offsets_topic_replication_factor}, and {brokers} "
            "brokers are there. Start more brokers, or restart them with a smaller value"
        )
    services.env.trace("coordinator_topic_not_created", topic=CONSUMER_OFFSETS, reason=reason)


async def _wait_and_answer(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    await context.services.groups.runtime.wait_until_coordinated(_to_come(context, request), _PATIENCE_S)
    return _answer(context, request)


def _to_come(context: RequestContext, request: FindCoordinatorRequest) -> list[int]:
    """The partitions that this broker has only just been told to lead: who asked it now would be sent away."""
    keys = request.coordinator_keys if context.api_version >= _MANY_FROM else [request.key]
    return _yet_to_come(context, dict.fromkeys(map(context.services.groups.runtime.partition_for, keys)))


def _yet_to_come(context: RequestContext, indexes: Iterable[int]) -> list[int]:
    services, runtime = context.services, context.services.groups.runtime
    topic = services.loader.image.topics.by_name.get(CONSUMER_OFFSETS)
    if topic is None:
        return []
    node_id = services.config.node_id
    return [each for each in indexes if topic.partitions[each].leader == node_id and not runtime.coordinates(each)]


def _answer(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.api_version >= _MANY_FROM:
        found = [_found(context, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    try:
        endpoint = _coordinator(context, request.key_type, request.key)
    except KafkaError as error:
        return FindCoordinatorResponse(
            error_code=error.code, error_message=error.message, node_id=_NOBODY, host="", port=_NOBODY
        )
    return FindCoordinatorResponse(
        error_message="NONE", node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port
    )


def _found(context: RequestContext, key_type: int, key: str) -> Coordinator:
    try:
        endpoint = _coordinator(context, key_type, key)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=_NOBODY, host="", port=_NOBODY, error_code=error.code, error_message=error.message
        )
    return Coordinator(key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)


def _coordinator(context: RequestContext, key_type: int, key: str) -> Endpoint:
    """Raises KafkaError."""
    if key_type == _TRANSACTION:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _NO_TRANSACTIONS)
    if key_type != _GROUP:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"This cluster has no coordinators for keys of type {key_type}.")
    services = context.services
    topic = services.loader.image.topics.by_name.get(CONSUMER_OFFSETS)
    runtime = services.groups.runtime
    if topic is not None:
        index = runtime.partition_for(key)
        partition = topic.partitions[index]
        if partition.leader == services.config.node_id and not runtime.coordinates(index):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator has yet to begin.")
        for endpoint in leader_endpoints(context, [partition.leader]):
            return endpoint
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")


HANDLER = Handler(
    request_bytes_max=REQUEST_BYTES_MAX // 4, api_key=10, min_version=0, max_version=6, immediate=find_coordinator
)
