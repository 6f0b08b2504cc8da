"""Streaming queries of Spark with read_committed over topics with committed, aborted and open transactions."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from broker.client import SyncProducer
from tests.support.job_process import wait_until
from tests.support.spark_topics import create_topic

Read = Callable[..., DataFrame]
# A time limit, far longer than necessary on an idle machine.
WAIT_S = 120.0


@pytest.fixture
def topic(bootstrap: str) -> str:
    return create_topic(bootstrap)


@pytest.fixture
def producer(bootstrap: str, topic: str) -> Iterator[SyncProducer]:
    with SyncProducer(bootstrap, transactional_id=topic) as producer:
        yield producer


@pytest.fixture
def read(spark: SparkSession, bootstrap: str, topic: str) -> Read:
    def read(**options: str) -> DataFrame:
        given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        rows = spark.readStream.format("kraft").options(**given, **{"kafka.isolation.level": "read_committed"})
        return rows.options(**options).load().selectExpr("offset", "CAST(value AS STRING) AS value")

    return read


def write(producer: SyncProducer, topic: str, *values: str, commit: bool = True) -> None:
    """Write a transaction: as many offsets as values, and one for its marker."""
    producer.begin_transaction()
    for value in values:
        producer.send_soon(topic, value.encode())
    producer.flush()
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()


def run_now(rows: DataFrame, directory: Path) -> list[dict[str, Any]]:
    """Run a query over the present records. Returns its progress."""
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(each.json) for each in query.recentProgress]


def rows_of(spark: SparkSession, directory: Path) -> list[tuple[int, str]]:
    return sorted((row.offset, row.value) for row in spark.read.parquet(str(directory / "rows")).collect())


def test_batches_go_on_across_markers_and_aborted_records(
    spark: SparkSession, topic: str, producer: SyncProducer, read: Read, tmp_path: Path
) -> None:
    """Batches of two offsets: some have a record and a marker, some only aborted records or markers."""
    write(producer, topic, "a", "b", "c")
    write(producer, topic, "x", "y", "z", commit=False)
    write(producer, topic, "d")
    progress = run_now(read(maxOffsetsPerTrigger="2"), tmp_path)
    ends = [each["sources"][0]["endOffset"][topic]["0"] for each in progress]
    assert sorted(set(ends)) == [2, 4, 6, 8, 10]
    assert sum(each["numInputRows"] for each in progress) == 4
    assert rows_of(spark, tmp_path) == [(0, "a"), (1, "b"), (2, "c"), (8, "d")]
    # Another run begins after the last marker, and finds no gap.
    write(producer, topic, "w", commit=False)
    write(producer, topic, "e")
    run_now(read(), tmp_path)
    assert rows_of(spark, tmp_path)[-2:] == [(8, "d"), (12, "e")]


def test_records_after_an_open_transaction_wait_for_its_end_without_loss(
    spark: SparkSession, bootstrap: str, topic: str, producer: SyncProducer, read: Read, tmp_path: Path
) -> None:
    write(producer, topic, "a")
    producer.begin_transaction()
    producer.send(topic, b"open")
    with SyncProducer(bootstrap, transactional_id=f"{topic}-other") as other:
        write(other, topic, "later")
    last = run_now(read(), tmp_path)[-1]["sources"][0]
    assert last["endOffset"][topic] == last["latestOffset"][topic] == {"0": 2}
    assert last["latestOffset"]["#metrics"]["totalOffsetsBehindLatest"] == 0
    assert rows_of(spark, tmp_path) == [(0, "a")]
    run_now(read(), tmp_path)
    assert rows_of(spark, tmp_path) == [(0, "a")]
    producer.abort_transaction()
    run_now(read(), tmp_path)
    assert rows_of(spark, tmp_path) == [(0, "a"), (3, "later")]


def test_running_query_reads_a_transaction_when_it_is_committed(
    spark: SparkSession, topic: str, producer: SyncProducer, read: Read
) -> None:
    write(producer, topic, "a")
    query = read().writeStream.format("memory").queryName("committed").start()

    def values() -> list[str]:
        return sorted(row.value for row in spark.sql("select value from committed").collect())

    try:
        query.processAllAvailable()
        producer.begin_transaction()
        producer.send(topic, b"b")
        query.processAllAvailable()
        assert values() == ["a"]
        producer.commit_transaction()
        wait_until(lambda: values() == ["a", "b"], WAIT_S, "the committed record")
        assert query.exception() is None
    finally:
        query.stop()
