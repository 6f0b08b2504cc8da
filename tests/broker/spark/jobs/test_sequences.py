"""Lost and repeated records by sequence numbers: each case is a partition, and all are judged in one query."""

from collections.abc import Iterable
from random import Random

import attrs
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from broker.spark.jobs.stats.sequences import measure_sequences

SCHEMA = "topic string, partition int, offset bigint, producerId bigint, producerEpoch int, sequence int"
LAST = 2**31 - 1
Record = tuple[int, int | None, int | None, int | None]


@attrs.frozen
class Case:
    """The records of a partition (offset, producer id, epoch and sequence number), and the expected findings."""

    records: tuple[Record, ...]
    producers: int = 1
    duplicates: int = 0
    gaps: int = 0
    missing: int = 0


def run(offset: int, sequence: int, count: int, *, producer: int = 7, epoch: int = 0) -> list[Record]:
    """Records with consecutive offsets and sequence numbers."""
    return [(offset + n, producer, epoch, (sequence + n) & LAST) for n in range(count)]


def case(*runs: Iterable[Record], **found: int) -> Case:
    return Case(tuple(record for each in runs for record in each), **found)


def random_partition(rng: Random) -> Case:
    """Producers that repeat and skip records at random; no offset is missing."""
    written: dict[int, list[int]] = {producer: [] for producer in range(rng.randint(1, 3))}
    records: list[Record] = []
    for _ in range(rng.randint(1, 12)):
        producer = rng.choice(list(written))
        following = written[producer][-1] + 1 if written[producer] else 0
        begin = max(0, following + rng.choice([0, 0, 0, -7, -2, 1, 3, 50]))
        numbers = range(begin, begin + rng.randint(1, 5))
        records += [(len(records) + n, producer, 0, number) for n, number in enumerate(numbers)]
        written[producer] += numbers
    holes = {producer: set(range(max(numbered, default=0))) - set(numbered) for producer, numbered in written.items()}
    return Case(
        tuple(records),
        producers=sum(bool(numbered) for numbered in written.values()),
        duplicates=sum(len(numbered) - len(set(numbered)) for numbered in written.values()),
        gaps=sum(number + 1 not in each for each in holes.values() for number in each),
        missing=sum(map(len, holes.values())),
    )


CASES = {
    "one producer": case(run(0, 0, 10)),
    "records without a producer": case([(offset, None, None, None) for offset in range(5)], run(5, 0, 5)),
    "two producers in turns": case(
        run(0, 0, 3, producer=1), run(3, 0, 3, producer=2), run(6, 3, 2, producer=1), run(8, 3, 2, producer=2),
        producers=2,
    ),
    "a new epoch begins at 0": case(run(0, 0, 4), run(4, 0, 4, epoch=1)),
    "an old epoch and a new one lose records each": case(
        run(0, 0, 4), run(4, 6, 4), run(8, 0, 1, epoch=1), run(9, 2, 1, epoch=1), gaps=2, missing=3,
    ),
    "a batch is there twice": case(run(0, 0, 10), run(10, 5, 5), run(15, 10, 5), duplicates=5),
    "a batch is there three times": case(run(0, 0, 3), run(3, 0, 3), run(6, 0, 3), duplicates=6),
    "a batch overlaps the one before": case(run(0, 0, 10), run(10, 8, 4), duplicates=2),
    "records are lost": case(run(0, 0, 3), run(3, 5, 3), run(6, 20, 1), gaps=2, missing=2 + 12),
    "records are lost while another producer writes": case(
        run(0, 0, 3), run(3, 0, 4, producer=8), run(7, 7, 2), producers=2, gaps=1, missing=4,
    ),
    "the first records are lost": case(run(0, 5, 3), gaps=1, missing=5),
    "a duplicate and a loss": case(run(0, 0, 3), run(3, 0, 3), run(6, 4, 2), duplicates=3, gaps=1, missing=1),
    "a batch comes late": case(run(0, 0, 2), run(2, 4, 2), run(4, 2, 2)),
    "compaction has removed records": case(run(0, 0, 2), run(5, 5, 2), run(9, 9, 1)),
    "compaction explains a part of what is missing": case(run(0, 0, 2), run(5, 9, 2), gaps=1, missing=4),
    "compaction has removed other records": case(
        run(0, 0, 2), run(4, 0, 2, producer=8), run(6, 4, 1), producers=2,
    ),
    "retention has removed the start": case(run(100, 40, 5)),
    "retention has removed less than is missing": case(run(10, 40, 5), gaps=1, missing=30),
    "numbers wrap": case(
        run(2**31, LAST - 9, 20), run(2**31 + 20, 0, 1, producer=8), run(2**31 + 21, 10, 5), producers=2,
    ),
    "records are lost at the wrap": case(run(2**31, LAST, 1), run(2**31 + 1, 2, 1), gaps=1, missing=2),
    "a duplicate at the wrap": case(run(2**31, LAST - 1, 4), run(2**31 + 4, LAST, 2), duplicates=2),
    "a file was loaded twice": case(run(0, 0, 3), run(0, 0, 3)),
}  # fmt: skip
CASES |= {f"random {seed}": random_partition(Random(seed)) for seed in range(40)}


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[tuple[str, int | None], dict[str, int]]:
    rows = [(name, 3, *record) for name, each in CASES.items() for record in each.records]
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    records = spark.createDataFrame(rows, SCHEMA).withColumn("step", sf.col("offset") - sf.lag("offset").over(in_order))
    return {(row.topic, row.partition): row.asDict() for row in measure_sequences(records).collect()}


@pytest.mark.parametrize("name", CASES)
def test_sequence_numbers_show_lost_and_repeated_records(
    found: dict[tuple[str, int | None], dict[str, int]], name: str
) -> None:
    expected, of_partition = CASES[name], found[name, 3]
    names = ("producers", "duplicates", "gaps", "missing")
    assert {each: of_partition[each] for each in names} == {each: getattr(expected, each) for each in names}
    distinct = {record for record in expected.records if record[1] is not None}
    assert of_partition["records"] == len(distinct)
    assert found[name, None] == {**of_partition, "partition": None}


def test_topic_counts_a_producer_of_two_partitions_once(spark: SparkSession) -> None:
    rows = [("t", partition, *record) for partition in (0, 1) for record in run(0, 0, 3)]
    rows += [("none", 0, 0, None, None, None)]
    records = spark.createDataFrame(rows, SCHEMA).withColumn("step", sf.lit(None).cast("bigint"))
    single = records.where("offset = 0")
    assert [row.asDict() for row in measure_sequences(single).where("partition is null").collect()] == [
        {"topic": "t", "partition": None, "producers": 1, "records": 2, "duplicates": 0, "gaps": 0, "missing": 0}
    ]
