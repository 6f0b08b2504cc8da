"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single configs (KIP-339).

Flexible from 1.
"""

from broker.wire.schema import field, request, response, struct


@struct
class AlterableConfig:
    """`config_operation`: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str = field("string", "0+", default="")
    config_operation: int = field("int8", "0+", default=0)
    value: str | None = field("string", "0+", default="", nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    configs: list[AlterableConfig] = field([AlterableConfig], "0+", factory=list)


@request(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field([AlterConfigsResource], "0+", factory=list)
    validate_only: bool = field("bool", "0+", default=False)


@struct
class AlterConfigsResourceResponse:
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    responses: list[AlterConfigsResourceResponse] = field([AlterConfigsResourceResponse], "0+", factory=list)
