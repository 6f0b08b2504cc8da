"""AlterConfigs (key 33): replace all configs of topics or brokers (KIP-133); IncrementalAlterConfigs supersedes it."""

from functools import partial

from broker.handlers.altered_configs import alter_allowed, result_of
from broker.server.context import ControllerContext
from broker.server.handler import Handler
from broker.server.scheduler import Work
from broker.wire.api.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.wire.errors import KafkaError


def alter_configs(context: ControllerContext, request: AlterConfigsRequest) -> Work[AlterConfigsResponse]:
    alter = partial(context.services.controller.alter_configs, validate_only=request.validate_only, context=context)
    responses = yield from alter_allowed(context, request.resources, _value, alter, AlterConfigsResourceResponse)
    return AlterConfigsResponse(responses=responses)


def _value(config: AlterableConfig) -> tuple[str, str | None]:
    return config.name, config.value


def refused(context: ControllerContext, request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[result_of(AlterConfigsResourceResponse, resource, error) for resource in request.resources]
    )


HANDLER = Handler(AlterConfigsRequest, alter_configs, refused=refused, forwarded=True)
