"""Apache Kafka's Java client and tools, of its own jars: metrics that clients push (KIP-714), and loggers (KIP-412).

`make test-kafka-monitoring` runs these tests, and fetches the jars. Elsewhere they are skipped.
"""

import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio

from benchmarks import apache_kafka
from tests.clients.test_client_telemetry import INTERVAL_MS, subscribe, until_pushed
from tests.support.running_node import RunningNode, running_node

pytestmark = pytest.mark.clients

CONFIG_COMMAND = "org.apache.kafka.tools.ConfigCommand"


@pytest.fixture
async def node(tmp_path: Path, full: bool, request: pytest.FixtureRequest) -> AsyncIterator[RunningNode]:
    if not full and not request.config.getoption("--apache-kafka"):
        pytest.skip("runs with `make test-kafka-monitoring`")
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        pytest.skip(str(why))
    async with running_node(tmp_path, http_listener="127.0.0.1:0") as running:
        yield running
        assert not running.traced.of("handler_failed")


async def run(main: str, *arguments: str) -> str:
    """Run a main class of Kafka with its arguments. Returns its output, and fails with it if the tool fails."""
    line = apache_kafka.java(main, *arguments)
    done = await trio.run_process(line, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


async def tool(node: RunningNode, main: str, *arguments: str) -> str:
    """Run a tool that connects to the node."""
    return await run(main, "--bootstrap-server", f"127.0.0.1:{node.port}", *arguments)


async def test_java_producer_pushes_its_metrics(node: RunningNode) -> None:
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


async def test_kafka_client_metrics_alters_describes_lists_and_deletes(node: RunningNode) -> None:
    """`kafka-client-metrics.sh` from Kafka 4.4's own jars."""
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


async def test_kafka_configs_changes_client_metrics(node: RunningNode) -> None:
    configs = [CONFIG_COMMAND, "--entity-type", "client-metrics"]
    alter = [*configs, "--alter", "--entity-name", "s"]
    await tool(node, *alter, "--add-config", "interval.ms=1000,metrics=[a.,b.],match=[client_id=x]")
    described = await tool(node, *configs, "--describe", "--entity-name", "s")
    assert "interval.ms=1000 sensitive=false" in described
    assert "metrics=a.,b. sensitive=false" in described
    await tool(node, *alter, "--delete-config", "interval.ms,metrics,match")
    assert "interval.ms=1000" not in await tool(node, *configs, "--describe")


async def test_kafka_configs_changes_the_loggers_of_brokers_and_controllers(node: RunningNode) -> None:
    """KIP-412."""
    for option, port in (("--bootstrap-server", node.port), ("--bootstrap-controller", node.controller_port)):
        loggers = [CONFIG_COMMAND, option, f"127.0.0.1:{port}", "--entity-type", "broker-loggers", "--entity-name", "1"]
        assert "root=INFO sensitive=false" in await run(*loggers, "--describe")
        await run(*loggers, "--alter", "--add-config", "root=TRACE")
        assert "root=TRACE sensitive=false" in await run(*loggers, "--describe")
        await run(*loggers, "--alter", "--add-config", "root=INFO")
