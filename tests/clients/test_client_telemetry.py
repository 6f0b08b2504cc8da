"""KIP-714 with librdkafka, whose clients push their metrics. `test_kafka_monitoring.py` has those of Java."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from confluent_kafka import Consumer, Producer

from tests.broker.handlers.test_client_telemetry_on_the_wire import subscribe as set_subscription
from tests.support.running_node import RunningNode, running_node
from tests.support.scraped_metrics import scrape
from tests.support.wire_client import connected

pytestmark = pytest.mark.clients

PATIENCE_S = 60.0
INTERVAL_MS = 200


class PushedSeries(NamedTuple):
    labels: dict[str, str]
    value: float


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path, http_listener="127.0.0.1:0") as running:
        yield running
        assert not running.traced.of("handler_failed")


def bootstrap(node: RunningNode) -> str:
    return f"127.0.0.1:{node.port}"


async def pushed(node: RunningNode) -> dict[str, list[PushedSeries]]:
    """All series that clients have pushed, by name, as Prometheus sees them."""
    http = next(bound.port for bound in node.node.bound if bound.listener.name == "HTTP")
    found: dict[str, list[PushedSeries]] = {}
    for name, labels, value in (await scrape(http)).samples:
        if name.startswith("kafka_client_"):
            found.setdefault(name, []).append(PushedSeries(labels, value))
    return found


async def until_pushed(node: RunningNode, name: str, least: float) -> PushedSeries:
    """The first series of this name whose value is at least `least`."""
    with trio.fail_after(PATIENCE_S):
        while True:
            for series in (await pushed(node)).get(name, []):
                if series.value >= least:
                    return series
            await trio.sleep(0.05)


async def subscribe(node: RunningNode, **configs: str) -> None:
    async with connected(node.port) as client:
        assert await set_subscription(client, **configs) == (0, None)


async def test_librdkafka_pushes_the_metrics_of_producers_and_consumers(node: RunningNode) -> None:
    await subscribe(node, metrics="*", interval_ms=str(INTERVAL_MS))
    producer = Producer({"bootstrap.servers": bootstrap(node), "client.id": "app-producer", "log_level": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap(node),
            "client.id": "app-consumer",
            "group.id": "group",
            "log_level": 0,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["topic"])

    async def use(call: Callable[[], object]) -> None:
        while True:
            await trio.to_thread.run_sync(call)

    def produce() -> None:
        producer.produce("topic", b"value")
        producer.flush(0.05)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(use, produce)
        nursery.start_soon(use, partial(consumer.poll, 0.05))
        latency = await until_pushed(node, "kafka_client_producer_request_latency_avg", 0.01)
        assigned = await until_pushed(node, "kafka_client_consumer_coordinator_assigned_partitions", 1)
        nursery.cancel_scope.cancel()
    await trio.to_thread.run_sync(consumer.close)
    assert latency.labels["client_id"] == "app-producer"
    assert "rdkafka" in latency.labels["client_software_version"]
    assert (assigned.labels["client_id"], assigned.value) == ("app-consumer", 1)
    assert latency.labels["client_instance_id"] != assigned.labels["client_instance_id"]


async def test_librdkafka_pushes_the_metrics_of_its_subscription_and_follows_a_change(node: RunningNode) -> None:
    only_connections = "org.apache.kafka.producer.connection."
    await subscribe(node, metrics=only_connections, interval_ms=str(INTERVAL_MS), match="client_id=app-.*")
    matched = Producer({"bootstrap.servers": bootstrap(node), "client.id": "app-1", "log_level": 0})
    other = Producer({"bootstrap.servers": bootstrap(node), "client.id": "another", "log_level": 0})
    for producer in (matched, other):
        producer.produce("topic", b"value")
        await trio.to_thread.run_sync(producer.flush)
    created = await until_pushed(node, "kafka_client_producer_connection_creation_total", 0)
    assert created.labels["client_id"] == "app-1"
    assert all(name.startswith("kafka_client_producer_connection_") for name in await pushed(node))
    await subscribe(node, metrics="org.apache.kafka.producer.")
    matched.produce("topic", b"value")
    await trio.to_thread.run_sync(matched.flush)
    latency = await until_pushed(node, "kafka_client_producer_request_latency_max", 0)
    assert latency.labels["client_id"] == "app-1"
    assert node.node.broker is not None
    assert node.node.broker.telemetry.counts.unknown_subscriptions >= 1
    assert node.node.broker.telemetry.counts.invalid_pushes == 0
