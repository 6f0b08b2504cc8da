"""KIP-714: the broker's answers to GetTelemetrySubscriptions and PushTelemetry, in a time that the test sets."""

from collections.abc import Mapping
from random import Random
from typing import Any

import attrs
import pytest

from broker.server.slices import run
from broker.telemetry import ClientTelemetry, TelemetryClient, TelemetryLimits
from broker.telemetry.client_telemetry import DECOMPRESSED_MAX, EXPIRY_MS_MIN
from broker.telemetry.pushed_metrics import SeriesBounds
from broker.wire.api.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker.wire.api.push_telemetry import PushTelemetryRequest
from broker.wire.errors import ErrorCode
from broker.wire.records.compression import Compression, compress
from broker.wire.uuids import METADATA_TOPIC_ID, ZERO_UUID
from metadata.image import MetadataDelta, MetadataImage
from metadata.protocol import ConfigResourceType
from metadata.records import ConfigRecord
from tests.support.otlp import DELTA, counter, field, gauge, metrics_data, point
from tests.support.running_node import Traced

ATTRIBUTES = {"client_id": "app", "client_software_name": "librdkafka", "client_software_version": "2.10.0"}
ID = b"i" * 16
FIVE_MINUTES_MS = 300_000
PUSHED = metrics_data(gauge("org.apache.kafka.queue", point(3)))


class World:
    """A broker's telemetry with a clock of the test, and the metadata that it follows."""

    def __init__(self, push_bytes_max: int = 1024, instances_max: int = 10, series_max: int = 100) -> None:
        self.now_ms = 0.0
        self.traced = Traced()
        bounds = SeriesBounds(series=series_max, families=100, text_bytes=1 << 20)
        limits = TelemetryLimits(push_bytes_max, instances_max, attrs.evolve(bounds, series=2), bounds)
        self.telemetry = ClientTelemetry(limits, lambda: self.now_ms, Random(1).randbytes, self.traced)
        self._image = MetadataImage()

    def subscribe(self, name: str = "all", **configs: str | None) -> None:
        """Change some configs of a subscription; None removes one."""
        delta = MetadataDelta(self._image)
        kind = ConfigResourceType.CLIENT_METRICS
        delta.replay(
            ConfigRecord(resource_type=kind, resource_name=name, name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        )
        self._image = delta.apply(self._image.offset + 1)
        self.telemetry.publish(delta, self._image)

    def get(
        self, instance: bytes = ID, attributes: Mapping[str, str] = ATTRIBUTES
    ) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance)
        return run(self.telemetry.get_subscriptions(request, TelemetryClient(None, attributes)))

    def push(self, instance: bytes = ID, metrics: bytes = PUSHED, **fields: Any) -> int:
        """The error code of a push, by default with the right subscription id."""
        if "subscription_id" not in fields:
            fields["subscription_id"] = self.subscription_id(instance)
        request = PushTelemetryRequest(client_instance_id=instance, metrics=metrics, **fields)
        return run(self.telemetry.push(request, TelemetryClient(None, ATTRIBUTES))).error_code

    def subscription_id(self, instance: bytes) -> int:
        """The id that any broker with the same subscriptions has for the client."""
        other = World()
        delta = MetadataDelta(MetadataImage())
        for resource, configs in self._image.configs.resources.items():
            delta.replay(
                ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
                for name, value in configs.items()
            )
        other.telemetry.publish(delta, delta.apply(0))
        return other.get(instance).subscription_id

    def series(self) -> dict[str, list[float]]:
        return {family.name: [value for _, value in family.series] for family in self.telemetry.families()}


@pytest.fixture
def world() -> World:
    return World()


def test_client_without_a_subscription_pushes_nothing_and_asks_again_after_five_minutes(world: World) -> None:
    response = world.get(ZERO_UUID)
    assert (response.error_code, response.requested_metrics) == (ErrorCode.NONE, [])
    assert response.client_instance_id not in (ZERO_UUID, METADATA_TOPIC_ID)
    assert response.push_interval_ms == FIVE_MINUTES_MS
    assert response.telemetry_max_bytes == 1024
    assert response.delta_temporality
    assert response.accepted_compression_types == [4, 3, 1, 2], "zstd, lz4, gzip, snappy, as Kafka orders them"
    assert world.get(ZERO_UUID).client_instance_id != response.client_instance_id


def test_client_keeps_the_id_that_it_has(world: World) -> None:
    assert world.get(ID).client_instance_id == ID


def test_matching_subscriptions_are_joined_with_the_shortest_interval(world: World) -> None:
    world.subscribe("one", metrics="b.,a.", interval_ms="2000", match="client_software_name=lib.*")
    world.subscribe("two", metrics="a.,c.", interval_ms="1000", match="client_id=app,client_software_version=2\\..*")
    world.subscribe("other", metrics="d.", interval_ms="100", match="client_id=ap")
    world.subscribe("port", metrics="e.", interval_ms="100", match="client_source_port=1")
    response = world.get()
    assert (response.requested_metrics, response.push_interval_ms) == (["a.", "b.", "c."], 1000)


def test_asterisk_subscribes_all_metrics(world: World) -> None:
    world.subscribe("one", metrics="a.")
    world.subscribe("two", metrics="*")
    assert world.get().requested_metrics == ["*"]


def test_patterns_see_other_characters_than_ascii(world: World) -> None:
    world.subscribe(metrics="*", match="client_id=caf.")
    assert world.get(attributes={"client_id": "café"}).requested_metrics == ["*"]
    assert world.get(b"j" * 16, attributes={"client_id": "cafés"}).requested_metrics == []
    assert world.get(b"k" * 16, attributes={}).requested_metrics == []


def test_subscription_id_follows_from_the_configs_and_the_client(world: World) -> None:
    world.subscribe(metrics="a.", interval_ms="1000")
    other = World()
    other.subscribe("another name", metrics="a.", interval_ms="1000")
    assert world.get(ID).subscription_id == other.get(ID).subscription_id
    ids = {world.get(b"j" * 16).subscription_id, world.get(b"k" * 16).subscription_id}
    world.subscribe(interval_ms="2000")
    ids.add(world.get(b"j" * 16).subscription_id)
    world.subscribe(metrics="b.")
    ids.add(world.get(b"j" * 16).subscription_id)
    assert len(ids) == 4
    assert all(-(2**31) <= each < 2**31 for each in ids)


def test_client_that_asks_again_within_its_interval_is_throttled(world: World) -> None:
    world.subscribe(metrics="*", interval_ms="1000")
    assert world.get().error_code == ErrorCode.NONE
    world.now_ms = 999
    response = world.get()
    assert (response.error_code, response.client_instance_id) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ZERO_UUID)
    world.now_ms = 1000
    assert world.get().error_code == ErrorCode.NONE
    assert world.telemetry.counts.throttled == 1


def test_changed_subscription_is_given_at_once(world: World) -> None:
    world.subscribe(metrics="a.", interval_ms="1000")
    before = world.get()
    world.subscribe(metrics="b.")
    after = world.get()
    assert (after.error_code, after.requested_metrics) == (ErrorCode.NONE, ["b."])
    assert world.push(subscription_id=before.subscription_id) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert world.get().error_code == ErrorCode.NONE, "a client asks at once after this error"
    assert world.push(subscription_id=after.subscription_id) == ErrorCode.NONE
    world.subscribe(metrics=None, interval_ms=None)
    assert world.get().requested_metrics == []
    assert world.telemetry.counts.unknown_subscriptions == 1


def test_first_push_may_come_at_any_time_and_later_ones_once_in_an_interval(world: World) -> None:
    world.subscribe(metrics="*", interval_ms="1000")
    world.get()
    world.now_ms = 500
    assert world.push() == ErrorCode.NONE
    world.now_ms = 1499
    assert world.push() == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.now_ms = 1500
    assert world.push() == ErrorCode.NONE
    assert world.series() == {"kafka_client_queue": [3]}


def test_push_to_a_broker_that_did_not_give_the_subscription_is_taken(world: World) -> None:
    world.subscribe(metrics="*", interval_ms="1000")
    assert world.push() == ErrorCode.NONE


def test_last_push_of_a_client_is_taken_at_any_time_and_none_after_it(world: World) -> None:
    world.subscribe(metrics="*", interval_ms="1000")
    assert world.push() == ErrorCode.NONE
    assert world.push(terminating=True) == ErrorCode.NONE
    world.now_ms = 1000
    assert world.push() == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("instance", [ZERO_UUID, METADATA_TOPIC_ID])
def test_push_without_a_client_instance_id_is_refused(world: World, instance: bytes) -> None:
    assert world.push(instance) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("compression_type", [-1, 5, 127])
def test_unknown_compression_is_refused(world: World, compression_type: int) -> None:
    assert world.push(compression_type=compression_type) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert world.get().error_code == ErrorCode.NONE, "a client asks at once after this error"


@pytest.mark.parametrize("codec", list(Compression))
def test_pushes_of_each_compression_are_read(world: World, codec: Compression) -> None:
    assert world.push(metrics=compress(codec, PUSHED), compression_type=codec) == ErrorCode.NONE
    assert world.series() == {"kafka_client_queue": [3]}


def test_too_large_push_is_refused_by_its_size_as_it_is_sent(world: World) -> None:
    large = PUSHED + field(99, bytes(2000))
    assert world.push(metrics=large) == ErrorCode.TELEMETRY_TOO_LARGE
    world.now_ms = FIVE_MINUTES_MS
    compressed = compress(Compression.GZIP, large)
    assert world.push(metrics=compressed, compression_type=Compression.GZIP) == ErrorCode.NONE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_push_that_decompresses_to_too_much_is_refused(codec: Compression) -> None:
    world = World(push_bytes_max=1 << 20)
    bomb = compress(codec, bytes(DECOMPRESSED_MAX + 1))
    assert world.push(metrics=bomb, compression_type=codec) == ErrorCode.TELEMETRY_TOO_LARGE
    assert world.telemetry.counts.invalid_pushes == 1


@pytest.mark.parametrize(
    ("metrics", "compression_type"), [(b"\x0a\x7f", 0), (b"no gzip", 1), (b"\xff" * 9, 2), (b"no zstd", 4)]
)
def test_malformed_push_is_refused(world: World, metrics: bytes, compression_type: int) -> None:
    assert world.push(metrics=metrics, compression_type=compression_type) == ErrorCode.INVALID_RECORD
    assert (world.telemetry.counts.pushes, world.telemetry.counts.invalid_pushes) == (1, 1)
    assert world.series() == {}


def test_empty_push_is_taken(world: World) -> None:
    assert world.push(metrics=b"") == ErrorCode.NONE
    assert world.telemetry.counts.pushes == 0


def test_client_and_its_metrics_expire_after_three_intervals(world: World) -> None:
    world.subscribe(metrics="*", interval_ms="30000")
    assert world.push() == ErrorCode.NONE
    world.now_ms = 89_999
    run(world.telemetry.remove_expired())
    assert (world.telemetry.instance_count, len(world.series())) == (1, 1)
    world.now_ms = 90_000
    run(world.telemetry.remove_expired())
    assert (world.telemetry.instance_count, world.series()) == (0, {})


def test_client_with_a_short_interval_expires_after_a_minute(world: World) -> None:
    world.subscribe(metrics="*", interval_ms="100")
    world.get()
    world.now_ms = EXPIRY_MS_MIN - 1
    run(world.telemetry.remove_expired())
    assert world.telemetry.instance_count == 1
    world.now_ms = EXPIRY_MS_MIN
    run(world.telemetry.remove_expired())
    assert world.telemetry.instance_count == 0


def test_number_of_clients_is_bounded_and_the_most_silent_makes_room() -> None:
    world = World(instances_max=2)
    for instance in (b"1" * 16, b"2" * 16, b"1" * 16, b"3" * 16):
        world.now_ms += FIVE_MINUTES_MS
        assert world.push(instance) == ErrorCode.NONE
    assert world.telemetry.instance_count == 2
    assert world.series() == {"kafka_client_queue": [3, 3]}
    world.now_ms += 1
    assert world.get(b"3" * 16).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert world.get(b"2" * 16).error_code == ErrorCode.NONE, "it is forgotten"


def test_clients_that_are_gone_make_room_for_the_series_of_others() -> None:
    world = World(series_max=4)
    world.subscribe(metrics="*", interval_ms="30000")
    pushed = metrics_data(gauge("a", point(1)), gauge("b", point(1)))
    for number, instance in enumerate((b"1" * 16, b"2" * 16)):
        world.now_ms = number * 50_000.0
        assert world.push(instance, pushed) == ErrorCode.NONE
    assert world.push(b"3" * 16, pushed) == ErrorCode.NONE
    assert (world.telemetry.dropped_points, len(world.series()["kafka_client_a"])) == (2, 2), "both are still here"
    world.now_ms = 90_000.0
    world.telemetry.forget_instance(b"1" * 16)
    assert world.push(b"3" * 16, pushed) == ErrorCode.NONE
    assert world.telemetry.dropped_points == 2
    assert len(world.series()["kafka_client_a"]) == 2


@pytest.mark.parametrize("codec", list(Compression))
def test_million_empty_messages_are_too_large(codec: Compression) -> None:
    world = World(push_bytes_max=4 << 20)
    empties = compress(codec, field(1, b"") * 1_000_000)
    assert world.push(metrics=empties, compression_type=codec) == ErrorCode.TELEMETRY_TOO_LARGE
    assert (world.telemetry.counts.pushes, world.telemetry.counts.invalid_pushes) == (1, 1)


def test_increments_add_up_over_pushes(world: World) -> None:
    world.subscribe(metrics="*", interval_ms="1000")
    for _ in range(3):
        assert world.push(metrics=metrics_data(counter("sent", point(4), temporality=DELTA))) == ErrorCode.NONE
        world.now_ms += 1000
    assert world.series() == {"kafka_client_sent_total": [12]}


def test_series_have_the_identity_of_the_client(world: World) -> None:
    assert world.push() == ErrorCode.NONE
    family = next(world.telemetry.families())
    labels, _ = next(family.series)
    identity = {"client_instance_id": "aWlpaWlpaWlpaWlpaWlpaQ", **ATTRIBUTES}
    assert labels == ",".join(f'{name}="{value}"' for name, value in identity.items())


def test_config_that_this_node_does_not_understand_is_ignored_and_reported(world: World) -> None:
    world.subscribe("new", metrics="*", interval_ms="often")
    assert world.get().requested_metrics == []
    assert [fields["subscription"] for fields in world.traced.of("client_metrics_ignored")] == ["new"]
