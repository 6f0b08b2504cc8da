"""Pushes of client metrics (KIP-714) that are small on the wire and large for the broker, and a scrape after them."""

import socket
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from benchmarks.blocking_client import TIMEOUT_S, BlockingClient
from broker.wire.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from broker.wire.api.push_telemetry import PushTelemetryRequest
from broker.wire.records.compression import Compression, compress

# Clients that push before the scrape, and the points of each.
CLIENTS: Final = 20
_POINTS: Final = 2_000
# Attributes of a point, as many as a push of so many points may have.
_ATTRIBUTES: Final = 12
_MANY: Final = 1_000_000


def pushes() -> Iterator[tuple[str, bytes]]:
    """The names of the shapes, and `MetricsData` messages of many small elements."""
    yield "no metrics", _field(1, b"") * _MANY
    yield "no attributes", _field(1, _field(1, _field(1, b"") * _MANY))
    yield "unknown fields", _field(1, _field(99, b"") * (_MANY // 2))
    yield "no values", _field(1, _field(2, _field(2, _field(1, b"m") + _field(5, _field(1, b"") * _MANY))))
    yield "own labels", unique_labels(0)


def unique_labels(client: int) -> bytes:
    """One metric, whose points have attribute names that no other point has."""
    points = b"".join(
        _field(1, _value(number) + _named({f"a{client}_{number}_{at}": "v" for at in range(_ATTRIBUTES)}))
        for number in range(_POINTS)
    )
    return _field(1, _field(2, _field(2, _field(1, b"m") + _field(5, points))))


@attrs.frozen
class PushingClient:
    """A client with its subscription, which may push once."""

    client: BlockingClient
    instance_id: bytes
    subscription_id: int

    @classmethod
    def subscribed(cls, client: BlockingClient) -> "PushingClient":
        given = client.call(GetTelemetrySubscriptionsRequest(), 0)
        return cls(client, given.client_instance_id, given.subscription_id)

    def frame(self, metrics: bytes, compression: Compression) -> bytes:
        request = PushTelemetryRequest(
            client_instance_id=self.instance_id,
            subscription_id=self.subscription_id,
            compression_type=compression,
            metrics=compress(compression, metrics),
        )
        return self.client.frame(request, 0)


def scrape(port: int) -> int:
    """The size of a whole scrape, in bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        size = 0
        while received := connection.recv(1 << 20):
            size += len(received)
        return size


def _named(attributes: Mapping[str, str]) -> bytes:
    return b"".join(
        _field(7, _field(1, name.encode()) + _field(2, _field(1, text.encode()))) for name, text in attributes.items()
    )


def _value(number: int) -> bytes:
    return b"\x31" + number.to_bytes(8, "little")


def _field(number: int, content: bytes) -> bytes:
    """A field of OTLP's encoding, protocol buffers: a text or a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
