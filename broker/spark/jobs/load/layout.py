"""The layout of records in a destination: `topic=<name>/date=<day>[/hour=<hour>]`, by event time in UTC.

A table has the same columns as partitions.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.files import JobFiles, StoredFile

_MICROSECONDS_PER_HOUR: Final = 3_600_000_000
_INFERENCE: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
_TYPES: Final = {"date": "date", "hour": "int"}


class Granularity(Enum):
    """How finely event time divides a topic."""

    DATE = "date"
    HOUR = "hour"

    @property
    def columns(self) -> list[str]:
        """The columns that name directories, outermost first."""
        return ["topic", "date"] if self is Granularity.DATE else ["topic", "date", "hour"]


def with_event_time(frame: DataFrame, event_time: Column, granularity: Granularity) -> DataFrame:
    """Add the columns of the layout.

    Whatever the session's time zone is, a record's day is its day in UTC: else another session would put the same
    record elsewhere.
    """
    hours = F.floor(F.unix_micros(event_time) / F.lit(_MICROSECONDS_PER_HOUR))
    frame = frame.withColumn("date", F.date_from_unix_date(F.floor(hours / F.lit(24)).cast("int")))
    return frame if granularity is Granularity.DATE else frame.withColumn("hour", F.pmod(hours, F.lit(24)).cast("int"))


def in_offset_order(frame: DataFrame, granularity: Granularity) -> DataFrame:
    """The rows of each task by their partition in the layout, then by offset: so are those of a file."""
    return frame.sortWithinPartitions(*granularity.columns, "partition", "offset")


def read_files(spark: SparkSession, files: JobFiles, which: Sequence[StoredFile]) -> DataFrame:
    """The records of some Parquet files of a destination. A column that some of them lack is null there."""
    inferred = spark.conf.get(_INFERENCE)
    # A topic named 007 is not the number 7.
    spark.conf.set(_INFERENCE, "false")
    try:
        reader = spark.read.option("basePath", files.root).option("mergeSchema", "true")
        frame = reader.parquet(*(files.uri(file.path) for file in which))
    finally:
        spark.conf.set(_INFERENCE, str(inferred))
    for name, kind in _TYPES.items():
        if name in frame.columns:
            frame = frame.withColumn(name, F.col(name).cast(kind))
    return frame
