"""KIP-714 over sockets: what a client asks and pushes, as the subscriptions of the cluster change."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.telemetry import ClientTelemetry
from broker.wire.api.api_versions import ApiVersionsRequest
from broker.wire.api.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_config_resources import ListConfigResourcesRequest
from broker.wire.api.push_telemetry import PushTelemetryRequest
from broker.wire.errors import ErrorCode
from broker.wire.records.compression import Compression, compress
from tests.support.otlp import gauge, metrics_data, point
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected, only

CLIENT_METRICS = 16
SET, DELETE = 0, 1
PATIENCE_S = 10.0
TELEMETRY_APIS = {71, 72}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """A node with an HTTP listener: only such a node has a use for telemetry."""
    async with running_node(tmp_path, http_listener="127.0.0.1:0") as running:
        yield running
        assert not running.traced.of("handler_failed")


async def subscribe(client: WireClient, name: str = "subscription", **configs: str | None) -> tuple[int, str | None]:
    """Set configs of a subscription, or delete those that are None. Returns the error code and message."""
    altered = [
        AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=altered)
    answer = only((await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses)
    return answer.error_code, answer.error_message


async def subscription(client: WireClient, requested: list[str]) -> GetTelemetrySubscriptionsResponse:
    """A new client instance's subscription, once it has these metrics."""
    with trio.fail_after(PATIENCE_S):
        while True:
            response: GetTelemetrySubscriptionsResponse = await client.call(GetTelemetrySubscriptionsRequest(), 0)
            if response.requested_metrics == requested:
                return response
            await trio.sleep(0.01)


async def push(client: WireClient, given: GetTelemetrySubscriptionsResponse, value: float = 1.0) -> int:
    metrics = metrics_data(gauge("org.apache.kafka.consumer.lag", point(value, topic="t")))
    request = PushTelemetryRequest(
        client_instance_id=given.client_instance_id,
        subscription_id=given.subscription_id,
        compression_type=Compression.ZSTD,
        metrics=compress(Compression.ZSTD, metrics),
    )
    code: int = (await client.call(request, 0)).error_code
    return code


def telemetry_of(node: RunningNode) -> ClientTelemetry:
    assert node.node.broker is not None
    assert node.node.broker.telemetry is not None, "the node has an HTTP listener"
    return node.node.broker.telemetry


async def until_listed(client: WireClient, version: int, names: list[str]) -> None:
    request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS] if version else [])
    with trio.fail_after(PATIENCE_S):
        while True:
            listed = (await client.call(request, version)).config_resources
            if sorted(each.resource_name for each in listed) == names:
                return
            await trio.sleep(0.01)


async def test_client_pushes_the_metrics_that_it_is_asked_for(node: RunningNode, client: WireClient) -> None:
    software = ApiVersionsRequest(client_software_name="app-library", client_software_version="1.2")
    assert (await client.call(software, 3)).error_code == ErrorCode.NONE
    assert await subscribe(client, metrics="org.apache.kafka.", match="client_software_name=app-.*") == (0, None)
    given = await subscription(client, ["org.apache.kafka."])
    assert await push(client, given, 17.5) == ErrorCode.NONE
    assert await push(client, given, 18.5) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    family = next(telemetry_of(node).families())
    assert family.name == "kafka_client_consumer_lag"
    labels, value = next(family.series)
    assert value == 17.5
    for label in (
        'client_software_name="app-library"',
        'client_software_version="1.2"',
        'client_id="test"',
        'topic="t"',
    ):
        assert label in labels.split(",")


async def test_telemetry_is_advertised_if_there_is_a_listener_that_shows_it(tmp_path: Path) -> None:
    """Kafka advertises it if a metrics reporter exports it."""
    for listener, advertised in (({"http_listener": "127.0.0.1:0"}, TELEMETRY_APIS), ({}, set())):
        async with running_node(tmp_path, **listener) as running, connected(running.port) as client:
            response = await client.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            assert {api.api_key for api in response.api_keys} & TELEMETRY_APIS == advertised


async def test_changed_subscription_needs_another_id(client: WireClient) -> None:
    await subscribe(client, metrics="a.")
    given = await subscription(client, ["a."])
    await subscribe(client, metrics="b.")
    await subscription(client, ["b."])
    assert await push(client, given) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID


async def test_client_instance_is_forgotten_when_its_connection_ends(node: RunningNode) -> None:
    async with connected(node.port) as other:
        given = await subscription(other, [])
        assert await push(other, given) == ErrorCode.NONE
        assert telemetry_of(node).instance_count == 1
    with trio.fail_after(PATIENCE_S):
        while telemetry_of(node).instance_count:
            await trio.sleep(0.01)
    assert len(list(telemetry_of(node).families())) == 1, "what it has pushed stays for a while"


async def test_series_of_a_connection_end_when_it_names_another_instance(node: RunningNode) -> None:
    async with connected(node.port) as client, connected(node.port) as other:
        assert await push(other, await subscription(other, [])) == ErrorCode.NONE
        for _ in range(3):
            assert await push(client, await subscription(client, [])) == ErrorCode.NONE
        assert telemetry_of(node).instance_count == 2
        (family,) = telemetry_of(node).families()
        assert len(list(family.series)) == 2


async def test_subscriptions_are_listed_until_their_last_config_is_deleted(client: WireClient) -> None:
    await subscribe(client, "one", metrics="a.")
    await subscribe(client, "two", interval_ms="1000")
    for version in (0, 1):
        await until_listed(client, version, ["one", "two"])
    await subscribe(client, "one", metrics=None)
    await until_listed(client, 1, ["two"])


async def test_invalid_subscription_is_refused(client: WireClient) -> None:
    too_short = "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"
    assert await subscribe(client, interval_ms="99") == (ErrorCode.INVALID_REQUEST, too_short)
    illegal = "Illegal client matching pattern: app=x"
    assert await subscribe(client, match="app=x") == (ErrorCode.INVALID_CONFIG, illegal)
