"""`stats`: computes statistics of the records of topics."""

from collections.abc import Mapping, Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from broker.spark.jobs.cluster import Cluster
from broker.spark.jobs.load import is_destination, loaded
from broker.spark.jobs.results import JobFailed
from broker.spark.jobs.stats.measure import measure_topics
from broker.spark.jobs.topic_stats import TopicStats
from broker.spark.ranges import OffsetRange


def topic_stats(
    spark: SparkSession, topics: Sequence[str], cluster_options: Mapping[str, str], *, records_max: int | None = None
) -> list[TopicStats]:
    """The statistics of topics as they are now; of large ones, of the last `records_max` records or so.

    Raises JobFailed if a topic is missing.
    """
    cluster = Cluster(spark, cluster_options)
    ranges = [each for each in cluster.ranges(topics) if each.size]
    total = sum(each.size for each in ranges)
    if not total:
        return []
    if records_max is not None and total > records_max:
        ranges = [_last(each, max(1, each.size * records_max // total)) for each in ranges]
    return measure_topics(cluster.read(ranges, has_producers=True))


def file_stats(spark: SparkSession, source: str, topics: Sequence[str] = ()) -> list[TopicStats]:
    """The statistics of files that `load` has written, or of Parquet with the connector's columns; by default of all
    topics.

    Raises JobFailed if a column is missing.
    """
    frame = loaded(spark, source) if is_destination(spark, source) else spark.read.parquet(source)
    missing = [
        name for name in ("topic", "partition", "offset", "timestamp", "key", "value") if name not in frame.columns
    ]
    if missing:
        raise JobFailed(f"{source} has no column {', '.join(missing)}; it has {', '.join(frame.columns)}")
    if topics:
        frame = frame.where(F.col("topic").isin(*topics))
    return measure_topics(_with_bytes(frame))


def _last(whole: OffsetRange, size: int) -> OffsetRange:
    return attrs.evolve(whole, start=whole.end - size)


def _with_bytes(frame: DataFrame) -> DataFrame:
    """Values that were loaded as JSON count by their size as JSON."""
    if isinstance(frame.schema["value"].dataType, StructType):
        return frame.withColumn("value", F.to_json("value").cast("binary"))
    return frame
