"""UnregisterController (key 94): remove the registration of a controller that is gone for good (KIP-1312).

Always flexible.
"""

from broker.wire.schema import field, request, response


@request(key=94, versions="0", flexible="0+")
class UnregisterControllerRequest:
    controller_id: int = field("int32", "0+", default=0)


@response(key=94, versions="0", flexible="0+")
class UnregisterControllerResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    error_message: str | None = field("string", "0+", default="", nullable="0+")
