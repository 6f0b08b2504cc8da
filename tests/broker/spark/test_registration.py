"""The Python of Spark's workers in a session that is told of the source."""

import sys

import pytest
from pyspark.sql import SparkSession

from broker.spark import register
from tests.support.spark_topics import create_topic, fill_topic


def test_workers_run_this_python_where_nothing_names_another(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first `python3` on the PATH may be outside of the virtual environment that runs the program."""
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    register(spark)
    assert spark.sparkContext.pythonExec == sys.executable
    topic = create_topic(bootstrap)
    fill_topic(bootstrap, topic, 3)
    read = spark.read.format("kraft").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    assert read.load().count() == 3


def test_a_python_that_was_chosen_stays(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    register(spark)
    assert spark.sparkContext.pythonExec == "python3"
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/opt/python/bin/python")
    register(spark)
    assert spark.sparkContext.pythonExec == "/opt/python/bin/python"
