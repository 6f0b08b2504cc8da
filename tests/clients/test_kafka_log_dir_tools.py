"""Apache Kafka's own kafka-reassign-partitions.sh and ours move replicas between the log directories of our node."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trio

from benchmarks import apache_kafka
from broker.client import Admin, NewTopic, Producer
from tests.support.node_process import NodeProcess

pytestmark = pytest.mark.clients

MAINS = {
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
}
WITHIN_S = 60.0

Run = Callable[..., list[str]]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "node", {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"})
    try:
        node.start()
        yield node
        node.stop()
    finally:
        node.discard()


@pytest.fixture(params=["ours", "kafka's"])
def run(request: pytest.FixtureRequest, node: NodeProcess, full: bool) -> Run:
    """Runs a tool of either side against the node, and returns the lines that it prints."""
    is_kafkas = request.param == "kafka's"
    if is_kafkas:
        if not full:
            pytest.skip("six JVMs take a while: --full starts them")
        request.getfixturevalue("kafka_jars")

    def run_tool(name: str, *words: str, expected: int = 0) -> list[str]:
        options: Sequence[str] = ["--bootstrap-server", node.bootstrap, *words]
        own = [sys.executable, "-m", "broker.cli.kafka_tools", name, *options]
        line = apache_kafka.java(MAINS[name], *options) if is_kafkas else own
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == expected, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run_tool


async def prepare(node: NodeProcess) -> None:
    async with Admin(node.bootstrap) as admin:
        (await admin.create_topics([NewTopic("orders", 1)])).raise_first()
    async with Producer(node.bootstrap) as producer:
        await producer.send("orders", b"value", partition=0)


def test_either_tool_moves_a_replica_and_verifies_it(run: Run, node: NodeProcess, tmp_path: Path) -> None:
    trio.run(prepare, node)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    plan = tmp_path / "plan.json"
    entry = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [two]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    reassign = ("kafka-reassign-partitions", "--reassignment-json-file", str(plan))

    lines = run(*reassign, "--execute", "--replica-alter-log-dirs-throttle", "0")
    assert json.loads(lines[2])["partitions"][0]["log_dirs"] == [one]
    assert lines[5:] == [
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed.",
        "The replica-alter-dir throttle limit was set to 0 B/s",
        "Successfully started partition reassignment for orders-0",
        f"Successfully started moving log directory to {two} for replica orders-0 with broker 1 ",
    ]
    assert run(*reassign, "--verify")[2:] == ["Reassignment of replica orders-0-1 is still in progress."]
    document = json.loads(run("kafka-log-dirs", "--describe", "--topic-list", "orders")[-1])
    futures = {
        each["logDir"]: [(replica["isFuture"], replica["offsetLag"]) for replica in each["partitions"]]
        for each in document["brokers"][0]["logDirs"]
    }
    assert futures == {one: [(False, 0)], two: [(True, 1)]}
    assert run(*reassign, "--cancel", "--preserve-throttles")[1] == (
        f"Successfully started moving log directory to {one} for replica orders-0 with broker 1 "
    )
    assert run(*reassign, "--verify")[2] == (
        f"Partition orders-0 on broker 1 is not being moved from log dir {one} to {two}."
    )
    run(*reassign, "--execute")
    deadline = time.monotonic() + WITHIN_S
    while run(*reassign, "--verify")[2] != "Reassignment of replica orders-0-1 completed successfully.":
        assert time.monotonic() < deadline
