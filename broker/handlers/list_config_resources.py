"""ListConfigResources (key 74): the resources that DescribeConfigs can describe (KIP-1142).

The response lists all topics, all brokers with their loggers, and the groups and client metrics subscriptions for which
a config is set.
"""

from broker.handlers.response_errors import error_response
from broker.server.context import BrokerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.server.slices import Steps, each
from broker.wire.api.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation, ConfigResourceType

_OF_CLIENT_METRICS_ONLY = (ConfigResourceType.CLIENT_METRICS,)
_ALL = tuple(kind for kind in ConfigResourceType if kind is not ConfigResourceType.UNKNOWN)


def list_config_resources(
    context: BrokerContext, request: ListConfigResourcesRequest
) -> Steps[ListConfigResourcesResponse]:
    supported = _ALL if context.api_version >= 1 else _OF_CLIENT_METRICS_ONLY
    wanted = request.resource_types or supported
    if any(kind not in supported for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    named = [(name, kind) for kind in supported if kind in wanted for name in _names(context, kind)]
    resources = yield from each(
        lambda resource: ConfigResource(resource_name=resource[0], resource_type=resource[1]), named
    )
    return ListConfigResourcesResponse(config_resources=resources)


def _names(context: BrokerContext, kind: ConfigResourceType) -> list[str]:
    image = context.services.loader.image
    match kind:
        case ConfigResourceType.TOPIC:
            return [name for name, _ in image.topics.by_name.items()]
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            brokers = image.cluster.brokers.values()
            return [str(broker.broker_id) for broker in brokers if context.listener in broker.end_points]
        case ConfigResourceType.GROUP | ConfigResourceType.CLIENT_METRICS:
            resources = (resource for resource, _ in image.configs.resources.items())
            return [resource.name for resource in resources if resource.type == kind]
        case _:
            return []


HANDLER = Handler(
    ListConfigResourcesRequest,
    list_config_resources,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(ListConfigResourcesResponse),
    operation=AclOperation.DESCRIBE_CONFIGS,
)
