"""Makes the data source known to a Spark session."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Registers the data source, so that `spark.read.format("kraft")` and the like find it."""
    from broker.spark.source import KraftDataSource

    spark.dataSource.register(KraftDataSource)
