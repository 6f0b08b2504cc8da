"""DescribeConfigs (key 32): the configs of topics and brokers, with where each value comes from (KIP-133, KIP-226).

Flexible from 4. Version 3 adds types and documentation (KIP-569).
"""

from broker.wire.schema import field, request, response, struct


@struct
class DescribeConfigsResource:
    """`configuration_keys` is None for all."""

    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configuration_keys: list[str] | None = field(["string"], "0+", factory=list, nullable="0+")


@request(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field([DescribeConfigsResource], "0+", factory=list)
    include_synonyms: bool = field("bool", "1+", default=False)
    include_documentation: bool = field("bool", "3+", default=False)


@struct
class DescribeConfigsSynonym:
    name: str = field("string", "1+", default="")
    value: str | None = field("string", "1+", default="", nullable="0+")
    source: int = field("int8", "1+", default=0)


@struct
class DescribeConfigsResourceResult:
    """`config_source`: 1 topic, 2 broker, 3 default broker, 4 server.properties, 5 default."""

    name: str = field("string", "0+", default="")
    value: str | None = field("string", "0+", default="", nullable="0+")
    read_only: bool = field("bool", "0+", default=False)
    config_source: int = field("int8", "1+", default=-1)
    is_sensitive: bool = field("bool", "0+", default=False)
    synonyms: list[DescribeConfigsSynonym] = field([DescribeConfigsSynonym], "1+", factory=list)
    config_type: int = field("int8", "3+", default=0)
    documentation: str | None = field("string", "3+", default="", nullable="0+")


@struct
class DescribeConfigsResult:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configs: list[DescribeConfigsResourceResult] = field([DescribeConfigsResourceResult], "0+", factory=list)


@response(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    results: list[DescribeConfigsResult] = field([DescribeConfigsResult], "0+", factory=list)
