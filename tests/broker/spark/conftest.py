"""A Spark session and a node, which all tests of the data source share."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

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
