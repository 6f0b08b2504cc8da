"""Writing the rows of a batch query to topics."""

from itertools import count
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from broker.client import ConsumerRecord, NewTopic, SyncAdmin, SyncConsumer, TopicPartition

numbers = count()


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"sink-{next(numbers)}"
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=3)]).raise_first()
    return name


def write(rows: DataFrame, bootstrap: str, mode: str = "append", **options: str) -> None:
    rows.write.format("kraft").mode(mode).option("kafka.bootstrap.servers", bootstrap).options(**options).save()


def records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    chosen = [TopicPartition(topic, number) for number in range(3)]
    found: list[Any] = []
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(chosen)
        ends = consumer.end_offsets(chosen)
        while any(consumer.position(each) < ends[each] for each in chosen):
            found += consumer.fetch(timeout_s=10)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def test_every_column_becomes_its_part_of_the_record(spark: SparkSession, bootstrap: str, topic: str) -> None:
    rows = spark.sql(
        """
        select 'a' as key, cast('one' as binary) as value, 2 as partition, timestamp_millis(1700000000123) as timestamp,
               array(named_struct('key', 'h', 'value', cast('1' as binary)),
                     named_struct('key', 'h', 'value', cast(null as binary))) as headers, 'ignored' as other
        union all
        select null, null, 2, null, null, ''
        """
    ).coalesce(1)
    write(rows, bootstrap, topic=topic)
    first, second = records(bootstrap, topic)
    assert (first.partition, first.key, first.value, first.timestamp_ms) == (2, b"a", b"one", 1_700_000_000_123)
    assert first.headers == (("h", b"1"), ("h", None))
    assert (second.partition, second.key, second.value, second.headers) == (2, None, None, ())
    assert second.timestamp_ms > first.timestamp_ms


def test_rows_go_to_the_topics_of_their_column(spark: SparkSession, bootstrap: str, topic: str) -> None:
    other = f"{topic}-other"
    with SyncAdmin(bootstrap) as admin:
        admin.create_topics([NewTopic(other, num_partitions=3)]).raise_first()
    rows = spark.range(20).selectExpr(f"if(id % 2 = 0, '{topic}', '{other}') as topic", "cast(id as string) as value")
    write(rows, bootstrap)
    assert sorted(int(record.value or b"") for record in records(bootstrap, topic)) == list(range(0, 20, 2))
    assert sorted(int(record.value or b"") for record in records(bootstrap, other)) == list(range(1, 20, 2))


def test_rows_of_a_key_keep_their_order(spark: SparkSession, bootstrap: str, topic: str) -> None:
    rows = spark.range(60_000, numPartitions=1).selectExpr(
        "cast(id % 7 as string) as key", "cast(id as string) as value"
    )
    write(rows, bootstrap, topic=topic, **{"kafka.compression.type": "zstd"})
    by_key: dict[bytes | None, list[int]] = {}
    for record in records(bootstrap, topic):
        by_key.setdefault(record.key, []).append(int(record.value or b""))
    assert by_key == {b"%d" % key: list(range(key, 60_000, 7)) for key in range(7)}


@pytest.mark.parametrize(
    ("columns", "mode", "options", "message"),
    [
        (["value"], "append", {}, "topic option required when no 'topic' attribute is present"),
        (["key"], "append", {"topic": "x"}, "Required attribute 'value' not found"),
        (["value"], "overwrite", {"topic": "x"}, "Save mode Overwrite not allowed for Kafka"),
        (["value"], "append", {"topic": "x", "kafka.key.serializer": "x"}, "Kafka option 'key.serializer' is not supp"),
        (["value"], "errorifexists", {"topic": "x"}, 'cannot be written in the "ErrorIfExists" mode'),
    ],
)
def test_refusals_come_before_the_query_starts(
    spark: SparkSession, bootstrap: str, columns: list[str], mode: str, options: dict[str, str], message: str
) -> None:
    rows = spark.createDataFrame([("k", "v")], "key string, value string").select(*columns)
    with pytest.raises(PySparkException, match=message):
        write(rows, bootstrap, mode, **options)


def test_a_null_topic_fails_the_query(spark: SparkSession, bootstrap: str) -> None:
    rows = spark.sql("select cast(null as string) as topic, 'v' as value")
    with pytest.raises(PySparkException, match="null topic present in the data"):
        write(rows, bootstrap)


def test_a_partition_that_does_not_exist_fails_the_query(spark: SparkSession, bootstrap: str, topic: str) -> None:
    with pytest.raises(PySparkException, match=f"{topic} has no partition 7"):
        write(spark.sql("select 7 as partition, 'v' as value"), bootstrap, topic=topic)


def test_a_task_that_fails_leaves_nothing_under_way(spark: SparkSession, bootstrap: str, topic: str) -> None:
    late = "if(id = 40000, raise_error('the own mistake of the query'), cast(id as string)) as value"
    with pytest.raises(PySparkException, match="the own mistake of the query"):
        write(spark.range(50_000, numPartitions=1).selectExpr(late), bootstrap, topic=topic)
    write(spark.sql("select 'after' as value"), bootstrap, topic=topic)
    assert [record.value for record in records(bootstrap, topic) if record.value == b"after"] == [b"after"]
