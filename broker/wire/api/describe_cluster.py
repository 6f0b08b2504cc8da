"""DescribeCluster (key 60): cluster id, controller and brokers (KIP-700).

Always flexible. Notable versions:
    1  may ask controllers instead of brokers (KIP-919)
    2  may include fenced brokers (KIP-1073)
"""

from broker.wire.schema import field, request, response, struct


@request(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """`endpoint_type`: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = field("bool", "0+", default=False)
    endpoint_type: int = field("int8", "1+", default=1)
    include_fenced_brokers: bool = field("bool", "2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: int = field("int32", "0+", default=0)
    host: str = field("string", "0+", default="")
    port: int = field("int32", "0+", default=0)
    rack: str | None = field("string", "0+", default=None, nullable="0+")
    is_fenced: bool = field("bool", "2+", default=False)


@response(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default=None, nullable="0+")
    endpoint_type: int = field("int8", "1+", default=1)
    cluster_id: str = field("string", "0+", default="")
    controller_id: int = field("int32", "0+", default=-1)
    brokers: list[DescribeClusterBroker] = field([DescribeClusterBroker], "0+", factory=list)
    cluster_authorized_operations: int = field("int32", "0+", default=-2147483648)
