"""`load` of Avro values with Spark's own package: valid values become structs, all others go to quarantine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from broker.spark.jobs.load import LoadOptions, TableFormat, ValueFormat, load, loaded
from broker.spark.jobs.results import JobFailed
from tests.support.job_topics import DAY_MS, JobTopics

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": ["null", "long"], "default": None},
            {"name": "name", "type": ["null", "string"], "default": None},
            {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
        ],
    }
)
# For each union its branch, then its value: numbers are zigzag varints, a text is preceded by its length.
FULL = b"\x02\x02" + b"\x02\x06tea" + b"\x00"
EMPTY = b"\x00\x00\x02"


@pytest.fixture(autouse=True)
def _needs_spark_avro(needs: Callable[[str], None]) -> None:
    needs("avro")


def write(topics: JobTopics, name: str, values: list[bytes | None]) -> str:
    topic = topics.create(name)
    topics.write(topic, [{"value": value, "timestamp_ms": DAY_MS} for value in values])
    return topic


def avro(topic: str, directory: Path, schema: str = ORDER, **others: Any) -> LoadOptions:
    return LoadOptions((topic,), str(directory), value_format=ValueFormat.AVRO, value_schema=schema, **others)


@pytest.mark.parametrize("table", [TableFormat.PARQUET, TableFormat.DELTA], ids=lambda each: each.value)
def test_values_that_do_not_fit_the_schema_are_in_quarantine(
    spark: SparkSession, topics: JobTopics, tmp_path: Path, table: TableFormat
) -> None:
    misfits = [b"", FULL[:-1], FULL + b"\x00", b"\x00" * 5 + FULL, b"{}", b"\x02\x02\x02\xfe\xff\xff\xff\x0f", b"\x04"]
    topic = write(topics, f"avro.{table.value}", [FULL, EMPTY, None, *misfits])
    options = avro(topic, tmp_path / "out", table_format=table)
    done = load(spark, options, topics.options)
    assert (done.records, done.quarantined) == (3, len(misfits))
    rows = {row.offset: row.value for row in loaded(spark, options.destination).collect()}
    assert {offset: value and value.asDict() for offset, value in rows.items()} == {
        0: {"id": 1, "name": "tea", "size": "S"},
        1: {"id": None, "name": None, "size": "L"},
        2: None,
    }
    quarantine = spark.read.format(table.value).load(str(tmp_path / "out" / "_quarantine"))
    assert {row.offset - 3: bytes(row.value) for row in quarantine.collect()} == dict(enumerate(misfits))
    assert load(spark, options, topics.options).runs == 0


def test_values_that_spark_has_written_are_read(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    from pyspark.sql.avro.functions import to_avro

    schema = json.dumps(
        {
            "type": "record",
            "name": "Reading",
            "fields": [
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "values", "type": {"type": "array", "items": "double"}},
                {"name": "tags", "type": {"type": "map", "values": "string"}},
                {
                    "name": "inner",
                    "type": {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]},
                },
            ],
        }
    )
    frame = spark.range(50).select(
        F.struct(
            F.timestamp_millis(F.lit(DAY_MS) + F.col("id")).alias("at"),
            F.array_repeat(F.col("id").cast("double"), F.col("id").cast("int") % 4).alias("values"),
            F.create_map(F.lit("n"), F.col("id").cast("string")).alias("tags"),
            F.struct(F.col("id").cast("int").alias("n")).alias("inner"),
        ).alias("reading")
    )
    written = frame.select(to_avro("reading", schema).alias("value")).collect()
    topic = write(topics, "avro.readings", [bytes(row.value) for row in written])
    options = avro(topic, tmp_path / "out", schema, event_time="value.at")
    done = load(spark, options, topics.options)
    assert (done.records, done.quarantined) == (50, 0)
    found = loaded(spark, options.destination).select("value.*").orderBy("at").collect()
    assert [(row["inner"].n, row["tags"], len(row["values"])) for row in found] == [
        (number, {"n": str(number)}, number % 4) for number in range(50)
    ]


def test_values_need_no_record(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    topic = write(topics, "avro.texts", [b"\x06tea", b"\x08tea", None])
    options = avro(topic, tmp_path / "out", '"string"')
    done = load(spark, options, topics.options)
    assert (done.records, done.quarantined) == (2, 1)
    assert {row.offset: row.value for row in loaded(spark, options.destination).collect()} == {0: "tea", 2: None}


def test_schema_is_compared_as_avro_reads_it(spark: SparkSession, topics: JobTopics, tmp_path: Path) -> None:
    topic = write(topics, "avro.schemas", [FULL])
    options = avro(topic, tmp_path / "out")
    load(spark, options, topics.options)
    spaced = attrs.evolve(options, value_schema=json.dumps(json.loads(ORDER), indent=2))
    assert load(spark, spaced, topics.options).runs == 0
    assert load(spark, attrs.evolve(options, value_schema=None), topics.options).runs == 0
    with pytest.raises(JobFailed, match="differs from the schema"):
        load(spark, attrs.evolve(options, value_schema='"string"'), topics.options)


@pytest.mark.parametrize(
    "schema",
    ["id bigint", '{"type": "record"}', '{"type": "record", "name": "N", "fields": [{"name": "next", "type": "N"}]}'],
    ids=["ddl", "incomplete", "recursive"],
)
def test_schema_that_spark_cannot_read_is_one_sentence(
    spark: SparkSession, topics: JobTopics, tmp_path: Path, schema: str
) -> None:
    with pytest.raises(JobFailed, match="is not an Avro schema that Spark can read"):
        load(spark, avro("any", tmp_path / "out", schema), topics.options)
    with pytest.raises(JobFailed, match="Avro values need a schema"):
        load(spark, attrs.evolve(avro("any", tmp_path / "out"), value_schema=None), topics.options)
