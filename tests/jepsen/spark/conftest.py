"""The Spark session of the tests."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_session import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
