"""GetTelemetrySubscriptions (key 71): the metrics that a client should push to this broker (KIP-714).

Flexible from 0.
"""

from broker.wire.schema import field, request, response
from broker.wire.uuids import ZERO_UUID


@request(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """The id of the client instance is zero in the first request: the broker makes one."""

    client_instance_id: bytes = field("uuid", "0+", default=ZERO_UUID)


@response(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """Without requested metrics the client pushes nothing, and asks again after the interval."""

    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
    client_instance_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    subscription_id: int = field("int32", "0+", default=0)
    accepted_compression_types: list[int] = field(["int8"], "0+", factory=list)
    push_interval_ms: int = field("int32", "0+", default=0)
    telemetry_max_bytes: int = field("int32", "0+", default=0)
    delta_temporality: bool = field("bool", "0+", default=False)
    requested_metrics: list[str] = field(["string"], "0+", factory=list)
