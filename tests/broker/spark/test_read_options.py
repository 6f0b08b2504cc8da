"""Every option of reading that Spark's Kafka connector documents: its default, and the messages of refusals."""

import pickle

import pytest

from broker.client import TopicPartition
from broker.client.admin.config import AdminConfig
from broker.spark.offsets import EARLIEST, LATEST
from broker.spark.options import (
    Assign,
    Earliest,
    Latest,
    NoMatchStrategy,
    ReadOptions,
    SpecificOffsets,
    SpecificTimestamps,
    Subscribe,
    SubscribePattern,
    Timestamp,
    client_settings,
)

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def read(is_streaming: bool = False, **options: str) -> ReadOptions:
    """Options on top of BASE; underscores stand for dots."""
    return ReadOptions.of(
        {**BASE, **{name.replace("_", "."): value for name, value in options.items()}}, is_streaming=is_streaming
    )


def refusal(options: dict[str, str], *, is_streaming: bool = False) -> str:
    with pytest.raises(ValueError) as refused:
        ReadOptions.of(options, is_streaming=is_streaming)
    return str(refused.value)


@pytest.mark.parametrize("is_streaming", [False, True])
def test_defaults(is_streaming: bool) -> None:
    options = read(is_streaming)
    assert options.topics == Subscribe(("a",))
    assert options.starting == (Latest() if is_streaming else Earliest())
    assert options.ending == Latest()
    assert options.fails_on_data_loss
    assert not options.has_headers
    assert not options.has_producers
    assert not options.is_filter_pushed
    assert not options.reads_committed
    limits = (
        options.min_partitions,
        options.max_records_per_partition,
        options.max_offsets_per_trigger,
        options.min_offsets_per_trigger,
        options.max_bytes_per_trigger,
    )
    assert limits == (None,) * 5
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert options.poll_timeout_ms == 120_000
    assert (options.fetch_offset_retries, options.fetch_offset_retry_interval_ms) == (3, 1_000)
    assert options.group_id is None
    assert options.group_id_prefix == ("spark-kafka-source" if is_streaming else "spark-kafka-relation")
    assert options.client_config == {"bootstrap.servers": "localhost:9092"}
    assert options.remarks == ()


def test_options_are_picklable() -> None:
    options = read(startingOffsets='{"a": {"0": 3}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_in_any_case_of_letters() -> None:
    options = ReadOptions.of(
        {"KAFKA.bootstrap.Servers": "h:1", "SUBSCRIBE": "a", "MinPartitions": "4", "failondataloss": "FALSE"},
        is_streaming=False,
    )
    assert options.min_partitions == 4
    assert not options.fails_on_data_loss


# Topics and partitions


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(
    ("option", "value", "topics"),
    [
        ("assign", ' {"a": [0, 1]}', Assign((A0, A1))),
        ("subscribe", " b , a,,b", Subscribe(("b", "a"))),
        ("subscribePattern", " a.* ", SubscribePattern("a.*")),
    ],
)
def test_topics(option: str, value: str, topics: object, is_streaming: bool) -> None:
    given = {"kafka.bootstrap.servers": "h:1", option: value}
    assert ReadOptions.of(given, is_streaming=is_streaming).topics == topics


def test_a_pattern_matches_whole_names() -> None:
    pattern = SubscribePattern("a.|b")
    assert [topic for topic in ("a", "a1", "a12", "xa1", "b") if pattern.matches(topic)] == ["a1", "b"]


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign. "
             "See the docs for more details."),
        ({"subscribe": "a", "assign": '{"a": [0]}'},
         "Only one of the following options can be specified for Kafka source: subscribe, subscribepattern, assign. "
         "See the docs for more details."),
        ({"assign": "a"}, "No topicpartitions to assign as specified value for option 'assign' is 'a'"),
        ({"assign": '{"a": 0}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a": 0}'),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"subscribePattern": " "},
         "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ' '"),
        ({"subscribePattern": "a("}, "subscribePattern 'a(' is not a regular expression: "
                                     "missing ), unterminated subpattern at position 1"),
    ],
)  # fmt: skip
def test_topics_are_refused(options: dict[str, str], message: str, is_streaming: bool) -> None:
    assert refusal({"kafka.bootstrap.servers": "h:1", **options}, is_streaming=is_streaming) == message


# Where it starts and ends


@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_time_for_all_precedes_times_by_partition_and_these_offsets(is_streaming: bool) -> None:
    by_precedence = {
        "startingTimestamp": " 1000 ",
        "startingOffsetsByTimestamp": '{"a": {"0": 2000}}',
        "startingOffsets": '{"a": {"0": 23, "1": -2}}',
    }
    found = []
    while by_precedence:
        found.append(read(is_streaming, **by_precedence).starting)
        by_precedence.pop(next(iter(by_precedence)))
    assert found == [Timestamp(1000), SpecificTimestamps({A0: 2000}), SpecificOffsets({A0: 23, A1: EARLIEST})]


def test_ends_have_the_same_precedence() -> None:
    ends = {
        "endingTimestamp": "1000",
        "endingOffsetsByTimestamp": '{"a": {"0": 2000}}',
        "endingOffsets": '{"a": {"0": 23, "1": -1}}',
    }
    found = []
    while ends:
        found.append(read(**ends).ending)
        ends.pop(next(iter(ends)))
    assert found == [Timestamp(1000), SpecificTimestamps({A0: 2000}), SpecificOffsets({A0: 23, A1: LATEST})]


def test_earliest_and_latest_are_in_any_case_of_letters() -> None:
    assert read(startingOffsets=" Earliest ").starting == Earliest()
    assert read(endingOffsets="LATEST").ending == Latest()
    assert read(True, startingOffsets="latest").starting == Latest()
    assert read(True, startingOffsets='{"a": {"0": -1}}').starting == SpecificOffsets({A0: LATEST})


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("strategy", ["error", "LATEST"])
def test_strategy_for_times_after_the_last_record(strategy: str, is_streaming: bool) -> None:
    options = read(is_streaming, startingTimestamp="1", startingOffsetsByTimestampStrategy=strategy)
    assert options.starting == Timestamp(1, NoMatchStrategy(strategy.lower()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "startingOffsets for a-0 can't be latest for batch queries on Kafka"),
        ({"startingOffsets": "newest"},
         'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got newest'),
        ({"startingOffsets": ""}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got '),
        ({"startingTimestamp": "today"}, "Expected a single long value, got today"),
        ({"startingOffsetsByTimestamp": "5"},
         'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789},\n'
         '"topicB": {"0": 123456789, "1": 123456789}}, got 5'),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "ending offset for a-0 can't be earliest for batch queries on Kafka"),
        ({"endingTimestamp": "today"}, "Expected a single long value, got today"),
        ({"startingOffsetsByTimestampStrategy": "newest"},
         "startingOffsetsByTimestampStrategy must be error or latest, not 'newest'"),
        ({"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"0": 4}}'},
         "The specified start offset 5 is greater than the end offset 4 for topic a partition 0."),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 5}}', "endingOffsetsByTimestamp": '{"a": {"0": 4}}'},
         "The specified start timestamp 5 is greater than the end timestamp 4 for topic a partition 0."),
        ({"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"0": 4, "1": 4}}'},
         "The specified start offset and end offset should have the same topic-partitions. "
         "Topic-partitions for start offset: a-0, topic-partitions for end offset: a-0, a-1."),
    ],
)  # fmt: skip
def test_batch_limits_are_refused(options: dict[str, str], message: str) -> None:
    assert refusal({**BASE, **options}) == message


def test_ends_that_the_cluster_knows_are_not_compared_with_starts() -> None:
    assert read(startingOffsets='{"a": {"0": 5}}', endingOffsets='{"a": {"0": -1}}').min_partitions is None


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("endingOffsets", "ending offset not valid in streaming queries"),
        ("endingOffsetsByTimestamp", "ending timestamp not valid in streaming queries"),
        ("endingTimestamp", "ending timestamp not valid in streaming queries"),
    ],
)
def test_a_streaming_query_has_no_end(option: str, message: str) -> None:
    assert refusal({**BASE, option: "latest"}, is_streaming=True) == message


# Sizes, rates and failures


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition"])
def test_numbers_of_tasks_are_positive(name: str, is_streaming: bool) -> None:
    options = read(is_streaming, **{name: "7"})
    assert (options.min_partitions or options.max_records_per_partition) == 7
    assert refusal({**BASE, name: "0"}, is_streaming=is_streaming) == f"{name} must be positive"
    assert refusal({**BASE, name: "x"}, is_streaming=is_streaming) == f"{name} must be a whole number, not 'x'"


def test_min_partitions_is_an_int() -> None:
    assert "at most 2147483647" in refusal({**BASE, "minPartitions": "2147483648"})
    assert read(maxRecordsPerPartition="2147483648").max_records_per_partition == 2**31


def test_rates_of_streaming_queries() -> None:
    options = read(
        True,
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="5s",
        maxBytesPerTrigger="1000000",
    )
    assert (options.min_offsets_per_trigger, options.max_offsets_per_trigger) == (10, 100)
    assert options.max_trigger_delay_ms == 5_000
    assert options.max_bytes_per_trigger == 1_000_000
    assert options.remarks == ()
    assert refusal({**BASE, "maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"}, is_streaming=True) == (
        "The value of minOffsetPerTrigger(2) is higher than the maxOffsetsPerTrigger(1)."
    )


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("250", 250), ("250ms", 250), ("2000us", 2), ("5 s", 5_000), ("2m", 120_000), ("2MIN", 120_000), ("1h", 3_600_000),
     ("1d", 86_400_000)],
)  # fmt: skip
def test_trigger_delay_has_sparks_units(text: str, duration_ms: int) -> None:
    assert read(True, maxTriggerDelay=text).max_trigger_delay_ms == duration_ms


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-1s", "1.5s", "1_0s", "\u0663s", "1" * 5_000])
def test_trigger_delay_is_a_time(text: str) -> None:
    assert refusal({**BASE, "maxTriggerDelay": text}, is_streaming=True).startswith("maxTriggerDelay must be a time")


@pytest.mark.parametrize(
    "name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger"]
)
def test_rates_are_ignored_in_batch_queries_with_a_remark(name: str) -> None:
    assert read(**{name: "5"}).remarks == (f"{name} option ignored in batch queries",)


@pytest.mark.parametrize("is_streaming", [False, True])
def test_times_and_retries(is_streaming: bool) -> None:
    options = read(
        is_streaming, kafkaConsumer_pollTimeoutMs="512", fetchOffset_numRetries="5", fetchOffset_retryIntervalMs="0"
    )
    assert options.poll_timeout_ms == 512
    assert (options.fetch_offset_retries, options.fetch_offset_retry_interval_ms) == (5, 0)
    for name in ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"):
        assert refusal({**BASE, name: "x"}, is_streaming=is_streaming) == f"{name} must be a whole number, not 'x'"


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize("name", ["failOnDataLoss", "includeHeaders", "includeProducer", "pushDownPredicate"])
def test_flags(name: str, is_streaming: bool) -> None:
    def flag(options: ReadOptions) -> tuple[bool, ...]:
        return options.fails_on_data_loss, options.has_headers, options.has_producers, options.is_filter_pushed

    assert flag(read(is_streaming, **{name: "True"})) != flag(read(is_streaming, **{name: "false"}))
    assert refusal({**BASE, name: "yes"}, is_streaming=is_streaming) == f"{name} must be true or false, not 'yes'"


# Kafka's own keys


@pytest.mark.parametrize("is_streaming", [False, True])
@pytest.mark.parametrize(
    ("key", "begin"),
    [
        ("auto.offset.reset", "Kafka option 'auto.offset.reset' is not supported. Instead set the source option "),
        ("key.deserializer", "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte "),
        (
            "value.deserializer",
            "Kafka option 'value.deserializer' is not supported as values are deserialized as byte ",
        ),
        ("enable.auto.commit", "Kafka option 'enable.auto.commit' is not supported"),
        ("interceptor.classes", "Kafka option 'interceptor.classes' is not supported"),
        ("fetch.min.byte", "Kafka option fetch.min.byte is not a config key of this client; did you mean fetch.min.by"),
        ("fetch.min.bytes", "Kafka option fetch.min.bytes must be a number, not 'x'"),
        ("isolation.level", "Kafka option isolation.level must be one of read_uncommitted, read_committed"),
        ("security.protocol", "Kafka option security.protocol must be one of"),
    ],
)
def test_keys_are_refused(key: str, begin: str, is_streaming: bool) -> None:
    message = refusal({**BASE, f"kafka.{key}": "x"}, is_streaming=is_streaming)
    assert message.startswith(begin)


def test_bootstrap_servers_are_needed() -> None:
    assert refusal({"subscribe": "a"}) == (
        "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"
    )


def test_keys_reach_the_clients_that_have_them() -> None:
    options = read(kafka_isolation_level="read_committed", kafka_fetch_min_bytes="100", kafka_client_id="me")
    assert options.reads_committed
    assert options.client_config["fetch.min.bytes"] == "100"
    settings = client_settings(options.client_config, AdminConfig)
    assert settings == {"bootstrap.servers": "localhost:9092", "client.id": "me"}


@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_group_id_precedes_a_prefix_and_both_are_remarked(is_streaming: bool) -> None:
    assert read(is_streaming, groupIdPrefix="mine").group_id_prefix == "mine"
    options = read(is_streaming, kafka_group_id="g", groupIdPrefix="mine")
    assert options.group_id == "g"
    assert "group.id" not in options.client_config
    assert options.remarks[0].startswith("Kafka option 'kafka.group.id' has been set on this query.")
    assert options.remarks[1] == ("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
