"""AlterConfigs (key 33): replace all configs of topics or brokers (KIP-133); IncrementalAlterConfigs supersedes it."""

from collections import Counter
from collections.abc import Mapping
from functools import partial

from broker.handlers.altered_configs import alter_allowed, check_own, own_part, result_of
from broker.server.context import Context, ControllerContext
from broker.server.handler import Handler, OwnPart
from broker.server.scheduler import Work
from broker.server.services import NodeServices
from broker.server.slices import Steps, each
from broker.wire.api.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
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


def check_own_configs(context: Context[NodeServices], request: AlterConfigsRequest) -> Steps[OwnPart | None]:
    """Refuse configs of this broker that it could not apply; the controller gets the other resources."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)

    def refuse(resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
        is_named_once = times[resource.resource_type, resource.resource_name] == 1
        return _refuse_own(context, resource) if is_named_once else None

    results = yield from each(refuse, request.resources)
    return own_part(request, AlterConfigsResponse, results)


def _refuse_own(context: Context[NodeServices], resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
    def changes(present: Mapping[str, str]) -> Mapping[str, str | None]:
        return {**dict.fromkeys(present), **dict(map(_value, resource.configs))}

    error = check_own(context, resource, changes)
    return None if error is None else result_of(AlterConfigsResourceResponse, resource, error)


HANDLER = Handler(AlterConfigsRequest, alter_configs, refused=refused, forwarded=True, take_own_part=check_own_configs)
