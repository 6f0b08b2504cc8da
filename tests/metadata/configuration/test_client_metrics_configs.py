"""KIP-714: the configs of client metrics subscriptions."""

import pytest

from metadata.configuration import ClientMetricsRequestError, InvalidConfig, describe_client_metrics
from metadata.configuration.client_metrics import PATTERN_LENGTH_MAX, check_client_metrics, client_patterns
from metadata.protocol import ConfigSource


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"metrics": "*"},
        {"metrics": "", "match": ""},
        {"interval.ms": "100"},
        {"interval.ms": "3600000", "metrics": "org.apache.kafka.producer., org.apache.kafka.consumer."},
        {"match": "client_id=a.*, client_software_version = 2\\.[0-9]+ ,client_source_port=1=="},
    ],
)
def test_valid_client_metrics_configs_pass(configs: dict[str, str]) -> None:
    check_client_metrics(configs)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"interval": "1000"}, "Unknown client metrics configuration: interval"),
        (
            {"interval.ms": "99"},
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            {"interval.ms": "3600001"},
            "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
    ],
)
def test_request_errors_of_client_metrics_configs(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ClientMetricsRequestError) as caught:
        check_client_metrics(configs)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"interval.ms": "soon"}, "Invalid value soon for configuration interval.ms: Not a number of type INT"),
        ({"metrics": "a,,b"}, "Configuration 'metrics' values must not be empty."),
        ({"match": "client_id"}, "Illegal client matching pattern: client_id"),
        ({"match": "client_id=="}, "Illegal client matching pattern: client_id=="),
        ({"match": "client_id=a=b"}, "Illegal client matching pattern: client_id=a=b"),
        ({"match": "client_name=a"}, "Illegal client matching pattern: client_name=a"),
        ({"match": "client_id=("}, "Illegal client matching pattern: client_id=("),
        ({"match": "client_id=(a)\\1"}, "Illegal client matching pattern: client_id=(a)\\1"),
    ],
)
def test_invalid_client_metrics_configs_are_refused(configs: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        check_client_metrics(configs)
    assert (type(caught.value), caught.value.message) == (InvalidConfig, message)


def test_client_pattern_has_a_bounded_length() -> None:
    client_patterns(["client_id=" + "a" * PATTERN_LENGTH_MAX])
    with pytest.raises(InvalidConfig):
        client_patterns(["client_id=" + "a" * (PATTERN_LENGTH_MAX + 1)])


def test_last_pattern_of_an_attribute_counts() -> None:
    patterns = client_patterns(["client_id=one", "client_software_name=librdkafka", "client_id=two"])
    assert sorted(patterns) == ["client_id", "client_software_name"]
    assert (patterns["client_id"].matches("one"), patterns["client_id"].matches("two")) == (False, True)


def test_client_metrics_are_described_with_their_defaults() -> None:
    described = {entry.name: (entry.value, entry.source) for entry in describe_client_metrics({"interval.ms": "1000"})}
    assert described == {
        "metrics": ("", ConfigSource.DEFAULT),
        "interval.ms": ("1000", ConfigSource.CLIENT_METRICS),
        "match": ("", ConfigSource.DEFAULT),
    }
