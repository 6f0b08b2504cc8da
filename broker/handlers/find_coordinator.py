"""FindCoordinator (key 10): the broker that coordinates a group, a transactional id, or a share-partition.

That is the leader of the partition which the key belongs to. The first request for a coordinator creates its internal
topic. A broker does not name itself before it has at least begun to load the partition: librdkafka gives up a commit
that is refused with NOT_COORDINATOR.

Keys of share-partitions, "group:topicId:partition", are for brokers alone (KIP-932).
"""

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from broker.coordinator.internal_topics import internal_topic, replication_key
from broker.coordinator.runtime.runtime import CoordinatorKeyType, CoordinatorRuntime
from broker.coordinator.share.share_state import SharePartitionKey
from broker.handlers.authorization import refusal
from broker.handlers.current_leader import Endpoint, leader_endpoints
from broker.handlers.topic_creation import create_internal_topic
from broker.server.context import BrokerContext
from broker.server.handler import REQUEST_BYTES_MAX, Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import each
from broker.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import CLUSTER_NAME, AclOperation, ResourceType

_MANY_FROM: Final = 4
_SHARES_FROM: Final = 6
_NO_NODE: Final = -1
# How long to wait for a partition that the metadata has just assigned to this broker.
_LEADERSHIP_TIMEOUT_S: Final = 1.0
_STEP_KEYS: Final = 8
# The resources that clients look for, by the types of keys.
_RESOURCE_TYPES: Final[Mapping[int, ResourceType]] = MappingProxyType(
    {CoordinatorKeyType.GROUP: ResourceType.GROUP, CoordinatorKeyType.TRANSACTION: ResourceType.TRANSACTIONAL_ID}
)

_Runtime: TypeAlias = CoordinatorRuntime[Any]


def find_coordinator(context: BrokerContext, request: FindCoordinatorRequest) -> Work[FindCoordinatorResponse]:
    keys = [request.key]
    if context.api_version >= _MANY_FROM:
        keys = list(dict.fromkeys(request.coordinator_keys))
    found_errors = yield from each(partial(_key_error, context, request.key_type), keys, _STEP_KEYS)
    errors = {key: error for key, error in zip(keys, found_errors, strict=True) if error is not None}
    if not context.services.coordination.are_made:
        yield from in_task(context.services.coordination.make())
    runtime = context.services.coordinators.get(request.key_type)
    reason = ""
    if runtime is not None and len(errors) < len(keys):
        if runtime.settings.topic not in context.services.loader.image.topics.by_name:
            reason = yield from in_task(_create(context, runtime.settings.topic))
        valid = [key for key in keys if key not in errors]
        indexes = yield from each(partial(_partition, runtime, request.key_type), valid, _STEP_KEYS)
        missing = _not_led_yet(context, runtime, dict.fromkeys(indexes))
        if missing:
            yield from in_task(runtime.wait_until_coordinated(missing, _LEADERSHIP_TIMEOUT_S))
    find = partial(_found, context, request.key_type, errors, reason)
    found = yield from each(find, keys, _STEP_KEYS)
    if context.api_version >= _MANY_FROM:
        return FindCoordinatorResponse(coordinators=found)
    [one] = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message if one.error_code else "NONE",
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _create(context: BrokerContext, topic: str) -> str:
    """Creates the topic of a coordinator. Returns the reason for the client if that fails, otherwise nothing."""
    failure = await create_internal_topic(context, topic)
    return f" {topic} cannot be created: {_trace_failure(context, topic, failure)}." if failure else ""


def _trace_failure(context: BrokerContext, topic: str, error: ErrorCode) -> str:
    """Tells the operator why the topic cannot be created, since most clients only retry without end."""
    services = context.services
    reason = error.name
    wanted = internal_topic(topic, services.config)
    if error is ErrorCode.INVALID_REPLICATION_FACTOR and wanted is not None:
        brokers = sum(not broker.fenced for broker in services.loader.image.cluster.brokers.values())
        there = "1 broker is there" if brokers == 1 else f"{brokers} brokers are there"
        reason = (
            f"{replication_key(topic)} is {wanted.replication_factor}, and {there}. "
            "Start more brokers, or restart them with a smaller value"
        )
    services.env.trace("coordinator_topic_not_created", topic=topic, reason=reason)
    return reason


def _not_led_yet(context: BrokerContext, runtime: _Runtime, indexes: Iterable[int]) -> list[int]:
    """The partitions that this broker leads by the metadata, and does not coordinate yet."""
    services = context.services
    topic = services.loader.image.topics.by_name.get(runtime.settings.topic)
    if topic is None:
        return []
    node_id = services.config.node_id
    return [index for index in indexes if topic.partitions[index].leader == node_id and not runtime.coordinates(index)]


def _key_error(context: BrokerContext, key_type: int, key: str) -> KafkaError | None:
    """The error for a key that the client may not look for, or that is no key of this type."""
    if key_type == CoordinatorKeyType.SHARE:
        if not context.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            return refusal(ResourceType.CLUSTER)
        if context.api_version < _SHARES_FROM:
            return KafkaError(ErrorCode.INVALID_REQUEST, "Keys of share-partitions need version 6.")
        try:
            SharePartitionKey.parse(key)
        except ValueError as error:
            return KafkaError(ErrorCode.INVALID_REQUEST, str(error))
        return None
    kind = _RESOURCE_TYPES.get(key_type)
    if kind is None or context.allows(AclOperation.DESCRIBE, kind, key):
        return None
    return refusal(kind)


def _partition(runtime: _Runtime, key_type: int, key: str) -> int:
    """The partition of the coordinator's topic that the key, which is valid, belongs to."""
    if key_type == CoordinatorKeyType.SHARE:
        key = SharePartitionKey.parse(key).coordinator_key
    return runtime.partition_for(key)


def _found(
    context: BrokerContext, key_type: int, errors: Mapping[str, KafkaError], reason: str, key: str
) -> Coordinator:
    try:
        if key in errors:
            raise errors[key]
        endpoint = _coordinator(context, key_type, reason, key)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=_NO_NODE, host="", port=_NO_NODE, error_code=error.code, error_message=error.message
        )
    return Coordinator(key=key, node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)


def _coordinator(context: BrokerContext, key_type: int, reason: str, key: str) -> Endpoint:
    """The endpoint of the key's coordinator. Raises KafkaError; its message ends with `reason`."""
    services = context.services
    runtime = services.coordinators.get(key_type)
    if runtime is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"This cluster has no coordinators for keys of type {key_type}.")
    topic = services.loader.image.topics.by_name.get(runtime.settings.topic)
    if topic is not None:
        index = _partition(runtime, key_type, key)
        partition = topic.partitions[index]
        if partition.leader == services.config.node_id and not runtime.coordinates(index):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator has not started yet.")
        for endpoint in leader_endpoints(context, [partition.leader]):
            return endpoint
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"The coordinator is not available.{reason}")


HANDLER = Handler(FindCoordinatorRequest, find_coordinator, request_bytes_max=REQUEST_BYTES_MAX // 4)
