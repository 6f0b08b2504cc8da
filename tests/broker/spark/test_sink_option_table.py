"""Every option, column and refusal of writing in docs/spark.md, shown by a batch query and by a streaming one.

The cases call the sink as Spark does, without Spark, unless Spark itself refuses: test_sink and test_streaming have
queries of Spark.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from broker.client import ConsumerRecord, KafkaError, SyncAdmin
from broker.client.arrow.schema import HEADERS_TYPE
from broker.spark.options import IllegalOption
from broker.spark.sink.columns import IllegalColumns
from broker.spark.sink.decisions import TransactionLost
from tests.support.committed_records import committed_values
from tests.support.document_tables import table_rows
from tests.support.job_topics import JobTopics
from tests.support.option_cases import OptionCases
from tests.support.source_queries import BATCH, STREAMING, Options, SourceQueries, copied, data_source
from tests.support.spark_topics import create_topic
from tests.support.streaming_tasks import StreamingSink

DOCUMENT = "docs/spark.md"

# docs/streaming/structured-streaming-kafka-integration.md of apache/spark (4.2): the sink's options, and the keys of
# producers that it names.
STOCK_OPTIONS = {
    "kafka.bootstrap.servers", "topic", "includeHeaders", "kafka.partitioner.class", "kafka.key.serializer",
    "kafka.value.serializer",
}  # fmt: skip

TWO = {"value": pa.array([b"v0", b"v1"], pa.binary())}


@attrs.frozen
class Sink:
    """Writes rows, given as Arrow columns, to the topics of a node."""

    spark: SparkSession
    topics: JobTopics
    directory: Path

    def write(self, query: str, columns: dict[str, Any], options: Options, *, is_overwriting: bool = False) -> None:
        """Write the rows in one task. An option with the value None is removed."""
        source = data_source({**self.topics.options, **options})
        rows = pa.record_batch(columns)
        schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=False)
        if query == BATCH:
            writer = source.writer(schema, is_overwriting)
            writer.commit([copied(writer).write(iter([rows]))])
        else:
            stream_writer = source.streamWriter(schema, is_overwriting)
            stream_writer.commit([copied(stream_writer).write(iter([rows]))], 0)

    def written(
        self, query: str, columns: dict[str, Any], options: Options | None = None, *, is_overwriting: bool = False
    ) -> list[ConsumerRecord]:
        """The two records that a query has written to a topic with two partitions, by value."""
        target = create_topic(self.topics.bootstrap, partitions=2)
        self.write(query, columns, {"topic": target, **(options or {})}, is_overwriting=is_overwriting)
        return sorted(self.topics.read(target, 2), key=lambda record: record.value or b"")

    def refusal(self, query: str, columns: dict[str, Any], options: Options, *, is_overwriting: bool = False) -> str:
        """The message with which a query fails."""
        with pytest.raises((IllegalOption, IllegalColumns, KafkaError, ValueError)) as failure:
            self.write(query, columns, options, is_overwriting=is_overwriting)
        return str(failure.value)


cases: OptionCases[Sink] = OptionCases()
shows = cases.shows


@pytest.fixture(scope="module")
def sink(spark: SparkSession, bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Sink:
    return Sink(spark, JobTopics(bootstrap), tmp_path_factory.mktemp("checkpoint"))


def values(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


# Options


@shows("kafka.bootstrap.servers", "no kafka.bootstrap.servers")
def servers_are_needed(sink: Sink, query: str) -> None:
    assert values(sink.written(query, TWO)) == [b"v0", b"v1"]
    expected = "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"
    assert expected in sink.refusal(query, TWO, {"topic": "t", "kafka.bootstrap.servers": None})


@shows("topic", "no topic", "a null in the column topic")
def option_or_column_names_the_topic(sink: Sink, query: str) -> None:
    assert values(sink.written(query, {**TWO, "topic": ["no.such.topic"] * 2})) == [b"v0", b"v1"], "it is preferred"
    first, second = (create_topic(sink.topics.bootstrap) for _ in range(2))
    sink.write(query, {**TWO, "topic": [first, second]}, {})
    assert [values(sink.topics.read(name, 1)) for name in (first, second)] == [[b"v0"], [b"v1"]]
    expected = "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
    assert expected in sink.refusal(query, TWO, {})
    expected = "null topic present in the data. Use the topic option for setting a default topic."
    assert expected in sink.refusal(query, {**TWO, "topic": [first, None]}, {})


@shows("includeHeaders", "headers")
def headers_are_written_where_there_are_some(sink: Sink, query: str) -> None:
    headers = pa.array([None, [{"key": "n", "value": b"1"}]], HEADERS_TYPE)
    for flag in ("false", "true"):
        records = sink.written(query, {**TWO, "headers": headers}, {"includeHeaders": flag})
        assert [record.headers for record in records] == [(), (("n", b"1"),)]


@shows("kafka.*", "a kafka.* key that no client has", "kafka.partitioner.class")
def keys_of_producers_work(sink: Sink, query: str) -> None:
    """Producers with acks=1 are not idempotent: their records have no sequence numbers."""
    for acks, sequences in {"1": [None, None], "all": [0, 1]}.items():
        target = create_topic(sink.topics.bootstrap)
        sink.write(query, TWO, {"topic": target, "kafka.acks": acks, "kafka.fetch.min.bytes": "7"})
        found = SourceQueries(sink.topics.bootstrap, target).read(BATCH, {"includeProducer": "true"})
        assert [row["sequence"] for row in found.rows] == sequences
    refused = {
        "kafka.lingr.ms": "Kafka option lingr.ms is not a config key of this client; did you mean linger.ms?",
        "kafka.partitioner.class": "Kafka option partitioner.class does not apply to this client",
    }
    for key, expected in refused.items():
        assert expected in sink.refusal(query, TWO, {"topic": "t", key: "1"})


@shows("kafka.key.serializer, kafka.value.serializer")
def serializers_are_refused(sink: Sink, query: str) -> None:
    for name, what in {"key": "keys", "value": "value"}.items():
        expected = (
            f"Kafka option '{name}.serializer' is not supported as {what} are serialized with ByteArraySerializer."
        )
        assert expected in sink.refusal(query, TWO, {"topic": "t", f"kafka.{name}.serializer": "x"})


@shows("kafka.transactional.id")
def transactional_ids_are_the_sinks_own(sink: Sink, query: str) -> None:
    expected = "Kafka option 'transactional.id' is not supported: tasks need one each. Set the option exactlyOnce"
    assert expected in sink.refusal(query, TWO, {"topic": "t", "kafka.transactional.id": "x"})


# Exactly once


@shows("exactlyOnce", queries=(STREAMING,))
def repeated_batch_is_written_once(sink: Sink, query: str) -> None:
    options = {**sink.topics.options, "topic": create_topic(sink.topics.bootstrap)}
    for _ in range(2):
        sink.write(query, TWO, {**options, "exactlyOnce": "false"})
    assert values(sink.topics.read(options["topic"], 4)) == [b"v0", b"v1"] * 2
    target = create_topic(sink.topics.bootstrap)
    run = StreamingSink({**options, "topic": target, "exactlyOnce": "true"})
    for _ in range(2):
        run.commit(0, run.write(0, b"v0", b"v1"))
        run = run.restarted()
    assert committed_values(sink.topics.bootstrap, target) == [b"v0", b"v1"]


@shows("exactlyOnce", queries=(BATCH,))
@shows("exactlyOnce in a batch query")
def batch_query_cannot_be_exact(sink: Sink, query: str) -> None:
    assert values(sink.written(query, TWO, {"exactlyOnce": "false"})) == [b"v0", b"v1"]
    expected = "exactlyOnce is for streaming queries, whose batches have ids by which a repetition is known: leave it"
    assert expected in sink.refusal(BATCH, TWO, {"topic": "t", "exactlyOnce": "true"})


@shows("decisionsTopic", queries=(STREAMING,))
def decisions_are_written_to_the_topic(sink: Sink, query: str) -> None:
    decisions = f"{create_topic(sink.topics.bootstrap)}-decisions"
    run = StreamingSink({**exactly(sink), "decisionsTopic": decisions})
    run.commit(0, run.write(0, b"v"))
    assert [record.key for record in sink.topics.read(decisions, 1)] == [run.query_id.encode()]


@shows("transactionalIdPrefix", queries=(STREAMING,))
def transactional_ids_begin_with_the_prefix(sink: Sink, query: str) -> None:
    for prefix in (None, "reports"):
        run = StreamingSink({**exactly(sink), "transactionalIdPrefix": prefix})
        transaction = run.write(0, b"v").transaction
        assert transaction is not None
        assert transaction.transactional_id.startswith(f"{prefix or 'kraft-spark'}-{run.query_id}-{run.run_id}-")


@shows("failOnDataLoss", queries=(STREAMING,))
def query_goes_on_without_rows_that_are_lost(sink: Sink, query: str) -> None:
    run = StreamingSink({**exactly(sink), "failOnDataLoss": "false"})
    message = run.write(0, b"v")
    run.commit(0, message)
    assert message.transaction is not None
    with SyncAdmin(sink.topics.bootstrap) as admin:
        admin.fence_producers([message.transaction.transactional_id]).raise_first()
    run.commit(0, message)
    with pytest.raises(TransactionLost, match="With failOnDataLoss=false"):
        StreamingSink(exactly(sink), run.query_id, run.run_id).commit(0, message)


@shows("failOnDataLoss", queries=(BATCH,))
def batch_query_has_no_transactions_to_lose(sink: Sink, query: str) -> None:
    assert values(sink.written(query, TWO, {"failOnDataLoss": "false"})) == [b"v0", b"v1"]


@shows("decisionsTopic", "transactionalIdPrefix", queries=(BATCH,))
@shows("decisionsTopic, transactionalIdPrefix without exactlyOnce")
def names_need_exactly_once(sink: Sink, query: str) -> None:
    for name in ("decisionsTopic", "transactionalIdPrefix"):
        expected = f"{name} needs exactlyOnce: set exactlyOnce to true, or leave {name} out"
        assert expected in sink.refusal(query, TWO, {"topic": "t", name: "x"})


@shows("a name in them that topics cannot have", "exactlyOnce with kafka.acks=1", queries=(STREAMING,))
def illegal_names_and_acks_are_refused(sink: Sink, query: str) -> None:
    for name in ("decisionsTopic", "transactionalIdPrefix"):
        expected = f"{name} must be of letters, digits, '.', '_' and '-', at most 100, not 'a b'"
        assert expected in sink.refusal(query, TWO, {**exactly(sink), name: "a b"})
    expected = "Kafka option transactional.id needs acks=all; change it, or leave transactional.id out"
    assert expected in sink.refusal(query, TWO, {**exactly(sink), "kafka.acks": "1"})


@shows("a decisionsTopic that is not compacted", queries=(STREAMING,))
def topic_that_forgets_decisions_is_refused(sink: Sink, query: str) -> None:
    run = StreamingSink({**exactly(sink), "decisionsTopic": create_topic(sink.topics.bootstrap)})
    with pytest.raises(IllegalOption, match=r"set its cleanup\.policy to compact"):
        run.commit(0, run.write(0, b"v"))


@shows(
    "a name in them that topics cannot have",
    "exactlyOnce with kafka.acks=1",
    "a decisionsTopic that is not compacted",
    queries=(BATCH,),
)
def batch_query_is_refused_before_them(sink: Sink, query: str) -> None:
    for options in ({"decisionsTopic": "a b"}, {"kafka.acks": "1"}, {"decisionsTopic": "t"}):
        assert "exactlyOnce is for streaming queries" in sink.refusal(query, TWO, {**exactly(sink), **options})


def exactly(sink: Sink) -> dict[str, str | None]:
    return {**sink.topics.options, "topic": create_topic(sink.topics.bootstrap), "exactlyOnce": "true"}


# Columns


@shows("key", "value", "partition", "timestamp", "no value", "a column of another type")
def columns_become_parts_of_records(sink: Sink, query: str) -> None:
    times = pa.array([datetime.fromtimestamp(seconds, UTC) for seconds in (5, 6)], pa.timestamp("us", "UTC"))
    columns = {
        "value": ["v0", "v1"],
        "key": pa.array([b"0", b"1"], pa.binary()),
        "partition": pa.array([1, 0], pa.int32()),
        "other": ["x", "x"],
    }
    for timestamps in (times, [5.0, 6.0]):
        first, second = sink.written(query, {**columns, "timestamp": timestamps})
        assert (first.value, first.key, first.partition, first.timestamp_ms) == (b"v0", b"0", 1, 5_000)
        assert (second.value, second.key, second.partition, second.timestamp_ms) == (b"v1", b"1", 0, 6_000)
    without = sink.written(query, TWO)
    assert [record.key for record in without] == [None, None]
    assert min(record.timestamp_ms for record in without) > 1_600_000_000_000
    assert "Required attribute 'value' not found" in sink.refusal(query, {"key": ["k"]}, {"topic": "t"})
    expected = "key attribute unsupported type double. key must be a(n) string or binary"
    assert expected in sink.refusal(query, {**TWO, "key": [1.0, 2.0]}, {"topic": "t"})


# Modes


@shows('mode("overwrite")', 'no mode, mode("ignore")', 'outputMode("update")', queries=(BATCH,))
def batches_are_appended(sink: Sink, query: str) -> None:
    expected = "Save mode Overwrite not allowed for Kafka. Records can only be appended to a topic."
    assert expected in sink.refusal(query, TWO, {"topic": "t"}, is_overwriting=True)
    writing = sink.spark.sql("SELECT 'v' AS value").write.format("kraft").options(**sink.topics.options, topic="t")
    for mode in ("ErrorIfExists", "Ignore"):
        with pytest.raises(PySparkException, match=f'cannot be written in the "{mode}" mode'):
            (writing.mode("ignore") if mode == "Ignore" else writing).save()


@shows('mode("overwrite")', 'no mode, mode("ignore")', 'outputMode("update")', queries=(STREAMING,))
def streams_are_appended(sink: Sink, query: str) -> None:
    """This includes the complete mode, which Spark describes as overwriting."""
    for is_overwriting in (False, True):
        assert values(sink.written(query, TWO, is_overwriting=is_overwriting)) == [b"v0", b"v1"]
    rows = sink.spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    options = {**sink.topics.options, "topic": "t", "checkpointLocation": str(sink.directory)}
    running = rows.writeStream.format("kraft").options(**options).outputMode("update").start()
    with pytest.raises(PySparkException, match="kraft does not support Update mode"):
        running.awaitTermination()


@pytest.mark.parametrize("name", cases.named)
def test_option_has_its_effect_or_is_refused(sink: Sink, name: str) -> None:
    case, query = cases.named[name]
    case(sink, query)


def test_every_option_has_a_case_for_batch_and_for_streaming() -> None:
    options, columns, refusals = (
        [name for name, *_ in table_rows(DOCUMENT, "Writing", head)] for head in ("option", "column", "refused")
    )
    # Some are in two tables.
    documented = {*options, *columns, *refusals}
    assert cases.shown == sorted((name, query) for name in documented for query in (BATCH, STREAMING))
    assert {name for cell in documented for name in cell.split(", ")} >= STOCK_OPTIONS
