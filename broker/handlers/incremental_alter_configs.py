"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single configs (KIP-339).

Each node changes the levels of its own loggers (KIP-412), and checks configs of its own. The controller changes
everything else.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial

from broker.handlers.altered_configs import alter_allowed, check_own, own_part, result_of
from broker.handlers.broker_loggers import alter_loggers
from broker.server.context import Context, ControllerContext
from broker.server.handler import Handler, OwnPart
from broker.server.scheduler import Work
from broker.server.services import NodeServices
from broker.server.slices import Steps, each
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.wire.errors import KafkaError
from metadata.controller import ConfigChange, value_after
from metadata.protocol import ConfigResourceType


def incremental_alter_configs(
    context: ControllerContext, request: IncrementalAlterConfigsRequest
) -> Work[IncrementalAlterConfigsResponse]:
    # Those of a forwarded request belong to the broker that has forwarded it.
    own = None if context.connection is None else (yield from take_own_part(context, request))
    if own is None:
        return (yield from _alter(context, request))
    response = None if own.remaining is None else (yield from _alter(context, own.remaining))
    whole: IncrementalAlterConfigsResponse = yield from own.respond(response)
    return whole


def _alter(
    context: ControllerContext, request: IncrementalAlterConfigsRequest
) -> Work[IncrementalAlterConfigsResponse]:
    controller = context.services.controller
    alter = partial(controller.incremental_alter_configs, validate_only=request.validate_only, context=context)
    responses = yield from alter_allowed(context, request.resources, _change, alter, AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(responses=responses)


def take_own_part(context: Context[NodeServices], request: IncrementalAlterConfigsRequest) -> Steps[OwnPart | None]:
    """Change own loggers, and refuse configs of this node that it could not apply."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)

    def carry_out(resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
        named = times[resource.resource_type, resource.resource_name]
        if resource.resource_type != ConfigResourceType.BROKER_LOGGER:
            return _refuse_own(context, resource) if named == 1 else None
        error = alter_loggers(context, resource, named, request.validate_only)
        return result_of(AlterConfigsResourceResponse, resource, error)

    results = yield from each(carry_out, request.resources)
    return own_part(request, IncrementalAlterConfigsResponse, results)


def _refuse_own(context: Context[NodeServices], resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
    schema = context.services.config.schema()

    def changes(present: Mapping[str, str]) -> Mapping[str, str | None]:
        kind = ConfigResourceType.BROKER
        return {
            change.name: value_after(schema, kind, change, present.get(change.name))
            for change in map(_change, resource.configs)
        }

    error = check_own(context, resource, changes)
    return None if error is None else result_of(AlterConfigsResourceResponse, resource, error)


def _change(config: AlterableConfig) -> ConfigChange:
    return ConfigChange(config.name, config.config_operation, config.value)


def refused(
    context: ControllerContext, request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[result_of(AlterConfigsResourceResponse, resource, error) for resource in request.resources]
    )


HANDLER = Handler(
    IncrementalAlterConfigsRequest,
    incremental_alter_configs,
    refused=refused,
    forwarded=True,
    take_own_part=take_own_part,
)
