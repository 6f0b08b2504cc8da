"""Changes the levels of this node's loggers, for IncrementalAlterConfigs (KIP-412)."""

from collections.abc import Sequence
from typing import Final

from broker.handlers.authorization import check
from broker.server.context import Context
from broker.server.services import NodeServices
from broker.wire.api.incremental_alter_configs import AlterConfigsResource
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import ConfigChange
from metadata.protocol import CLUSTER_NAME, AclOperation, ConfigOperation, ResourceType

# More than there are loggers.
_CHANGES_MAX: Final = 100


def alter_loggers(
    context: Context[NodeServices], resource: AlterConfigsResource, times: int, validate_only: bool
) -> KafkaError | None:
    """Change all loggers of one resource, which the request names so many times, or none of them.

    Returns the error.
    """
    changes = [
        ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs[:_CHANGES_MAX]
    ]
    try:
        if len(changes) < len(resource.configs):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"A resource has {_CHANGES_MAX} configs at most.")
        _check(context, resource.resource_name, times, changes)
    except KafkaError as error:
        return error.with_traceback(None)
    if not validate_only:
        services = context.services
        services.log_levels.apply(changes)
        for change in changes:
            level = change.value if change.op == ConfigOperation.SET else None
            services.env.trace("log_level_changed", logger=change.name, level=level)
    return None


def _check(context: Context[NodeServices], name: str, times: int, changes: Sequence[ConfigChange]) -> None:
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len({change.name for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.op != ConfigOperation.DELETE and change.value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    check(context, AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
    node_id = context.services.config.node_id
    try:
        named = int(name)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from error
    if named != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {named}")
    context.services.log_levels.check(changes)
