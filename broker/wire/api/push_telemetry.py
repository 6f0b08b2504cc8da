"""PushTelemetry (key 72): a client's metrics, in OpenTelemetry's format (KIP-714).

Flexible from 0.
"""

from broker.wire.schema import field, request, response
from broker.wire.uuids import ZERO_UUID


@request(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    """`metrics` is a MetricsData message of OTLP, compressed as `compression_type` says."""

    client_instance_id: bytes = field("uuid", "0+", default=ZERO_UUID)
    subscription_id: int = field("int32", "0+", default=0)
    terminating: bool = field("bool", "0+", default=False)
    compression_type: int = field("int8", "0+", default=0)
    metrics: bytes = field("bytes", "0+", default=b"")


@response(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int = field("int32", "0+", default=0)
    error_code: int = field("int16", "0+", default=0)
