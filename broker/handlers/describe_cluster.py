"""DescribeCluster (key 60): the cluster's id and brokers (KIP-700); from version 2 fenced brokers too (KIP-1073)."""

from typing import Final

from broker.handlers.authorized_operations import CLUSTER_OPERATIONS
from broker.handlers.handler import Handler, RequestContext
from broker.wire.api.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from broker.wire.errors import ErrorCode

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_MISMATCHED: Final = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"


def describe_cluster(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    services = context.services
    if request.endpoint_type != _BROKERS:
        mismatched = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if mismatched else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=_MISMATCHED if mismatched else f"Unsupported endpoint type {request.endpoint_type}",
        )
    listener = context.connection.listener
    response = DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=services.config.node_id,
        endpoint_type=_BROKERS,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker in services.loader.image.cluster.brokers.values()
            if (not broker.fenced or request.include_fenced_brokers)
            and (endpoint := broker.end_points.get(listener)) is not None
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


HANDLER = Handler(api_key=60, min_version=0, max_version=2, immediate=describe_cluster)
