"""Refusals of clients that are not allowed to do something, and the operations that they are allowed (KIP-430)."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from broker.server.context import Context
from broker.wire.errors import ErrorCode, KafkaError
from metadata.protocol import CLUSTER_NAME, AclOperation, ConfigResourceType, ResourceType

_REFUSALS: Final[Mapping[ResourceType, tuple[ErrorCode, str]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
        ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
        ResourceType.TRANSACTIONAL_ID: (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "Transactional Id authorization failed.",
        ),
    }
)
# The resource of ACLs that protects the configs of a resource.
_OF_CONFIGS: Final[Mapping[int, ResourceType]] = MappingProxyType(
    {
        ConfigResourceType.TOPIC: ResourceType.TOPIC,
        ConfigResourceType.GROUP: ResourceType.GROUP,
        ConfigResourceType.BROKER: ResourceType.CLUSTER,
        ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
        ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
    }
)
# All operations that there are on a resource of each type.
_OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        ),
    }
)


def refusal(resource_type: ResourceType) -> KafkaError:
    """The error for a client that is not allowed to use a resource."""
    return KafkaError(*_REFUSALS[resource_type])


def check(context: Context[Any], operation: AclOperation, resource_type: ResourceType, name: str) -> None:
    """Raises the refusal if the client is not allowed to carry out the operation."""
    if not context.allows(operation, resource_type, name):
        raise refusal(resource_type)


def member_refusal(context: Context[Any], group_id: str, topics: Iterable[str]) -> KafkaError | None:
    """The error for a member that may not use its group, or may not describe all topics that it subscribes to."""
    if not context.allows(AclOperation.READ, ResourceType.GROUP, group_id):
        return refusal(ResourceType.GROUP)
    if all(context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return None
    return refusal(ResourceType.TOPIC)


def config_refusal(context: Context[Any], operation: AclOperation, resource_type: int, name: str) -> KafkaError | None:
    """The refusal if the client may not carry out the operation on the configs of a resource.

    None also for types that have no configs: they have an error of their own.
    """
    kind = _OF_CONFIGS.get(resource_type)
    if kind is None or context.allows(operation, kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else name):
        return None
    return refusal(kind)


def authorized_operations(context: Context[Any], resource_type: ResourceType, name: str) -> int:
    """The operations that the client may carry out on a resource, as a bit field."""
    return sum(
        1 << operation
        for operation in _OPERATIONS[resource_type]
        if context.allows(operation, resource_type, name, is_tried=False)
    )


def authorized_cluster_operations(context: Context[Any]) -> int:
    """The operations on the cluster, as a bit field; 0 for a client that may not describe it."""
    if not context.allows_cluster(AclOperation.DESCRIBE):
        return 0
    return authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
