"""AlterConfigs (key 33): replace all configs of topics or brokers (KIP-133); IncrementalAlterConfigs supersedes it."""

from functools import partial

from broker.handlers.authorization import config_refusal
from broker.handlers.response_errors import code_of, message_of
from broker.server.context import ControllerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work, in_task
from broker.server.slices import STEP_ITEMS, Steps, each
from broker.wire.api.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.wire.errors import KafkaError
from metadata.controller import ConfigOutcome
from metadata.image import ConfigResource
from metadata.protocol import AclOperation


def alter_configs(context: ControllerContext, request: AlterConfigsRequest) -> Work[AlterConfigsResponse]:
    refusals = yield from each(partial(_refusal, context), request.resources)
    allowed = [each for each, refusal in zip(request.resources, refusals, strict=True) if refusal is None]
    wanted = yield from _wanted(allowed)
    outcomes = yield from in_task(
        context.services.controller.alter_configs(wanted, validate_only=request.validate_only, context=context)
    )
    responses = yield from each(_result, outcomes)
    responses += [
        _refused(resource, refusal)
        for resource, refusal in zip(request.resources, refusals, strict=True)
        if refusal is not None
    ]
    return AlterConfigsResponse(responses=responses)


def _refusal(context: ControllerContext, resource: AlterConfigsResource) -> KafkaError | None:
    return config_refusal(context, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)


def _wanted(
    resources: list[AlterConfigsResource],
) -> Steps[list[tuple[ConfigResource, list[tuple[str, str | None]]]]]:
    """The requested configs by resource, in steps: one resource may have all configs of the request."""
    wanted = []
    for resource in resources:
        configs = yield from each(lambda config: (config.name, config.value), resource.configs)
        wanted.append((ConfigResource(resource.resource_type, resource.resource_name), configs))
        if not len(wanted) % STEP_ITEMS:
            yield
    return wanted


def _result(outcome: ConfigOutcome) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code_of(outcome.error),
        error_message=message_of(outcome.error),
        resource_type=outcome.resource.type,
        resource_name=outcome.resource.name,
    )


def refused(context: ControllerContext, request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_refused(resource, error) for resource in request.resources])


def _refused(resource: AlterConfigsResource, error: KafkaError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code_of(error),
        error_message=message_of(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


HANDLER = Handler(AlterConfigsRequest, alter_configs, refused=refused, forwarded=True)
