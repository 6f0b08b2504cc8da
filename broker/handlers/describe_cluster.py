"""DescribeCluster (key 60): the cluster's id and brokers (KIP-700); from version 2 fenced brokers too (KIP-1073).

On a controller's listener, the response describes the controllers instead (KIP-919), and the client needs ALTER on the
cluster, as in Kafka.
"""

from typing import Any, Final

from broker.handlers.active_controller import NO_CONTROLLER, active_controller
from broker.handlers.authorization import authorized_cluster_operations
from broker.handlers.response_errors import error_response
from broker.handlers.voters import endpoint_of
from broker.server.context import BrokerContext, Context, ControllerContext
from broker.server.handler import SMALL_REQUEST_BYTES_MAX, Handler
from broker.wire.api.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from broker.wire.errors import ErrorCode
from metadata.protocol import AclOperation

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NAMES: Final = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}


def describe_cluster(context: BrokerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        return _refused(request, _BROKERS)
    listener = context.listener
    brokers = [
        DescribeClusterBroker(
            broker_id=broker.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in context.services.loader.image.cluster.brokers.values()
        if (not broker.fenced or request.include_fenced_brokers)
        and (endpoint := broker.end_points.get(listener)) is not None
    ]
    return _answer(context, request, active_controller(context), brokers)


def describe_controllers(context: ControllerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != _CONTROLLERS:
        return _refused(request, _CONTROLLERS)
    quorum = context.services.quorum.describe()
    controllers = [
        DescribeClusterBroker(broker_id=voter.node_id, host=endpoint.host, port=endpoint.port)
        for voter in quorum.voters.voters
        if (endpoint := endpoint_of(voter)) is not None
    ]
    leader_id = NO_CONTROLLER if quorum.leader_id is None else quorum.leader_id
    return _answer(context, request, leader_id, controllers)


def _answer(
    context: Context[Any], request: DescribeClusterRequest, controller_id: int, nodes: list[DescribeClusterBroker]
) -> DescribeClusterResponse:
    response = DescribeClusterResponse(
        cluster_id=context.services.cluster_id,
        controller_id=controller_id,
        endpoint_type=request.endpoint_type,
        brokers=nodes,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_cluster_operations(context)
    return response


def _refused(request: DescribeClusterRequest, served: int) -> DescribeClusterResponse:
    wanted = _NAMES.get(request.endpoint_type)
    if wanted is None:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        error_message=f"The request was sent to an endpoint of type {_NAMES[served]}, "
        f"but we wanted an endpoint of type {wanted}",
    )


HANDLER = Handler(DescribeClusterRequest, describe_cluster, request_bytes_max=SMALL_REQUEST_BYTES_MAX)
CONTROLLER_HANDLER = Handler(
    DescribeClusterRequest,
    describe_controllers,
    request_bytes_max=SMALL_REQUEST_BYTES_MAX,
    refused=error_response(DescribeClusterResponse),
    operation=AclOperation.ALTER,
)
