"""The Python of Spark's workers in a session that is told of the source."""

import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from broker.spark import register
from tests.support.spark_topics import create_topic, fill_topic


@pytest.fixture
def patches(spark: SparkSession) -> Iterator[pytest.MonkeyPatch]:
    """Patches for one test. The source is registered again after them: it keeps the Python of its registration."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    register(spark)


def test_workers_run_this_python_where_nothing_names_another(
    spark: SparkSession, bootstrap: str, patches: pytest.MonkeyPatch
) -> None:
    """The first `python3` on the PATH may be outside of the virtual environment that runs the program."""
    patches.delenv("PYSPARK_PYTHON")
    patches.setattr(spark.sparkContext, "pythonExec", "python3")
    register(spark)
    assert spark.sparkContext.pythonExec == sys.executable
    topic = create_topic(bootstrap)
    fill_topic(bootstrap, topic, 3)
    read = spark.read.format("kraft").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    assert read.load().count() == 3


def test_a_python_that_was_chosen_stays(spark: SparkSession, patches: pytest.MonkeyPatch) -> None:
    patches.setattr(spark.sparkContext, "pythonExec", "python3")
    register(spark)
    assert spark.sparkContext.pythonExec == "python3"
    patches.delenv("PYSPARK_PYTHON")
    patches.setattr(spark.sparkContext, "pythonExec", "/opt/python/bin/python")
    register(spark)
    assert spark.sparkContext.pythonExec == "/opt/python/bin/python"
