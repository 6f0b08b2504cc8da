"""AlterConfigs (key 33): replace all configs of resources (KIP-133); superseded by IncrementalAlterConfigs.

Flexible from 2.
"""

from broker.wire.schema import field, request, response, struct


@struct
class AlterableConfig:
    name: str = field("string", "0+", default="")
    value: str | None = field("string", "0+", default="", nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configs: list[AlterableConfig] = field([AlterableConfig], "0+", factory=list)


@request(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field([AlterConfigsResource], "0+", factory=list)
    validate_only: bool = field("bool", "0+", default=False)


@struct
class AlterConfigsResourceResponse:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse], "0+", factory=list)
