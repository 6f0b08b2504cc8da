"""A Spark session with the packages for tables and for Avro; `make test-spark-tables` downloads them."""

from collections.abc import Callable, Iterator, Mapping

import pyspark
import pytest
from pyspark.sql import SparkSession

from benchmarks import java_packages
from benchmarks.apache_kafka import Unavailable
from tests.support.job_topics import JobTopics
from tests.support.spark_session import spark_session


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> JobTopics:
    """Topics of one node, for all tests. Each test uses names of its own."""
    return JobTopics(bootstrap)


@pytest.fixture(scope="session")
def table_configs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The configs of a session for tables: the jars, and a catalog "lake" of Iceberg's, in a directory."""
    if not request.config.getoption("--spark-tables"):
        pytest.skip("needs Spark's packages for tables: make test-spark-tables")
    packages = java_packages.TABLES.get(pyspark.__version__)
    if packages is None:
        pytest.skip(f"there are no packages for PySpark {pyspark.__version__}: make test-spark-tables")
    try:
        jars = java_packages.jars(tuple(packages.values()))
    except Unavailable as why:
        pytest.skip(str(why))
    configs = {"spark.jars": ",".join(jars)}
    if "delta" in packages:
        configs |= {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # As few tasks as small tables need.
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    if "iceberg" in packages:
        configs |= {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(tmp_path_factory.mktemp("warehouse")),
        }
    return configs


@pytest.fixture
def needs(table_configs: Mapping[str, str]) -> Callable[[str], None]:
    """Skip a test if this version of PySpark has no such package."""

    def check(package: str) -> None:
        if package not in java_packages.TABLES[pyspark.__version__]:
            pytest.skip(f"there is no package for {package} and PySpark {pyspark.__version__}")

    return check


@pytest.fixture(scope="session")
def spark(table_configs: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark"), table_configs) as session:
        yield session
