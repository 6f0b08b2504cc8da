"""KIP-714 with real clients: librdkafka and Java's clients push their metrics, and Kafka's tools say which.

The tests of Java's clients run where Apache Kafka's jars are (`make bench-kafka` fetches them), and say that they are
skipped elsewhere.
"""

import subprocess
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from confluent_kafka import Consumer, Producer

from benchmarks import apache_kafka
from tests.broker.handlers.test_client_telemetry_on_the_wire import subscribe as set_subscription
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import connected

pytestmark = pytest.mark.clients

PATIENCE_S = 60.0
INTERVAL_MS = 200


class PushedSeries(NamedTuple):
    labels: dict[str, str]
    value: float


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with running_node(tmp_path) as running:
        yield running
        assert not running.traced.of("handler_failed")


def bootstrap(node: RunningNode) -> str:
    return f"127.0.0.1:{node.port}"


def pushed(node: RunningNode) -> dict[str, list[PushedSeries]]:
    """All series that clients have pushed, by name."""
    assert node.node.broker is not None
    return {
        family.name: [
            PushedSeries(dict(zip(family.label_names, labels, strict=True)), value) for labels, value in series
        ]
        for family in node.node.broker.telemetry.families()
        if (series := list(family.series))
    }


async def until_pushed(node: RunningNode, name: str, least: float) -> PushedSeries:
    """The first series of this name whose value is at least `least`."""
    with trio.fail_after(PATIENCE_S):
        while True:
            for series in pushed(node).get(name, []):
                if series.value >= least:
                    return series
            await trio.sleep(0.05)


async def tool(node: RunningNode, main: str, *arguments: str) -> str:
    """Run a main class of Kafka with its arguments. Returns its output, and fails with it if the tool fails."""
    line = apache_kafka.java(main, "--bootstrap-server", bootstrap(node), *arguments)
    done = await trio.run_process(line, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


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
    assert all(name.startswith("kafka_client_producer_connection_") for name in pushed(node))
    await subscribe(node, metrics="org.apache.kafka.producer.")
    matched.produce("topic", b"value")
    await trio.to_thread.run_sync(matched.flush)
    latency = await until_pushed(node, "kafka_client_producer_request_latency_max", 0)
    assert latency.labels["client_id"] == "app-1"
    assert node.node.broker is not None
    assert node.node.broker.telemetry.counts.unknown_subscriptions >= 1
    assert node.node.broker.telemetry.counts.invalid_pushes == 0


async def test_java_producer_pushes_its_metrics(kafka_jars: None, node: RunningNode) -> None:
    await subscribe(node, metrics="*", interval_ms=str(INTERVAL_MS))
    options = ["--topic", "topic", "--num-records", "300", "--record-size", "10", "--throughput", "100"]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(tool, node, "org.apache.kafka.tools.ProducerPerformance", *options))
        # No push has that many, so increments add up.
        sent = await until_pushed(node, "kafka_client_producer_record_send_total", 150)
    assert sent.labels["client_software_name"] == "apache-kafka-java"
    assert sent.labels["client_software_version"] == apache_kafka.KAFKA_VERSION
    assert sent.value <= 300
    assert node.node.broker is not None
    assert node.node.broker.telemetry.counts.invalid_pushes == 0


async def test_kafka_client_metrics_alters_describes_lists_and_deletes(kafka_jars: None, node: RunningNode) -> None:
    """`kafka-client-metrics.sh` from Kafka 4.3's own jars."""
    command = "org.apache.kafka.tools.ClientMetricsCommand"
    altered = ["--name", "slow", "--interval", "1000", "--metrics", "a.,b.", "--match", "client_id=x.*"]
    output = await tool(node, command, "--alter", *altered)
    assert output == "Altered client metrics config for slow.\n"
    assert await tool(node, command, "--list") == "slow\n"
    described = (await tool(node, command, "--describe", "--name", "slow")).splitlines()
    assert described[0] == "Client metrics configs for slow are:"
    assert sorted(described[1:]) == ["  interval.ms=1000", "  match=client_id=x.*", "  metrics=a.,b."]
    assert await tool(node, command, "--delete", "--name", "slow") == "Deleted client metrics config for slow.\n"
    assert await tool(node, command, "--list") == "\n"


async def test_kafka_configs_changes_client_metrics(kafka_jars: None, node: RunningNode) -> None:
    configs = ["kafka.admin.ConfigCommand", "--entity-type", "client-metrics"]
    alter = [*configs, "--alter", "--entity-name", "s"]
    await tool(node, *alter, "--add-config", "interval.ms=1000,metrics=[a.,b.],match=[client_id=x]")
    described = await tool(node, *configs, "--describe", "--entity-name", "s")
    assert "interval.ms=1000 sensitive=false" in described
    assert "metrics=a.,b. sensitive=false" in described
    await tool(node, *alter, "--delete-config", "interval.ms,metrics,match")
    assert "interval.ms=1000" not in await tool(node, *configs, "--describe")
