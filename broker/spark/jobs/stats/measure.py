"""Measures the records of topics."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.stats.sequences import measure_sequences
from broker.spark.jobs.topic_stats import (
    KeyCount,
    Lateness,
    Measures,
    PartitionStats,
    RatePoint,
    SequenceCounts,
    Sizes,
    TopicStats,
)
from broker.spark.schema import PRODUCER_COLUMNS

_TOP_KEYS: Final = 10
_KEY_BYTES: Final = 64
_KEY_ERROR: Final = 0.02
_QUANTILE_ACCURACY: Final = 1_000
# Points of a rate's plot, at most about so many.
_POINTS: Final = 120
_SECOND_MS: Final = 1_000
_INTERVALS_MS: Final = tuple(
    seconds * _SECOND_MS for seconds in (1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000)
)

# By topic and partition; None stands for the whole topic.
_Sequences: TypeAlias = dict[tuple[str, int | None], SequenceCounts]
_NO_PRODUCER: Final = SequenceCounts(0, 0, 0, 0, 0)


def measure_topics(frame: DataFrame) -> list[TopicStats]:
    """The statistics of each topic in a frame with the connector's columns, sorted by topic.

    Where the frame has the columns of producers, too, their sequence numbers are looked at.
    """
    records = _measured_columns(frame).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        topics = {row.topic: row for row in _aggregate(records, "topic").collect()}
        partitions = _grouped(_aggregate(records, "topic", "partition").orderBy("topic", "partition").collect())
        keys = _grouped(_top_keys(records).collect())
        spans = [row.last_ms - row.first_ms for row in topics.values() if row.first_ms is not None]
        interval_ms = interval_of(max(spans, default=0))
        rates = _grouped(_rates(records, interval_ms).collect())
        sequences = _sequences(records) if _has_producers(frame) else None
    finally:
        records.unpersist()
    return [
        _topic(topics[name], partitions[name], keys.get(name, []), rates.get(name, []), interval_ms, sequences)
        for name in sorted(topics)
    ]


def interval_of(span_ms: int) -> int:
    """The shortest interval that divides a span into no more points than a plot has room for."""
    return next((each for each in _INTERVALS_MS if span_ms <= each * _POINTS), _INTERVALS_MS[-1])


def _measured_columns(frame: DataFrame) -> DataFrame:
    """The measured columns of each record, without its value."""
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    value_bytes = F.octet_length(F.col("value"))
    narrow = frame.select(
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("time_ms"),
        F.xxhash64("key").alias("key_hash"),
        F.when(F.col("key").isNotNull(), F.substring("key", 1, _KEY_BYTES)).alias("key"),
        F.coalesce(F.octet_length(F.col("key")), F.lit(0)).alias("key_bytes"),
        value_bytes.alias("value_bytes"),
        *(PRODUCER_COLUMNS if _has_producers(frame) else ()),
    )
    return narrow.select(
        "*",
        F.greatest(F.max("time_ms").over(before) - F.col("time_ms"), F.lit(0)).alias("late_ms"),
        (F.col("offset") - F.lag("offset").over(in_order)).alias("step"),
    )


def _has_producers(frame: DataFrame) -> bool:
    return set(PRODUCER_COLUMNS) <= set(frame.columns)


def _aggregate(records: DataFrame, *by: str) -> DataFrame:
    has_key, value_bytes, late_ms, step = (
        F.col("key").isNotNull(),
        F.col("value_bytes"),
        F.col("late_ms"),
        F.col("step"),
    )
    return records.groupBy(*by).agg(
        F.count("*").alias("records"),
        F.sum(F.col("key_bytes") + F.coalesce(value_bytes, F.lit(0))).alias("bytes"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        F.approx_count_distinct(F.when(has_key, F.col("key_hash")), _KEY_ERROR).alias("keys"),
        F.count_if(~has_key).alias("null_keys"),
        F.count_if(value_bytes.isNull()).alias("null_values"),
        F.avg(value_bytes).alias("size_mean"),
        F.percentile_approx(value_bytes, [0.5, 0.95, 0.99, 1.0], _QUANTILE_ACCURACY).alias("sizes"),
        F.max(value_bytes).alias("size_max"),
        F.count_if(late_ms > 0).alias("late"),
        F.percentile_approx(F.when(late_ms > 0, late_ms), [0.5, 0.99], _QUANTILE_ACCURACY).alias("lateness"),
        F.max(late_ms).alias("late_max"),
        F.count_if(step > 1).alias("gaps"),
        F.sum(F.when(step > 1, step - 1).otherwise(0)).alias("missing"),
        F.count_if(step == 0).alias("duplicate_offsets"),
    )


def _top_keys(records: DataFrame) -> DataFrame:
    counts = records.where("key is not null").groupBy("topic", "key_hash")
    counted = counts.agg(F.count("*").alias("records"), F.any_value("key").alias("key"))
    by_count: list[Column] = [F.desc("records"), F.asc("key_hash")]
    place = F.row_number().over(Window.partitionBy("topic").orderBy(*by_count))
    return counted.withColumn("place", place).where(F.col("place") <= _TOP_KEYS).orderBy("topic", "place")


def _rates(records: DataFrame, interval_ms: int) -> DataFrame:
    begins = F.floor(F.col("time_ms") / F.lit(interval_ms)) * F.lit(interval_ms)
    size = F.col("key_bytes") + F.coalesce(F.col("value_bytes"), F.lit(0))
    grouped = records.where("time_ms is not null").groupBy("topic", begins.cast("bigint").alias("begins_ms"))
    return grouped.agg(F.count("*").alias("records"), F.sum(size).alias("bytes")).orderBy("topic", "begins_ms")


def _sequences(records: DataFrame) -> _Sequences:
    rows = measure_sequences(records).collect()
    return {
        (row.topic, row.partition): SequenceCounts(row.producers, row.records, row.duplicates, row.gaps, row.missing)
        for row in rows
    }


def _grouped(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.topic].append(row)
    return found


def _topic(
    row: Row,
    partitions: Sequence[Row],
    keys: Sequence[Row],
    rates: Sequence[Row],
    interval_ms: int,
    sequences: _Sequences | None,
) -> TopicStats:
    def counts(partition: int | None) -> SequenceCounts | None:
        return None if sequences is None else sequences.get((row.topic, partition), _NO_PRODUCER)

    with_key = row.records - row.null_keys
    mean = row.records / len(partitions)
    return TopicStats(
        topic=row.topic,
        measures=_measures(row, counts(None)),
        partitions=[
            PartitionStats(each.partition, each.first_offset, each.last_offset, _measures(each, counts(each.partition)))
            for each in partitions
        ],
        partition_skew=round(max(each.records for each in partitions) / mean, 3),
        top_keys=[KeyCount(bytes(each.key).decode(errors="replace"), each.records) for each in keys],
        key_share=round(keys[0].records / with_key, 6) if keys else 0.0,
        interval_ms=interval_ms,
        rates=[RatePoint(each.begins_ms, each.records, each.bytes) for each in rates],
    )


def _measures(row: Row, sequences: SequenceCounts | None) -> Measures:
    span_ms = 0 if row.first_ms is None else row.last_ms - row.first_ms
    sizes: Any = row.sizes or [0, 0, 0]
    lateness: Any = row.lateness or [0, 0]
    return Measures(
        records=row.records,
        bytes=row.bytes,
        first_ms=row.first_ms,
        last_ms=row.last_ms,
        records_per_second=round(row.records * 1000 / span_ms, 3) if span_ms else 0.0,
        keys=row["keys"],
        null_keys=row.null_keys,
        null_values=row.null_values,
        value_sizes=Sizes(round(row.size_mean or 0.0, 1), sizes[0], sizes[1], sizes[2], row.size_max or 0),
        lateness=Lateness(row.late, lateness[0], lateness[1], row.late_max or 0),
        gaps=row.gaps,
        missing_offsets=row.missing,
        duplicate_offsets=row.duplicate_offsets,
        sequences=sequences,
    )
