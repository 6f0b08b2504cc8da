"""DescribeConfigs (key 32): configs, and the source of each value (KIP-133, KIP-226, KIP-569)."""

from typing import Final

from broker.handlers.authorization import config_refusal
from broker.handlers.topic_names import unknown_topic
from broker.server.context import Context
from broker.server.handler import Handler
from broker.server.services import NodeServices
from broker.server.slices import Steps
from broker.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from broker.wire.errors import ErrorCode, KafkaError
from metadata.configuration import ConfigEntry, describe_client_metrics, describe_cluster_default, parse_int
from metadata.protocol import AclOperation, ConfigResourceType, ConfigSource, ConfigType

# Configs in one response: all of 10,000 topics, or of 2,500 with synonyms or documentation. Both are some 20 MB
# on the wire and 100 MB in memory.
CONFIGS_MAX: Final = 400_000
DETAILED_CONFIGS_MAX: Final = 100_000


def describe_configs(context: Context[NodeServices], request: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
    """A resource that is named more than once is described once, with the keys of its first mention."""
    seen: set[tuple[int, str]] = set()
    response = DescribeConfigsResponse()
    is_detailed = request.include_synonyms or request.include_documentation
    left = DETAILED_CONFIGS_MAX if is_detailed else CONFIGS_MAX
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        if key not in seen:
            seen.add(key)
            result = _describe(context, request, resource) if left > 0 else _too_many(resource)
            left -= len(result.configs)
            response.results.append(result)
        yield
    return response


def _too_many(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="This response is as large as it may be: describe the other resources in another request.",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _describe(
    context: Context[NodeServices], request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        refusal = config_refusal(context, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
        if refusal is not None:
            raise refusal
        entries = _entries(context, resource)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    wanted = set(resource.configuration_keys or ())  # an empty or null list means all keys
    result.configs = [_config(request, entry) for entry in entries if not wanted or entry.name in wanted]
    return result


def _entries(context: Context[NodeServices], resource: DescribeConfigsResource) -> list[ConfigEntry]:
    services = context.services
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            image = services.loader.image
            if name not in image.topics.by_name:
                raise unknown_topic(name)
            return services.config.describe_topic(image.configs.topic(name))
        case ConfigResourceType.BROKER:
            if not name:
                return describe_cluster_default(services.loader.image.configs.all_brokers())
            _check_broker(name, services.config.node_id)
            return services.config.describe_broker()
        case ConfigResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return services.config.describe_group(services.loader.image.configs.group(name))
        case ConfigResourceType.BROKER_LOGGER:
            _check_logger(name, services.config.node_id)
            return [_logger(logger, level) for logger, level in services.log_levels.describe().items()]
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return describe_client_metrics(services.loader.image.configs.client_metrics(name))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


def _check_broker(name: str, node_id: int) -> None:
    if _broker_id(name) != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )


def _broker_id(name: str) -> int:
    broker_id = parse_int(name)
    if broker_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    return broker_id


def _check_logger(name: str, node_id: int) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if _broker_id(name) != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} but received {name}")


def _logger(name: str, level: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=level,
        source=ConfigSource.BROKER_LOGGER,
        is_sensitive=False,
        read_only=False,
        type=ConfigType.UNKNOWN,
        synonyms=(),
        documentation=None,
    )


def _config(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


HANDLER = Handler(DescribeConfigsRequest, describe_configs)
