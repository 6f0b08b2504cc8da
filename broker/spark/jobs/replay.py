"""`replay`: writes records from files to a topic, in order per key, at a bounded rate.

All records of a key are written by one task, in the order in which they are sorted, by an idempotent producer. A task
that fails is run again, so a record may be written twice (at least once); nothing is lost.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import attrs
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from broker.spark.jobs.cluster import Cluster
from broker.spark.jobs.load import is_destination, loaded
from broker.spark.jobs.results import JobFailed, ReplaySummary

# With a rate, so many portions a second: a short wait after each is closer to the rate than a long one now and then.
_PORTIONS_PER_SECOND: Final = 20
_ORDER: Final = ("topic", "partition", "offset")
# A record without a key has no order to keep. These are spread over as many keys.
_SPREAD: Final = 1_024


@attrs.frozen
class ReplayOptions:
    """`source` is a destination of `load`, or a directory of Parquet with columns `key` and `value`.

    `topic` is where the records go, and `where` a condition in SQL on those to replay. `rate` is of records a second in
    all; None means as fast as possible. `order_by` are the columns that order the records of a key; by default topic,
    partition and offset, as far as there are such columns. `keeps_partitions` writes each record to the partition that
    it was in.
    """

    source: str
    topic: str
    where: str | None = None
    rate: float | None = None
    order_by: tuple[str, ...] | None = None
    keeps_partitions: bool = False


def replay(spark: SparkSession, options: ReplayOptions, cluster_options: Mapping[str, str]) -> ReplaySummary:
    """Write the records of `options.source` to `options.topic`. Raises JobFailed."""
    began = time.monotonic()
    frame = _source(spark, options.source)
    if options.where is not None:
        frame = frame.where(options.where)
    tasks = spark.sparkContext.defaultParallelism
    ordered = _ordered(frame, options, tasks)
    written = ordered.select(*_sink_columns(ordered, options))
    if options.rate is not None:
        # Each task has its share of the rate, so all of them have to run at the same time: there is one for each core.
        paced = written.rdd.mapPartitions(_paced(options.rate / tasks))
        written = spark.createDataFrame(paced, written.schema, verifySchema=False)
    records = frame.count()
    Cluster(spark, cluster_options).append(written, options.topic)
    return ReplaySummary(records, round(time.monotonic() - began, 3))


def _source(spark: SparkSession, source: str) -> DataFrame:
    return loaded(spark, source) if is_destination(spark, source) else spark.read.parquet(source)


def _ordered(frame: DataFrame, options: ReplayOptions, tasks: int) -> DataFrame:
    order = options.order_by or tuple(name for name in _ORDER if name in frame.columns)
    missing = [name for name in ("value", *order) if name not in frame.columns]
    if missing:
        raise JobFailed(f"{options.source} has no column {', '.join(missing)}; it has {', '.join(frame.columns)}")
    if options.keeps_partitions:
        if "partition" not in frame.columns:
            raise JobFailed(f"{options.source} has no column partition to keep")
        return frame.repartition(tasks, "partition").sortWithinPartitions(*order)
    spread = F.pmod(F.xxhash64(*order), F.lit(_SPREAD)).cast("string") if order else F.lit("")
    key = F.coalesce(F.col("key").cast("binary"), spread.cast("binary")) if "key" in frame.columns else spread
    return frame.repartition(tasks, key).sortWithinPartitions(*order)


def _sink_columns(frame: DataFrame, options: ReplayOptions) -> list[Column]:
    columns = [_bytes(frame, name).alias(name) for name in ("key", "value") if name in frame.columns]
    if "headers" in frame.columns:
        columns.append(F.col("headers"))
    if options.keeps_partitions:
        columns.append(F.col("partition"))
    return columns


def _bytes(frame: DataFrame, name: str) -> Column:
    """Values that were loaded as JSON are objects; they become JSON again."""
    if isinstance(frame.schema[name].dataType, StructType):
        return F.to_json(name).cast("binary")
    return F.col(name).cast("binary")


def _paced(rate: float) -> Callable[[Iterable[Row]], Iterable[Row]]:
    """Passes on at most `rate` rows a second."""
    portion = max(1, int(rate / _PORTIONS_PER_SECOND))

    def paced(rows: Iterable[Row]) -> Iterator[Row]:
        began = time.monotonic()
        for number, row in enumerate(rows):
            if not number % portion:
                time.sleep(max(0.0, number / rate - (time.monotonic() - began)))
            yield row

    return paced
