"""The config keys of consumers."""

import attrs
import pytest

from broker.client.config import read_config
from broker.client.consumer.config import ConsumerConfig, ConsumerSettings
from broker.client.errors import ConfigError


def read(**settings: object) -> ConsumerConfig:
    return read_config(ConsumerConfig, "localhost:9092", None, settings)


def test_keyword_arguments_are_the_keys_of_the_config() -> None:
    assert {*ConsumerSettings.__annotations__, "bootstrap_servers"} == set(attrs.fields_dict(ConsumerConfig))


def test_defaults_are_kafkas() -> None:
    config = read()
    assert (config.max_poll_records, config.fetch_max_wait_ms, config.max_partition_fetch_bytes) == (500, 500, 1 << 20)
    assert (config.enable_auto_commit, config.auto_commit_interval_ms) == (True, 5_000)
    assert config.partition_assignment_strategy == ("range", "cooperative-sticky")


def test_assignors_are_named_as_in_kafka_or_briefly() -> None:
    kafkas = "org.apache.kafka.clients.consumer.StickyAssignor, roundrobin"
    assert read(partition_assignment_strategy=kafkas).partition_assignment_strategy == ("sticky", "roundrobin")


@pytest.mark.parametrize("value", ["", [], "uniform", 3])
def test_unknown_assignors_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"cooperative-sticky"):
        read(partition_assignment_strategy=value)


def test_unknown_keys_are_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"did you mean max\.poll\.records"):
        read(max_pol_records=3)
