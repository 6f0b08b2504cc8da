"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single configs (KIP-339)."""

from broker.handlers.controller_errors import code_of, message_of, refusal
from broker.handlers.handler import Handler, RequestContext
from broker.wire.api.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from metadata.controller import ConfigChange
from metadata.errors import ApiError
from metadata.image import ConfigResource


async def incremental_alter_configs(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    changes = [
        (
            ConfigResource(resource.resource_type, resource.resource_name),
            [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    controller = context.services.controller
    try:
        outcomes = await controller.incremental_alter_configs(changes, validate_only=request.validate_only)
        answers = [(resource, code_of(error), message_of(error)) for resource, error in outcomes]
    except ApiError as error:
        answers = [(resource, *refusal(error)) for resource, _ in changes]
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource.type, resource_name=resource.name
            )
            for resource, code, message in answers
        ]
    )


HANDLER = Handler(api_key=44, min_version=0, max_version=1, deferred=incremental_alter_configs)
