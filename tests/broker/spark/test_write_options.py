"""The options of writing, with the refusals of Spark's Kafka connector."""

import pytest

from broker.spark.options import IllegalOption
from broker.spark.options.write_options import ExactlyOnce, WriteOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_topic_and_client_keys_are_read_in_any_case_of_letters() -> None:
    options = WriteOptions.of(
        {"TOPIC": " orders ", "Kafka.Bootstrap.Servers": "a:1,b:2", "kafka.linger.ms": "20"}, is_streaming=True
    )
    assert options.topic == "orders"
    assert options.client_config == {"bootstrap.servers": "a:1,b:2", "linger.ms": "20"}


def test_topic_may_be_left_to_the_column() -> None:
    assert WriteOptions.of(SERVERS, is_streaming=True).topic is None


def test_options_of_reading_have_no_effect_on_a_sink() -> None:
    options = WriteOptions.of({**SERVERS, "subscribe": "orders", "checkpointLocation": "/tmp/x"}, is_streaming=True)
    assert options.client_config == {"bootstrap.servers": "localhost:9092"}


def test_keys_of_a_consumer_are_ignored_as_the_java_producer_ignores_them() -> None:
    options = WriteOptions.of(
        {**SERVERS, "kafka.isolation.level": "read_committed", "kafka.acks": "1"}, is_streaming=True
    )
    assert options.client_config == {"bootstrap.servers": "localhost:9092", "acks": "1"}


def test_exactly_once_has_defaults() -> None:
    assert WriteOptions.of(SERVERS, is_streaming=True).exactly_once is None
    options = WriteOptions.of({**SERVERS, "exactlyonce": "TRUE"}, is_streaming=True)
    assert options.exactly_once == ExactlyOnce("kraft-spark-decisions", "kraft-spark", fails_on_data_loss=True)
    assert options.client_config["transaction.timeout.ms"] == "900000"


def test_exactly_once_takes_the_timeout_of_transactions_that_is_given() -> None:
    exactly = {**SERVERS, "exactlyOnce": "true"}
    given = WriteOptions.of({**exactly, "kafka.transaction.timeout.ms": "5000"}, is_streaming=True)
    assert given.client_config["transaction.timeout.ms"] == "5000"
    two_phase = {**exactly, "kafka.transaction.two.phase.commit.enable": "true"}
    assert "transaction.timeout.ms" not in WriteOptions.of(two_phase, is_streaming=True).client_config
    with pytest.raises(IllegalOption, match=r"has no effect with transaction\.two\.phase\.commit\.enable"):
        WriteOptions.of({**two_phase, "kafka.transaction.timeout.ms": "5000"}, is_streaming=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {**SERVERS, "kafka.key.serializer": "x"},
            "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
        ),
        (
            {**SERVERS, "kafka.VALUE.serializer": "x"},
            "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer.",
        ),
        ({}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"),
        ({**SERVERS, "kafka.acks": "2"}, "acks must be 0, 1 or all"),
        ({**SERVERS, "kafka.lingr.ms": "2"}, "did you mean linger.ms"),
        ({**SERVERS, "kafka.partitioner.class": "x"}, "does not apply to this client"),
    ],
)
def test_refused_options_name_the_reason(options: dict[str, str], reason: str) -> None:
    with pytest.raises(IllegalOption) as refused:
        WriteOptions.of(options, is_streaming=True)
    assert reason in str(refused.value)
