"""Streaming queries of Spark as a user writes them: a topic to Parquet, and to another topic."""

import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from broker.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer, TopicPartition

numbers = count()
Read = Callable[..., DataFrame]


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic of two partitions with twenty records."""
    name = f"stream-{next(numbers)}"
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=2)]).raise_first()
    fill(bootstrap, name, 20)
    return name


def fill(bootstrap: str, topic: str, rows: int, first: int = 0) -> None:
    with SyncProducer(bootstrap) as producer:
        deliveries = [
            producer.send_soon(topic, b"%d" % number, key=b"key", partition=number % 2)
            for number in range(first, first + rows)
        ]
        for delivery in deliveries:
            delivery.result()


@pytest.fixture
def read(spark: SparkSession, bootstrap: str, topic: str) -> Read:
    def read(**options: str) -> DataFrame:
        return (
            spark.readStream.format("kraft")
            .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"})
            .options(**options)
            .load()
        )

    return read


def run_now(rows: DataFrame, kind: str, checkpoint: Path, **options: str) -> list[dict[str, Any]]:
    """Run a query over the present records. Returns the progress of its batches."""
    query = (
        rows.writeStream.format(kind)
        .options(**options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(each.json) for each in query.recentProgress]


def values(bootstrap: str, topic: str, *, partitions: int = 1) -> list[bytes]:
    chosen = [TopicPartition(topic, number) for number in range(partitions)]
    found = []
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(chosen)
        ends = consumer.end_offsets(chosen)
        while any(consumer.position(each) < ends[each] for each in chosen):
            found += [record.value for record in consumer.fetch(timeout_s=10)]
    return found


def test_a_topic_to_parquet_in_batches_that_go_on_after_a_restart(
    spark: SparkSession, bootstrap: str, topic: str, read: Read, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    rows = read(maxOffsetsPerTrigger="8").select("partition", "offset", "value")
    progress = run_now(rows, "parquet", tmp_path / "checkpoint", path=path)
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [8, 8, 4]
    source = progress[0]["sources"][0]
    assert json.loads(json.dumps(source["latestOffset"]))[topic] == {"0": 10, "1": 10}
    assert source["latestOffset"]["#metrics"]["totalOffsetsBehindLatest"] == 12
    group = source["endOffset"]["#groupId"]
    with SyncAdmin(bootstrap) as admin:
        committed = admin.list_group_offsets({group: None}).value(group).succeeded
    assert {each.partition: offset and offset.offset for each, offset in committed.items()} == {0: 10, 1: 10}

    fill(bootstrap, topic, 5, first=20)
    progress = run_now(rows, "parquet", tmp_path / "checkpoint", path=path)
    assert [each["numInputRows"] for each in progress if each["numInputRows"]] == [5]
    found = spark.read.parquet(path).collect()
    assert sorted(int(bytes(row.value)) for row in found) == list(range(25))


def test_a_topic_to_a_topic(bootstrap: str, read: Read, tmp_path: Path) -> None:
    target = f"copy-{next(numbers)}"
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(target, num_partitions=1)]).raise_first()
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target}
    run_now(read().select("key", "value"), "kraft", tmp_path / "checkpoint", **options)
    assert sorted(map(int, values(bootstrap, target))) == list(range(20))


def test_only_the_columns_asked_for_are_read(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> None:
    rows = (
        spark.readStream.format("kraft")
        .schema("offset bigint")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"})
        .load()
    )
    run_now(rows, "parquet", tmp_path / "checkpoint", path=str(tmp_path / "rows"))
    assert sorted(row.offset for row in spark.read.parquet(str(tmp_path / "rows")).collect()) == sorted(
        2 * list(range(10))
    )


def test_a_topic_that_is_created_again_fails_the_query_and_says_so(
    bootstrap: str, topic: str, read: Read, tmp_path: Path
) -> None:
    run_now(read(), "noop", tmp_path / "checkpoint")
    with SyncAdmin(bootstrap) as admin:
        admin.delete_topics([topic]).raise_first()
        admin.create_topics([NewTopic(topic, num_partitions=2)]).raise_first()
    fill(bootstrap, topic, 30)
    with pytest.raises(StreamingQueryException, match=f"Topic {topic} was deleted and created again"):
        run_now(read(), "noop", tmp_path / "checkpoint")


def test_a_running_query_reads_later_records(spark: SparkSession, bootstrap: str, topic: str, read: Read) -> None:
    query = (
        read(startingOffsets="latest", minOffsetsPerTrigger="1").writeStream.format("memory").queryName("later").start()
    )
    try:
        # The first batch is empty and fixes the start.
        while query.lastProgress is None:
            assert query.isActive, query.exception()
            time.sleep(0.05)
        fill(bootstrap, topic, 4, first=100)
        query.processAllAvailable()
        found = spark.sql("select cast(value as string) as value from later").collect()
        assert sorted(row.value for row in found) == ["100", "101", "102", "103"]
    finally:
        query.stop()


def test_complete_output_is_appended(spark: SparkSession, bootstrap: str, read: Read, tmp_path: Path) -> None:
    target = f"counts-{next(numbers)}"
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(target, num_partitions=1)]).raise_first()
    counts = read().groupBy("partition").count().selectExpr("cast(count as string) as value")
    query = (
        counts.writeStream.format("kraft")
        .outputMode("complete")
        .options(**{"kafka.bootstrap.servers": bootstrap, "topic": target})
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values(bootstrap, target) == [b"10", b"10"]
