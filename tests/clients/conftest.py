"""The brokers of the client tests.

Tests that only need a broker share one node, or use the broker that `KRAFT_TEST_BOOTSTRAP` (host:port) names. Tests
that kill, stop or measure a node start their own. They are skipped if that variable is set.
"""

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from tests.support.node_process import NodeProcess

BOOTSTRAP = "KRAFT_TEST_BOOTSTRAP"


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that all tests of the session share; it creates topics automatically, as by default."""
    given = os.environ.get(BOOTSTRAP)
    if given:
        yield given
        return
    node = NodeProcess(tmp_path_factory.mktemp("shared-node") / "data")
    try:
        node.start()
        yield node.bootstrap
        node.stop()
    finally:
        node.discard()


@pytest.fixture(autouse=True)
def _let_go_of_connections(caplog: pytest.LogCaptureFixture) -> None:
    """Drop log records of kafka-python, which refer to its connections and which pytest keeps beyond the end of a test.

    Otherwise the sockets of failed connections, which kafka-python leaves to the garbage collector, would be closed
    with a warning during a later test.
    """
    caplog.set_level(logging.CRITICAL, logger="kafka")


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """An unused topic name."""
    return f"{request.node.originalname.replace('_', '-')}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def kafka_jars(full: bool) -> None:
    """Apache Kafka's jars are in the cache; `apache_kafka.java` runs their main classes. Skips the test otherwise."""
    if shutil.which("java") is None:
        pytest.skip("no java on PATH")
    if not full and not apache_kafka.DIRECTORY.exists():
        pytest.skip("Apache Kafka's jars are not here: `make bench-kafka`, or --full, fetches them")
    try:
        apache_kafka.jars()
    except apache_kafka.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def new_node(tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Make a node of the test without starting it: `new_node(key=value, ...)`, with `_` in a key for `.`."""
    if os.environ.get(BOOTSTRAP):
        pytest.skip(f"starts and stops its own node, which {BOOTSTRAP} rules out")
    nodes: list[NodeProcess] = []

    def make(**overrides: object) -> NodeProcess:
        named = {key.replace("_", "."): str(value) for key, value in overrides.items()}
        nodes.append(NodeProcess(tmp_path / f"data-{len(nodes)}", named))
        return nodes[-1]

    yield make
    for node in nodes:
        node.discard()


@pytest.fixture(scope="module")
def groups_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node with short group timeouts. A killed member of the consumer protocol is removed after 6 s, or after the
    timeout of its group's configs, from 3 s on.
    """
    if os.environ.get(BOOTSTRAP):
        pytest.skip(f"needs groups that are configured otherwise, which {BOOTSTRAP} rules out")
    overrides = {
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "500",
        "group.consumer.min.session.timeout.ms": "3000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "300",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    node = NodeProcess(tmp_path_factory.mktemp("groups-node") / "data", overrides)
    try:
        node.start()
        yield node
        node.stop()
    finally:
        node.discard()
