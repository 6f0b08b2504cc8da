"""Changes the levels of this node's loggers, for IncrementalAlterConfigs (KIP-412)."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from broker.handlers.altered_configs import result_of
from broker.handlers.authorization import check
from broker.server.context import Context
from broker.server.handler import OwnPart
from broker.server.services import NodeServices
from broker.server.slices import Steps, each
from broker.wire.api.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.controller import ConfigChange
from metadata.protocol import CLUSTER_NAME, AclOperation, ConfigOperation, ConfigResourceType, ResourceType

# More than there are loggers.
_CHANGES_MAX: Final = 100


def alter_own_loggers(context: Context[Any], request: IncrementalAlterConfigsRequest) -> Steps[OwnPart | None]:
    """Change the loggers that the request names, in steps. The result is None if it names none."""
    loggers = [resource for resource in request.resources if resource.resource_type == ConfigResourceType.BROKER_LOGGER]
    if not loggers:
        return None
    times = Counter(resource.resource_name for resource in loggers)
    errors = yield from each(
        lambda resource: _alter(context, resource, times[resource.resource_name], request.validate_only), loggers
    )
    others = [resource for resource in request.resources if resource.resource_type != ConfigResourceType.BROKER_LOGGER]
    remaining = IncrementalAlterConfigsRequest(resources=others, validate_only=request.validate_only)

    def respond(response: IncrementalAlterConfigsResponse | None) -> Steps[IncrementalAlterConfigsResponse]:
        """Both parts, in the order of the request."""
        altered = map(partial(result_of, AlterConfigsResourceResponse), loggers, errors)
        answered = iter(() if response is None else response.responses)
        responses = yield from each(
            lambda resource: next(altered if resource.resource_type == ConfigResourceType.BROKER_LOGGER else answered),
            request.resources,
        )
        throttle_time_ms = 0 if response is None else response.throttle_time_ms
        return IncrementalAlterConfigsResponse(throttle_time_ms=throttle_time_ms, responses=responses)

    return OwnPart(remaining if others else None, respond)


def _alter(
    context: Context[NodeServices], resource: AlterConfigsResource, times: int, validate_only: bool
) -> KafkaError | None:
    """Change all loggers of one resource, or none of them. Returns the error."""
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
