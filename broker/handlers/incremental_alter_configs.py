"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single configs (KIP-339).

Each node changes the levels of its own loggers (KIP-412). The controller changes everything else.
"""

from functools import partial

from broker.handlers.authorization import config_refusal
from broker.handlers.broker_loggers import alter_own_loggers
from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.wire.errors import KafkaError
from metadata.controller import ConfigChange, ConfigOutcome
from metadata.image import ConfigResource
from metadata.protocol import AclOperation


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
    refusals = yield from each(partial(_refusal, context), request.resources)
    allowed = [each for each, refusal in zip(request.resources, refusals, strict=True) if refusal is None]
    changes = yield from _changes(allowed)
    controller = context.services.controller
    outcomes = yield from in_task(
        controller.incremental_alter_configs(changes, validate_only=request.validate_only, context=context)
    )
    responses = yield from each(_result, outcomes)
    responses += [
        _refused(resource, refusal)
        for resource, refusal in zip(request.resources, refusals, strict=True)
        if refusal is not None
    ]
    return IncrementalAlterConfigsResponse(responses=responses)


def _refusal(context: ControllerContext, resource: AlterConfigsResource) -> KafkaError | None:
    return config_refusal(context, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)


def _changes(resources: list[AlterConfigsResource]) -> Steps[list[tuple[ConfigResource, list[ConfigChange]]]]:
    """The requested changes by resource, in steps: one resource may have all configs of the request."""
    changes = []
    for resource in resources:
        ops = yield from each(_change, resource.configs)
        changes.append((ConfigResource(resource.resource_type, resource.resource_name), ops))
        if not len(changes) % STEP_ITEMS:
            yield
    return changes


def _change(config: AlterableConfig) -> ConfigChange:
    return ConfigChange(config.name, config.config_operation, config.value)


def _result(outcome: ConfigOutcome) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code_of(outcome.error),
        error_message=message_of(outcome.error),
        resource_type=outcome.resource.type,
        resource_name=outcome.resource.name,
    )


def refused(
    context: ControllerContext, request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_refused(resource, error) for resource in request.resources])


def _refused(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code_of(error),
        error_message=message_of(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


HANDLER = Handler(
    IncrementalAlterConfigsRequest,
    incremental_alter_configs,
    refused=refused,
    forwarded=True,
    take_own_part=alter_own_loggers,
)
