"""A Spark session and a node, which all tests of the data source share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from broker.client import NewTopic, SyncAdmin
from broker.spark.clients import ADMINS, CONSUMERS, PRODUCERS, ClientPool
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.node_process import NodeProcess
from tests.support.spark_session import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node of one broker, with the development defaults."""
    node = NodeProcess(tmp_path_factory.mktemp("spark-node") / "data", {"log.retention.ms": "-1"})
    try:
        node.start()
        yield node.bootstrap
        node.stop()
    finally:
        node.discard()


@pytest.fixture(autouse=True)
def _no_idle_clients() -> Iterator[None]:
    """Close the clients that the source and the sink keep open for later tasks:
    they would try to reach the node of a test that has stopped.
    """
    yield
    pools: tuple[ClientPool[Any], ...] = (ADMINS, CONSUMERS, PRODUCERS)
    for pool in pools:
        pool.close_idle(idle_s=0)


@pytest.fixture
def kills(pytestconfig: pytest.Config, full: bool) -> int:
    """The number of kills. Requested before `cluster`, so that a skipped test starts none."""
    kills: int = pytestconfig.getoption("--kills") or (20 if full else 0)
    if not kills:
        pytest.skip("run with --full or --kills, or by `make spark-kills`")
    return kills


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three nodes that tests kill, with the topics `input` and `output` of three partitions."""
    with new_cluster(tmp_path, overrides={"broker.session.timeout.ms": "3000"}) as cluster:
        cluster.start()
        with SyncAdmin(cluster.bootstrap) as admin:
            topics = [NewTopic(name, num_partitions=3, replication_factor=3) for name in ("input", "output")]
            admin.create_topics(topics).raise_first()
        yield cluster
