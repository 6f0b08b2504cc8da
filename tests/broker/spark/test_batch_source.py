"""Spark reads topics once: rows, ranges, refusals, and pushed-down predicates."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from broker.client import SyncAdmin
from broker.client import TopicPartition as Partition
from tests.support.spark_topics import create_topic, fill_topic


def reading(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrameReader:
    """A reader of one topic; underscores in the names of options stand for dots."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    return (
        spark.read.format("kraft")
        .option("kafka.bootstrap.servers", bootstrap)
        .options(**({} if {"assign", "subscribePattern"} & named.keys() else {"subscribe": topic}), **named)
    )


def offsets(rows: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in rows.select("offset").collect())


def refusal(reader: DataFrameReader) -> str:
    with pytest.raises(PySparkException) as failure:
        reader.load().collect()
    return str(failure.value)


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """Two partitions with 30 and 5 records, a millisecond apart, starting at 1970-01-01 00:00:01."""
    name = create_topic(bootstrap, partitions=2)
    fill_topic(bootstrap, name, 30)
    fill_topic(bootstrap, name, 5, partition=1)
    return name


def by_confluent(bootstrap: str, topic: str, count: int) -> list[tuple[Any, ...]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
        records = consumer.consume(count, 20)
        assert len(records) == count
        return sorted(
            (each.partition(), each.offset(), each.key(), each.value(), each.timestamp()[1], each.headers() or [])
            for each in records
        )
    finally:
        consumer.close()


def test_rows_are_those_that_confluent_kafka_reads(spark: SparkSession, bootstrap: str, topic: str) -> None:
    rows = reading(spark, bootstrap, topic, includeHeaders="true").load()
    expected = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
        "headers array<struct<key:string,value:binary>>"
    )
    assert rows.schema == StructType.fromDDL(expected)
    found = [
        (row["partition"], row["offset"], row["key"] and bytes(row["key"]), bytes(row["value"]), row["ms"],
         [(header["key"], bytes(header["value"])) for header in row["headers"] or ()])
        for row in rows.withColumn("ms", sf.unix_millis("timestamp")).collect()
    ]  # fmt: skip
    assert sorted(found) == by_confluent(bootstrap, topic, 35)
    [kinds] = rows.select("topic", "timestampType").distinct().collect()
    assert kinds.asDict() == {"topic": topic, "timestampType": 0}


def test_a_schema_chooses_columns(spark: SparkSession, bootstrap: str, topic: str) -> None:
    rows = reading(spark, bootstrap, topic).schema("value binary, offset bigint").load()
    assert rows.columns == ["value", "offset"]
    assert len(rows.collect()) == 35
    assert rows.where("offset = 4").select(sf.col("value").cast("string")).distinct().collect()[0][0] == "v4"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("payload binary", "Kafka source has a fixed schema: it has no column 'payload'"),
        ("value string", "Kafka source has a fixed schema: value is of type binary, not string"),
    ],
)
def test_other_columns_are_refused(spark: SparkSession, bootstrap: str, topic: str, schema: str, message: str) -> None:
    assert message in refusal(reading(spark, bootstrap, topic).schema(schema))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka_auto_offset_reset": "earliest"}, "Kafka option 'auto.offset.reset' is not supported."),
        ({"startingOffsets": '{"a": {"0": 3}}'}, "Partitions specified for Kafka start offsets don't match what are"),
    ],
)
def test_refusals_reach_the_user(
    spark: SparkSession, bootstrap: str, topic: str, options: dict[str, str], message: str
) -> None:
    assert message in refusal(reading(spark, bootstrap, topic, **options))


def test_large_partitions_are_split(spark: SparkSession, bootstrap: str, topic: str) -> None:
    split = {"minPartitions": 7, "maxRecordsPerPartition": 10}
    found = {
        name: reading(spark, bootstrap, topic, **{name: str(value)}).load().rdd.getNumPartitions()
        for name, value in split.items()
    }
    assert found == {"minPartitions": 7, "maxRecordsPerPartition": 4}


def test_a_topic_without_records_has_no_rows(spark: SparkSession, bootstrap: str) -> None:
    assert reading(spark, bootstrap, create_topic(bootstrap)).load().collect() == []


def test_records_that_the_log_has_deleted_fail_the_query_or_are_skipped(spark: SparkSession, bootstrap: str) -> None:
    topic = create_topic(bootstrap)
    fill_topic(bootstrap, topic, 10)
    with SyncAdmin(bootstrap) as admin:
        admin.delete_records({Partition(topic, 0): 4}).raise_first()
    start = f'{{"{topic}": {{"0": 2}}}}'
    message = refusal(reading(spark, bootstrap, topic, startingOffsets=start))
    assert f"Could not read records in offset [2, 4) for topic partition {topic}-0: its log starts at 4." in message
    assert "set the source option failOnDataLoss to false" in message
    rows = reading(spark, bootstrap, topic, startingOffsets=start, failOnDataLoss="false").load()
    assert offsets(rows) == list(range(4, 10))
    assert offsets(reading(spark, bootstrap, topic).load()) == list(range(4, 10)), "earliest is no loss"


def test_predicates_bound_the_offsets_that_are_read(spark: SparkSession, bootstrap: str, topic: str) -> None:
    """The ranges show the pushed predicates: a query whose predicates exclude all records has a task that reads
    nothing.
    """
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:

        def load() -> DataFrame:
            """A new frame for each query: up to 4.3, Spark reuses the predicates that the first query pushed."""
            return reading(spark, bootstrap, topic, pushDownPredicate="true", maxTimestampLateness="0s").load()

        moment = datetime.fromtimestamp(1.010, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        cases = {
            "partition = 1": 5,
            f"topic = '{topic}' and offset >= 3 and offset < 6": 5,
            "partition in (0, 4) and offset > 27": 2,
            f"topic like '{topic[:7]}%' and partition = 1 and offset <= 1": 2,
            "topic = 'another'": 0,
            f"timestamp >= timestamp'{moment}'": 20,
            f"timestamp < timestamp'{moment}' and partition = 0": 10,
            "partition = 0 or offset = 1": 31,
            "key is null": 3,
        }
        assert {case: load().where(case).count() for case in cases} == cases
        plan = load().where("partition = 1 and value is not null")._jdf.queryExecution().toString()
        assert not re.search(r"Filter .*partition", plan.partition("== Physical Plan ==")[2])
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_predicates_are_not_pushed_without_the_option(spark: SparkSession, bootstrap: str, topic: str) -> None:
    assert reading(spark, bootstrap, topic).load().where("partition = 1").count() == 5
