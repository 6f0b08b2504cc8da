"""`load`: topics to Parquet files or a table, partitioned by topic and event time, exactly once and resumable."""

from broker.spark.jobs.load.destination import is_destination, loaded
from broker.spark.jobs.load.job import LoadProgress, load
from broker.spark.jobs.load.layout import Granularity
from broker.spark.jobs.load.options import LoadOptions, TableFormat
from broker.spark.jobs.load.values import ValueFormat

__all__ = [
    "Granularity",
    "LoadOptions",
    "LoadProgress",
    "TableFormat",
    "ValueFormat",
    "is_destination",
    "load",
    "loaded",
]
