"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single configs (KIP-339).

Each node changes the levels of its own loggers (KIP-412). The controller changes everything else.
"""

from functools import partial

from broker.handlers.altered_configs import alter_allowed, result_of
from broker.handlers.broker_loggers import alter_own_loggers
from broker.server.context import ControllerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.wire.errors import KafkaError
from metadata.controller import ConfigChange


def incremental_alter_configs(
    context: ControllerContext, request: IncrementalAlterConfigsRequest
) -> Work[IncrementalAlterConfigsResponse]:
    # Those of a forwarded request belong to the broker that has forwarded it.
    own = None if context.connection is None else (yield from alter_own_loggers(context, request))
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
    take_own_part=alter_own_loggers,
)
