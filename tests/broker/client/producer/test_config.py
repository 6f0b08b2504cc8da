"""The config keys of a producer: defaults, conflicts between keys, and the types of the keyword arguments."""

from decimal import Decimal

import attrs
import pytest

from broker.client import ConfigError
from broker.client.config import read_config
from broker.client.producer.config import ProducerConfig, ProducerSettings


def configured(**settings: object) -> ProducerConfig:
    return read_config(ProducerConfig, "localhost:9092", settings)


def test_typed_keyword_arguments_are_the_config_keys() -> None:
    keys = {field.name for field in attrs.fields(ProducerConfig)} - {"bootstrap_servers"}
    assert set(ProducerSettings.__annotations__) == keys


def test_defaults_are_kafkas() -> None:
    config = configured()
    assert config.is_idempotent
    assert (config.acks, config.batch_size, config.linger_ms, config.buffer_memory) == (-1, 16_384, 5, 33_554_432)
    assert (config.delivery_timeout_s, config.max_block_ms, config.max_request_size) == (120, 60_000, 1_048_576)


@pytest.mark.parametrize("settings", [{"acks": 1}, {"max.in.flight.requests.per.connection": 6}, {"retries": 0}])
def test_idempotence_gives_way_unless_it_was_asked_for(settings: dict[str, object]) -> None:
    assert not configured(**settings).is_idempotent
    with pytest.raises(ConfigError, match=r"enable\.idempotence needs"):
        configured(**settings, **{"enable.idempotence": "true"})


def test_delivery_timeout_has_to_leave_time_for_a_request() -> None:
    assert configured(**{"request.timeout.ms": 200_000}).delivery_timeout_s == 200.005
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms must be at least .* 30005"):
        configured(**{"delivery.timeout.ms": 30_000})


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, None),
        ({"compression.type": "gzip"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": 9}, 9),
        ({"compression.type": "lz4"}, 9),
        ({"compression.type": "zstd", "compression.zstd.level": -7}, -7),
        ({"compression.type": "snappy"}, None),
    ],
)
def test_compression_level_is_that_of_the_type(settings: dict[str, object], level: int | None) -> None:
    assert configured(**settings).compression_level == level


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"acks": "2"}, "acks must be 0, 1 or all"),
        ({"acks": Decimal(1)}, "acks must be 0, 1 or all"),
        ({"compression.type": "zst"}, "did you mean zstd"),
        ({"compression.gzip.level": 0}, r"compression\.gzip\.level"),
        ({"linger": 5}, r"did you mean linger\.ms"),
        ({"enable.idempotence": "yes"}, "must be true or false"),
        ({"enable.idempotence": 1}, "must be true or false"),
    ],
)
def test_bad_values_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        configured(**settings)
