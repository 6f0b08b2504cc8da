"""Every option of reading in docs/spark.md, shown by a batch query and by a streaming one.

A case shows the effect of the option, or the message with which it is refused. It calls the source as Spark does,
without Spark: test_batch_source and test_streaming have queries of Spark.
"""

import json
import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, LessThan

from broker.client.consumer.config import ConsumerConfig
from broker.spark.options import ReadOptions, client_settings
from tests.support.document_tables import table_rows
from tests.support.option_cases import OptionCases, OptionTopics
from tests.support.source_queries import BATCH, STREAMING, Stream
from tests.support.spark_topics import create_topic, fill_topic

DOCUMENT = "docs/spark.md"

# docs/streaming/structured-streaming-kafka-integration.md of apache/spark (4.2): the options of the source, and the
# keys of consumers that it names as refused.
STOCK_OPTIONS = {
    "assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers",
    "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", "startingOffsetsByTimestampStrategy",
    "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "failOnDataLoss", "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
    "maxTriggerDelay", "minPartitions", "groupIdPrefix", "kafka.group.id", "includeHeaders",
    "kafka.auto.offset.reset", "kafka.key.deserializer", "kafka.value.deserializer", "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    # In KafkaSourceProvider.scala only.
    "maxRecordsPerPartition",
}  # fmt: skip

ALL = {0: list(range(10)), 1: list(range(4))}

cases: OptionCases[OptionTopics] = OptionCases()
shows = cases.shows


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> OptionTopics:
    return OptionTopics.create(bootstrap)


# Topics and columns


@shows("kafka.bootstrap.servers")
def servers_are_needed(topics: OptionTopics, query: str) -> None:
    assert topics.read(query, {}).offsets == ALL
    expected = "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"
    assert expected in topics.refusal(query, {"kafka.bootstrap.servers": None})


@shows("assign")
def assign_chooses_partitions(topics: OptionTopics, query: str) -> None:
    assert topics.read(query, {"assign": json.dumps({topics.topic: [1]})}).offsets == {1: ALL[1]}
    expected = "No topicpartitions to assign as specified value for option 'assign' is 'one'"
    assert expected in topics.refusal(query, {"assign": "one"})


@shows("subscribe")
def subscribe_chooses_topics(topics: OptionTopics, query: str) -> None:
    found = topics.read(query, {"subscribe": f" {topics.late},{topics.cut} "})
    assert {(row["topic"], row["offset"]) for row in found.rows} == {
        *((topics.late, offset) for offset in range(4)),
        *((topics.cut, offset) for offset in range(4, 10)),
    }
    expected = "No topics to subscribe to as specified value for option 'subscribe' is ' , '"
    assert expected in topics.refusal(query, {"subscribe": " , "})


@shows("subscribePattern")
def pattern_chooses_topics(topics: OptionTopics, query: str) -> None:
    assert topics.read(query, {"subscribePattern": f"(none|{topics.topic[:-1]}.)"}).offsets == ALL
    expected = "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ' '"
    assert expected in topics.refusal(query, {"subscribePattern": " "})


@shows("none of these three, or two")
def one_way_to_choose_is_needed(topics: OptionTopics, query: str) -> None:
    listed = "be specified for Kafka source: subscribe, subscribepattern, assign. See the docs for more details."
    assert f"One of the following options must {listed}" in topics.refusal(query, {"subscribe": None})
    both = topics.refusal(query, {"subscribe": topics.topic, "subscribePattern": "t"})
    assert f"Only one of the following options can {listed}" in both


@shows("a schema")
def schema_chooses_columns(topics: OptionTopics, query: str) -> None:
    types = {"value": pa.binary(), "sequence": pa.int32(), "partition": pa.int32(), "offset": pa.int64()}
    found = topics.read(query, {}, schema=pa.schema(types))
    assert found.offsets == ALL
    assert all(row.keys() == {*types, "task"} for row in found.rows)
    assert all(row["value"] == b"v%d" % row["offset"] and row["sequence"] == row["offset"] for row in found.rows)
    expected = "Kafka source has a fixed schema: value is of type binary, not string. Cast the column after reading it"
    assert expected in topics.refusal(query, {}, schema=pa.schema({"value": pa.string()}))


@shows("includeHeaders")
def headers_are_included(topics: OptionTopics, query: str) -> None:
    found = topics.read(query, {"includeHeaders": "true"})
    headers = {row["offset"]: row["headers"] for row in found.rows if row["partition"] == 1}
    assert headers == {number: [{"key": "n", "value": b"%d" % number}] if number % 2 else None for number in ALL[1]}
    for options in ({}, {"includeHeaders": "false"}):
        assert "headers" not in topics.columns(query, options)
    assert "includeHeaders must be true or false, not 'yes'" in topics.refusal(query, {"includeHeaders": "yes"})


@shows("includeProducer")
def producers_are_included(topics: OptionTopics, query: str) -> None:
    found = topics.read(query, {"includeProducer": "true"})
    assert found.offsets == ALL
    assert all((row["sequence"], row["producerEpoch"]) == (row["offset"], 0) for row in found.rows)
    assert [len({row["producerId"] for row in found.rows if row["partition"] == each}) for each in ALL] == [1, 1]
    for options in ({}, {"includeProducer": "false"}):
        assert not {"producerId", "producerEpoch", "sequence"} & set(topics.columns(query, options))


# Where it starts and ends


@shows("startingTimestamp")
def one_time_is_the_start_of_all_partitions(topics: OptionTopics, query: str) -> None:
    options = {"startingTimestamp": "1002", "startingOffsetsByTimestamp": topics.of(1009, 1003)}
    assert topics.read(query, options).offsets == {0: ALL[0][2:], 1: ALL[1][2:]}
    assert "Expected a single long value, got today" in topics.refusal(query, {"startingTimestamp": "today"})


@shows("startingOffsetsByTimestamp")
def times_by_partition_are_the_start(topics: OptionTopics, query: str) -> None:
    options = {"startingOffsetsByTimestamp": topics.of(1008, 500), "startingOffsets": "earliest"}
    assert topics.read(query, options).offsets == {0: [8, 9], 1: ALL[1]}
    expected = 'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789},'
    assert expected in topics.refusal(query, {"startingOffsetsByTimestamp": "5"})


@shows("startingOffsets")
def offsets_by_partition_are_the_start(topics: OptionTopics, query: str) -> None:
    assert topics.read(query, {"startingOffsets": topics.of(7, -2)}).offsets == {0: [7, 8, 9], 1: ALL[1]}
    if query == STREAMING:
        assert topics.read(query, {"startingOffsets": topics.of(-1, 3)}).offsets == {1: [3]}
        assert topics.read(query, {}).offsets == ALL
        assert topics.read(query, {"startingOffsets": None}).offsets == {}, "latest is the default"
    else:
        latest = "can't be latest for batch queries on Kafka"
        assert f"starting offset {latest}" in topics.refusal(query, {"startingOffsets": "latest"})
        assert f"startingOffsets for {topics.topic}-0 {latest}" in topics.refusal(
            query, {"startingOffsets": topics.of(-1, 0)}
        )


@shows("startingOffsetsByTimestampStrategy")
def strategy_decides_where_no_record_is_late_enough(topics: OptionTopics, query: str) -> None:
    name = "startingOffsetsByTimestampStrategy"
    assert topics.read(query, {"startingTimestamp": "1005", name: "latest"}).offsets == {0: ALL[0][5:]}
    expected = f"No offset matched from request of topic-partition {topics.topic}-1 and timestamp 1005."
    assert expected in topics.refusal(query, {"startingTimestamp": "1005", name: "error"})
    assert expected in topics.refusal(query, {"startingTimestamp": "1005"}), "error is the default"


@shows("endingTimestamp", queries=(BATCH,))
def one_time_is_the_end_of_all_partitions(topics: OptionTopics, query: str) -> None:
    options = {"endingTimestamp": "1002", "endingOffsetsByTimestamp": topics.of(1009, 1003)}
    assert topics.read(query, options).offsets == {0: [0, 1], 1: [0, 1]}


@shows("endingOffsetsByTimestamp", queries=(BATCH,))
def times_by_partition_are_the_end(topics: OptionTopics, query: str) -> None:
    options = {"endingOffsetsByTimestamp": topics.of(1001, 5_000), "endingOffsets": topics.of(3, 3)}
    assert topics.read(query, options).offsets == {0: [0], 1: ALL[1]}


@shows("endingOffsets", queries=(BATCH,))
def offsets_by_partition_are_the_end(topics: OptionTopics, query: str) -> None:
    assert topics.read(query, {"endingOffsets": topics.of(2, -1)}).offsets == {0: [0, 1], 1: ALL[1]}
    expected = "ending offset can't be earliest for batch queries on Kafka"
    assert expected in topics.refusal(query, {"endingOffsets": "earliest"})


@shows("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "start after end", queries=(STREAMING,))
def streams_have_no_end(topics: OptionTopics, query: str) -> None:
    assert "ending offset not valid in streaming queries" in topics.refusal(query, {"endingOffsets": topics.of(5, 5)})
    for name in ("endingTimestamp", "endingOffsetsByTimestamp"):
        assert "ending timestamp not valid in streaming queries" in topics.refusal(query, {name: "5"})


@shows("start after end", queries=(BATCH,))
def start_comes_before_the_end(topics: OptionTopics, query: str) -> None:
    specified = topics.refusal(query, {"startingOffsets": topics.of(5, 0), "endingOffsets": topics.of(4, 0)})
    where = f"for topic {topics.topic} partition 0"
    assert f"The specified start offset 5 is greater than the end offset 4 {where}." in specified
    resolved = topics.refusal(query, {"startingTimestamp": "1003", "endingTimestamp": "1001"})
    assert f"The resolved start offset 3 is greater than the resolved end offset 1 {where}." in resolved


# Failures


@shows("failOnDataLoss")
def lost_records_fail_the_query(topics: OptionTopics, query: str) -> None:
    options = {"subscribe": topics.cut, "startingOffsets": topics.of(2, topic=topics.cut)}
    message = topics.refusal(query, options)
    assert "Some data may have been lost because they are not available in Kafka any more;" in message
    assert (
        f"Could not read records in offset [2, 4) for topic partition {topics.cut}-0: its log starts at 4." in message
    )
    assert topics.read(query, {**options, "failOnDataLoss": "false"}).offsets == {0: list(range(4, 10))}


@shows("kafkaConsumer.pollTimeoutMs")
def tasks_wait_for_records_so_long(topics: OptionTopics, query: str) -> None:
    # A separate client has to connect, which takes longer.
    options = {"kafkaConsumer.pollTimeoutMs": "1", "kafka.client.id": f"impatient-{query}"}
    assert f"Cannot fetch records of {topics.topic} in 1 milliseconds" in topics.refusal(query, options)
    assert topics.read(query, {"kafkaConsumer.pollTimeoutMs": "60000"}).offsets == ALL


@shows("fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
def offsets_are_asked_for_so_often(topics: OptionTopics, query: str) -> None:
    def seconds(attempts: str, interval_ms: str) -> float:
        missing = {"subscribe": "no-such-topic"}
        limits = {"fetchOffset.numRetries": attempts, "fetchOffset.retryIntervalMs": interval_ms}
        began = time.monotonic()
        assert "UNKNOWN_TOPIC_OR_PARTITION" in topics.refusal(query, {**missing, **limits})
        return time.monotonic() - began

    assert seconds("3", "200") >= 0.4
    assert seconds("1", "3600000") < 600, "there is no second attempt"


# Sizes


@shows("minPartitions")
def partitions_are_split_into_so_many_tasks(topics: OptionTopics, query: str) -> None:
    found = topics.read(query, {"minPartitions": "7"})
    assert (found.offsets, found.tasks) == (ALL, 7)
    assert topics.read(query, {}).tasks == 2
    assert "minPartitions must be positive" in topics.refusal(query, {"minPartitions": "0"})


@shows("maxRecordsPerPartition")
def partitions_are_split_above_so_many_records(topics: OptionTopics, query: str) -> None:
    found = topics.read(query, {"maxRecordsPerPartition": "4"})
    assert (found.offsets, found.tasks) == (ALL, 4)
    assert "maxRecordsPerPartition must be positive" in topics.refusal(query, {"maxRecordsPerPartition": "0"})


@shows("maxOffsetsPerTrigger")
def batches_have_so_many_rows(topics: OptionTopics, query: str) -> None:
    found = topics.read(query, {"maxOffsetsPerTrigger": "5"})
    assert found.offsets == ALL
    assert found.batches == ([14] if query == BATCH else [4, 4, 4, 2])
    assert "maxOffsetsPerTrigger must be positive" in topics.refusal(query, {"maxOffsetsPerTrigger": "0"})
    expected = "The value of minOffsetPerTrigger(9) is higher than the maxOffsetsPerTrigger(5)."
    assert expected in topics.refusal(query, {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "9"})


@shows("maxBytesPerTrigger")
def batches_have_so_many_bytes(topics: OptionTopics, query: str) -> None:
    found = topics.read(query, {"maxBytesPerTrigger": "100"})
    assert found.offsets == ALL
    assert len(found.batches) == 1 if query == BATCH else max(found.batches) <= 7


@shows("minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix", "kafka.group.id", queries=(BATCH,))
def options_of_streams_have_no_effect(topics: OptionTopics, query: str) -> None:
    options = {
        "minOffsetsPerTrigger": "100",
        "maxTriggerDelay": "1h",
        "groupIdPrefix": "batch-prefix",
        "kafka.group.id": "batch-group",
    }
    assert topics.read(query, options).offsets == ALL
    assert not any(group.startswith("batch-") for group in topics.groups())


@shows("minOffsetsPerTrigger", "maxTriggerDelay", queries=(STREAMING,))
def batches_wait_for_so_many_rows_or_so_long(topics: OptionTopics, query: str) -> None:
    topic = create_topic(topics.bootstrap)
    fill_topic(topics.bootstrap, topic, 1)
    minimum = {"subscribe": topic, "minOffsetsPerTrigger": "3"}
    with (
        topics.stream({**minimum, "maxTriggerDelay": "1h"}) as patient,
        topics.stream({**minimum, "maxTriggerDelay": "100ms"}) as hasty,
    ):
        # The first batch is not delayed.
        assert (rows_of_next_batch(patient), rows_of_next_batch(hasty)) == (1, 1)
        fill_topic(topics.bootstrap, topic, 1, first=1)
        assert rows_of_next_batch(hasty) == 1
        assert patient.next_batch() is None
        fill_topic(topics.bootstrap, topic, 2, first=2)
        assert rows_of_next_batch(patient) == 3
    assert "maxTriggerDelay must be a time with a unit" in topics.refusal(query, {"maxTriggerDelay": "soon"})


def rows_of_next_batch(stream: Stream) -> int:
    """Wait for a batch. Returns the number of its rows."""
    deadline = time.monotonic() + 30
    while (rows := stream.next_batch()) is None:
        assert time.monotonic() < deadline, "there is no batch"
    return len(rows)


# Groups, and Kafka's own keys


@shows("groupIdPrefix", "kafka.group.id", queries=(STREAMING,))
def streams_commit_to_a_group(topics: OptionTopics, query: str) -> None:
    assert topics.read(query, {"groupIdPrefix": "stream-prefix"}).offsets == ALL
    assert topics.read(query, {"kafka.group.id": "stream-group", "groupIdPrefix": "unused-prefix"}).offsets == ALL
    groups = topics.groups()
    assert "stream-group" in groups
    assert [group.startswith("stream-prefix-") for group in groups].count(True) == 1
    assert not any(group.startswith("unused-prefix") for group in groups)


@shows("kafka.isolation.level")
def isolation_level_is_one_of_two(topics: OptionTopics, query: str) -> None:
    """The client's tests cover reads with read_committed; no transactions are produced here."""
    for level in ("read_committed", "read_uncommitted"):
        asked = {"kafka.isolation.level": level}
        assert topics.read(query, asked).offsets == ALL
        options = ReadOptions.of(
            {"kafka.bootstrap.servers": "a:1", "subscribe": "t", **asked}, is_streaming=query == STREAMING
        )
        assert options.reads_committed == (level == "read_committed")
        assert client_settings(options.client_config, ConsumerConfig)["isolation.level"] == level
    expected = "Kafka option isolation.level must be one of read_uncommitted, read_committed"
    assert expected in topics.refusal(query, {"kafka.isolation.level": "none"})


_DESERIALIZED = (
    "Kafka option '{0}.deserializer' is not supported as {0}s are deserialized as byte arrays with "
    "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the {0}s."
)


@shows(
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)
def keys_that_the_source_decides_are_refused(topics: OptionTopics, query: str) -> None:
    refused = {
        "auto.offset.reset": "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "
        "'startingoffsets' to 'earliest' or 'latest' to specify where to start.",
        "key.deserializer": _DESERIALIZED.format("key"),
        "value.deserializer": _DESERIALIZED.format("value"),
        "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
        "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
    }
    for key, expected in refused.items():
        assert expected in topics.refusal(query, {f"kafka.{key}": "x"})


@shows("other kafka.*")
def keys_of_consumers_work_and_others_are_refused(topics: OptionTopics, query: str) -> None:
    def seconds(wait_ms: str) -> float:
        began = time.monotonic()
        assert (
            topics.read(query, {"kafka.fetch.min.bytes": "1000000", "kafka.fetch.max.wait.ms": wait_ms}).offsets == ALL
        )
        return time.monotonic() - began

    # A broker waits this long for more bytes than there are.
    assert seconds("400") >= 0.4
    assert seconds("1") < 600
    expected = "Kafka option fetch.min.byte is not a config key of this client; did you mean fetch.min.bytes"
    assert expected in topics.refusal(query, {"kafka.fetch.min.byte": "1"})


# Predicates


@shows("pushDownPredicate")
def predicates_decide_what_is_fetched(topics: OptionTopics, query: str) -> None:
    found = {
        flag: topics.read(query, {"pushDownPredicate": flag}, filters=[EqualTo(("partition",), 1)]).offsets
        for flag in ("true", "false")
    }
    assert found == {"true": {1: ALL[1]} if query == BATCH else ALL, "false": ALL}
    assert "pushDownPredicate must be true or false" in topics.refusal(query, {"pushDownPredicate": "yes"})


@shows("maxTimestampLateness")
def late_records_are_found_within_the_lateness(topics: OptionTopics, query: str) -> None:
    pushed = {"subscribe": topics.late, "pushDownPredicate": "true"}
    before = [LessThan(("timestamp",), datetime.fromtimestamp(2, UTC))]
    found = {
        lateness: topics.read(query, {**pushed, "maxTimestampLateness": lateness}, filters=before).offsets[0]
        for lateness in ("0ms", "1h")
    }
    assert found == {"0ms": [0] if query == BATCH else [0, 1, 2, 3], "1h": [0, 1, 2, 3]}


@pytest.mark.parametrize("name", cases.named)
def test_option_has_its_effect_or_is_refused(topics: OptionTopics, name: str) -> None:
    case, query = cases.named[name]
    case(topics, query)


def test_every_option_has_a_case_for_batch_and_for_streaming() -> None:
    documented = [name for name, *_ in table_rows(DOCUMENT, "Options of reading", "option")]
    assert cases.shown == sorted((name, query) for name in documented for query in (BATCH, STREAMING))
    limits = [name for cell, *_ in table_rows(DOCUMENT, "Streaming", "option") for name in cell.split(", ")]
    assert set(limits) <= set(documented)
    assert set(documented) >= STOCK_OPTIONS
