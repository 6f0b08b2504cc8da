"""Encodes OTLP's metrics, independently of the decoder under test."""

from collections.abc import Mapping
from struct import pack

DELTA, CUMULATIVE = 1, 2


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def field(number: int, value: bytes | str | int | float) -> bytes:
    """A field of text, a message, an unsigned number, or a double."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attributes(number: int, named: Mapping[str, str]) -> bytes:
    """A KeyValue with a text for each attribute."""
    return b"".join(field(number, field(1, name) + field(2, field(1, text))) for name, text in named.items())


def point(value: float, **named: str) -> bytes:
    """A NumberDataPoint."""
    encoded = field(4, value) if isinstance(value, float) else varint(6 << 3 | 1) + pack("<q", value)
    return attributes(7, named) + encoded


def gauge(name: str, *points: bytes) -> bytes:
    """A Metric with a Gauge."""
    return field(1, name) + field(5, b"".join(field(1, each) for each in points))


def counter(name: str, *points: bytes, temporality: int = CUMULATIVE, is_monotonic: bool = True) -> bytes:
    """A Metric with a Sum."""
    summed = b"".join(field(1, each) for each in points) + field(2, temporality) + field(3, int(is_monotonic))
    return field(1, name) + field(7, summed)


def metrics_data(*metrics: bytes, **resource: str) -> bytes:
    """A MetricsData message with these metrics in one scope of one resource."""
    scope = b"".join(field(2, each) for each in metrics)
    return field(1, field(1, attributes(1, resource)) + field(2, scope))
