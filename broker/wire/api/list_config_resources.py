"""ListConfigResources (key 74): the resources that have configs, or can have.

Flexible from 0. Version 0 was ListClientMetricsResources, and knows no other resources (KIP-714); version 1 knows all
(KIP-1142).
"""

from broker.wire.schema import field, request, response, struct


@request(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """An empty list of types lists all resources."""

    resource_types: list[int] = field(["int8"], "1+", factory=list)


@struct
class ConfigResource:
    resource_name: str = field("string", "0+", default="")
    resource_type: int = field("int8", "1+", default=16)


@response(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    config_resources: list[ConfigResource] = field([ConfigResource], "0+", factory=list)
