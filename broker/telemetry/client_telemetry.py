"""Answers the telemetry requests of clients, and keeps what they have pushed for a while.

A client asks one broker for its subscription, and pushes to the same broker as long as it is connected. The broker
keeps the state of each client instance, and forgets it when the connection ends, as Kafka does. The pushed metrics stay
until they expire, so that the last push of a client that ends is seen.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from math import inf
from typing import Final, TypeAlias, TypeVar

from broker.net.connection import Connection
from broker.telemetry.client_instance import ClientInstance
from broker.telemetry.otlp import TEXT_MAX, Decoder, MalformedMetrics, TooLargeMetrics
from broker.telemetry.pushed_metrics import BROKER_BOUNDS, CLIENT_BOUNDS, PushedFamily, PushedMetrics, SeriesBounds
from broker.telemetry.subscriptions import ClientSubscription, Subscription
from broker.wire.api.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker.wire.api.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from broker.wire.errors import ErrorCode
from broker.wire.records.compression import Compression, decompress
from broker.wire.records.errors import CorruptBatch, TooLargeContent
from broker.wire.uuids import METADATA_TOPIC_ID, ZERO_UUID, encode_uuid, new_uuid
from kraft import lazy_attrs
from kraft.env import Tracer
from metadata.configuration import InvalidConfig
from metadata.configuration.client_metrics import check_client_metrics
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import ConfigResourceType

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]

# Client instances of a broker, as in Kafka; the one that was silent for longest makes room for another.
INSTANCES_MAX: Final = 16_384
# A client instance and what it pushed expire after three intervals of silence, and not before this time.
EXPIRY_MS_MIN: Final = 60_000
_INTERVALS_BEFORE_EXPIRY: Final = 3
# The size to which a push is decompressed at most, if telemetry.max.bytes is less: it takes some milliseconds.
DECOMPRESSED_MAX: Final = 2 * 1024 * 1024
# In the order of Kafka's brokers, which clients take as the order of preference.
ACCEPTED_COMPRESSION_TYPES: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)


@lazy_attrs.define
class TelemetryCounts:
    """The numbers of refused requests and of pushes since the start."""

    throttled: int = 0
    unknown_subscriptions: int = 0
    pushes: int = 0
    invalid_pushes: int = 0
    skipped_metrics: int = 0


@lazy_attrs.frozen
class TelemetryClient:
    """The client of a request: its connection, and its attributes by the names that `match` uses for them."""

    connection: Connection | None
    attributes: Mapping[str, str]


@lazy_attrs.frozen
class TelemetryLimits:
    """`push_bytes_max` is `telemetry.max.bytes`, the size of a push as it is sent.

    The bounds are of what one client instance, and all of them, have in a scrape.
    """

    push_bytes_max: int
    instances_max: int = INSTANCES_MAX
    client_bounds: SeriesBounds = CLIENT_BOUNDS
    broker_bounds: SeriesBounds = BROKER_BOUNDS


class ClientTelemetry:
    """The telemetry of the clients of one broker. A metadata publisher, which follows the subscriptions.

    `now_ms` is a monotonic time, and `random_bytes` makes ids of client instances.
    """

    def __init__(
        self,
        limits: TelemetryLimits,
        now_ms: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        trace: Tracer,
    ) -> None:
        self._limits = limits
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._trace = trace
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0
        self._instances: dict[bytes, ClientInstance] = {}  # the one that was silent for longest comes first
        self._by_connection: dict[Connection, bytes] = {}
        self._pushed = PushedMetrics(limits.client_bounds, limits.broker_bounds)
        self._pushed_until_ms: dict[bytes, float] = {}  # in the order of the last push
        self.counts = TelemetryCounts()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow the changes of subscriptions. Clients get another subscription id with their next request."""
        changed = [each for each in delta.configs.changed if each.type == ConfigResourceType.CLIENT_METRICS]
        for resource in changed:
            configs = image.configs.of(resource)
            if not configs:
                self._subscriptions.pop(resource.name, None)
                continue
            try:
                check_client_metrics(configs)
                self._subscriptions[resource.name] = Subscription(configs)
            except InvalidConfig as error:
                self._trace("client_metrics_ignored", subscription=resource.name, error=str(error))
        if changed:
            self._version += 1

    def get_subscriptions(
        self, request: GetTelemetrySubscriptionsRequest, client: TelemetryClient
    ) -> Steps[GetTelemetrySubscriptionsResponse]:
        """Answer GetTelemetrySubscriptions, in steps."""
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = yield from self._instance(instance_id, client)
        error = instance.check_get(self._now_ms())
        if error:
            self.counts.throttled += 1
            return GetTelemetrySubscriptionsResponse(error_code=error)
        instance.last_error = ErrorCode.NONE
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=instance.subscription.id,
            accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
            push_interval_ms=instance.subscription.interval_ms,
            telemetry_max_bytes=self._limits.push_bytes_max,
            delta_temporality=True,
            requested_metrics=list(instance.subscription.metrics),
        )

    def push(self, request: PushTelemetryRequest, client: TelemetryClient) -> Steps[PushTelemetryResponse]:
        """Answer PushTelemetry, in steps."""
        instance_id = request.client_instance_id
        if instance_id in (ZERO_UUID, METADATA_TOPIC_ID):
            return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
        instance = yield from self._instance(instance_id, client)
        error = instance.check_push(
            self._now_ms(),
            subscription_id=request.subscription_id,
            is_terminating=request.terminating,
            compression_type=request.compression_type,
            size=len(request.metrics),
            size_max=self._limits.push_bytes_max,
        )
        instance.is_terminating = request.terminating
        self.counts.throttled += error == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.counts.unknown_subscriptions += error == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not error and request.metrics:
            error = yield from self._take_over(instance_id, instance, request, client)
        instance.last_error = error
        return PushTelemetryResponse(error_code=error)

    def _take_over(
        self, instance_id: bytes, instance: ClientInstance, request: PushTelemetryRequest, client: TelemetryClient
    ) -> Steps[ErrorCode]:
        """Decode a push and keep its metrics. Returns an error for one that is malformed or too large."""
        self.counts.pushes += 1
        size_max = max(self._limits.push_bytes_max, DECOMPRESSED_MAX)
        try:
            data = decompress(Compression(request.compression_type), request.metrics, size_max)
            yield
            decoded = yield from Decoder(data).steps()
        except (TooLargeContent, TooLargeMetrics):
            self.counts.invalid_pushes += 1
            return ErrorCode.TELEMETRY_TOO_LARGE
        except (CorruptBatch, MalformedMetrics):
            self.counts.invalid_pushes += 1
            return ErrorCode.INVALID_RECORD
        self.counts.skipped_metrics += decoded.skipped
        self._pushed_until_ms.pop(instance_id, None)
        self._pushed_until_ms[instance_id] = instance.expires_ms
        self._make_room()
        labels = {"client_instance_id": encode_uuid(instance_id), **_identity(client.attributes)}
        yield from self._pushed.apply(instance_id, labels, decoded.metrics)
        return ErrorCode.NONE

    def _make_room(self) -> None:
        """Forget what one client pushed, the one that was silent for longest, if there are too many.

        If there are too many series, it is a client that is gone: none that is connected loses what it has.
        """
        if len(self._pushed_until_ms) > self._limits.instances_max:
            self._forget_pushed(next(iter(self._pushed_until_ms)))
        elif self._pushed.is_full:
            gone = next((each for each in self._pushed_until_ms if each not in self._instances), None)
            if gone is not None:
                self._forget_pushed(gone)

    def connection_closed(self, connection: Connection) -> None:
        """Forget the client instance of a connection that has ended."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self.forget_instance(instance_id)

    def forget_instance(self, instance_id: bytes) -> None:
        """Forget a client instance, if it is known. Its series stay until they expire, or others need the room."""
        self._instances.pop(instance_id, None)

    def remove_expired(self) -> Steps[None]:
        """Forget the client instances, and what they pushed, that have been silent for too long; in steps."""
        now_ms = self._now_ms()
        for instance_id in [key for key, instance in self._instances.items() if instance.expires_ms <= now_ms]:
            del self._instances[instance_id]
        self._by_connection = {key: each for key, each in self._by_connection.items() if each in self._instances}
        yield
        for instance_id in [key for key, until_ms in self._pushed_until_ms.items() if until_ms <= now_ms]:
            if self._pushed_until_ms.get(instance_id, inf) <= now_ms:  # it may have pushed since the last step
                self._forget_pushed(instance_id)
                yield

    def _forget_pushed(self, instance_id: bytes) -> None:
        self._pushed.remove(instance_id)
        del self._pushed_until_ms[instance_id]

    @property
    def instance_count(self) -> int:
        """The number of client instances that this broker knows."""
        return len(self._instances)

    @property
    def dropped_points(self) -> int:
        """The number of data points that were dropped because of the bounds on series."""
        return self._pushed.dropped

    def families(self) -> Iterator[PushedFamily]:
        """The metrics that clients have pushed."""
        return self._pushed.families()

    def _new_id(self) -> bytes:
        while True:
            instance_id = new_uuid(self._random_bytes)
            if instance_id not in self._instances:
                return instance_id

    def _instance(self, instance_id: bytes, client: TelemetryClient) -> Steps[ClientInstance]:
        """The client instance, with the subscription that is in force now."""
        instance = self._instances.get(instance_id)
        if instance is None or instance.version < self._version:
            version = self._version
            attributes = {"client_instance_id": encode_uuid(instance_id), **client.attributes}
            subscription = yield from ClientSubscription.compute(self._subscriptions, instance_id, attributes)
            instance = ClientInstance(subscription, version)
        self._instances.pop(instance_id, None)
        self._instances[instance_id] = instance
        if len(self._instances) > self._limits.instances_max:
            del self._instances[next(iter(self._instances))]
        if client.connection is not None and not client.connection.closed:
            self._bind(client.connection, instance_id)
        silence_ms = max(EXPIRY_MS_MIN, _INTERVALS_BEFORE_EXPIRY * instance.subscription.interval_ms)
        instance.expires_ms = self._now_ms() + silence_ms
        return instance

    def _bind(self, connection: Connection, instance_id: bytes) -> None:
        """Note the client instance of a connection. A connection has one, so that the bounds of one hold for it too.

        The series that it pushed as another one end.
        """
        former = self._by_connection.get(connection)
        self._by_connection[connection] = instance_id
        if former is not None and former != instance_id:
            self.forget_instance(former)
            if former in self._pushed_until_ms:
                self._forget_pushed(former)


def _identity(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes that tell clients apart in a series. Addresses and ports would make a new series too often."""
    names = ("client_id", "client_software_name", "client_software_version")
    return {name: attributes[name][:TEXT_MAX] for name in names if name in attributes}
