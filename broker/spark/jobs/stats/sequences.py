"""Finds records that were written twice or are lost, by the sequence numbers of idempotent producers.

A producer numbers its records of a partition from 0 on, and begins again in each of its epochs (KIP-98). Brokers refuse
a batch that does not continue where the last one ended, as long as they know the producer. A log may show otherwise
where they did not know it any more, or where an unclean election has cut off records that a producer had written.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

_PARTITION: Final = ("topic", "partition")
_PRODUCER: Final = (*_PARTITION, "producerId", "producerEpoch")
# Sequence numbers wrap from 2^31 - 1 to 0.
_MODULUS: Final = 1 << 31


def measure_sequences(records: DataFrame) -> DataFrame:
    """Counts by topic and partition, and by topic, where `partition` is null. Topics without producers have no row.

    `records` have the columns of producers, and in `step` how far their offset is after the one before.
    """
    return (
        _with_findings(_with_positions(_runs(records)))
        .rollup(*_PARTITION)
        .agg(
            F.count_distinct("producerId").alias("producers"),
            F.sum("size").alias("records"),
            F.sum("twice").alias("duplicates"),
            F.count_if(F.col("lost") > 0).alias("gaps"),
            F.sum("lost").alias("missing"),
        )
        .where("topic is not null")
    )


def _runs(records: DataFrame) -> DataFrame:
    """Runs of records of one producer whose offsets and sequence numbers both go on by one.

    There are far fewer of them than of records. `absent` counts the offsets before a run that have no record. A record
    that is there twice at one offset, as in a file that was loaded twice, counts once.
    """
    in_order = Window.partitionBy(*_PARTITION).orderBy("offset")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    absent = F.coalesce("step", F.col("offset") + 1) - 1
    once = records.where("step is null or step > 0").withColumn("sequence", F.col("sequence").cast("bigint"))
    marked = once.select(
        *_PRODUCER,
        "sequence",
        "offset",
        F.sum(absent).over(so_far).alias("absent"),
        F.coalesce(_continues_run(in_order), F.lit(False)).alias("goes_on"),
    )
    numbered = marked.withColumn("run", F.count_if(~F.col("goes_on")).over(so_far))
    return (
        numbered.where("sequence is not null")
        .groupBy(*_PRODUCER, "run")
        .agg(
            F.min("offset").alias("offset"),
            F.min_by("sequence", "offset").alias("first"),
            F.count("*").alias("size"),
            F.min("absent").alias("absent"),
        )
    )


def _continues_run(in_order: WindowSpec) -> Column:
    """True for a record that continues the run of the record before it."""

    def before(name: str) -> Column:
        return F.lag(name).over(in_order)

    return (
        (F.col("step") == 1)
        & (before("producerId") == F.col("producerId"))
        & (before("producerEpoch") == F.col("producerEpoch"))
        & (F.pmod(before("sequence") + 1, F.lit(_MODULUS)) == F.col("sequence"))
    )


def _with_positions(runs: DataFrame) -> DataFrame:
    """Adds the positions of the runs: sequence numbers that do not wrap. Each run is near the one before it."""
    in_order = Window.partitionBy(*_PRODUCER).orderBy("offset")
    half = F.lit(_MODULUS // 2)
    jump = F.pmod(F.col("first") - F.lag("first").over(in_order) + half, F.lit(_MODULUS)) - half
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    jumped = runs.withColumn("jump", F.coalesce(jump, "first"))
    begins = F.sum("jump").over(so_far)
    return jumped.withColumn("begins", begins).withColumn("ends", F.col("begins") + F.col("size"))


def _with_findings(runs: DataFrame) -> DataFrame:
    """Adds `twice`, records that earlier runs have already, and `lost`, records that are missing before the run.

    Compaction and retention remove records with their offsets, and control records take offsets too: only as many
    sequence numbers are lost as cannot be explained by offsets that are absent.
    """
    before = Window.partitionBy(*_PRODUCER).orderBy("begins", "offset").rowsBetween(Window.unboundedPreceding, -1)
    reached = F.coalesce(F.max("ends").over(before), F.lit(0))
    absent_there = F.coalesce(F.max_by("absent", "ends").over(before), F.lit(0))
    known = runs.select(
        *_PARTITION,
        "producerId",
        "size",
        "begins",
        "ends",
        reached.alias("reached"),
        F.greatest(F.col("absent") - absent_there, F.lit(0)).alias("explained"),
    )
    new = F.greatest(F.col("ends") - F.greatest("begins", "reached"), F.lit(0))
    hole = F.col("begins") - F.col("reached")
    return known.select(
        *_PARTITION,
        "producerId",
        "size",
        (F.col("size") - new).alias("twice"),
        F.greatest(hole - F.col("explained"), F.lit(0)).alias("lost"),
    )
