from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.configuration import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    ConfigDef,
    ConfigKey,
    ConfigValues,
    Importance,
    InvalidConfig,
)
from metadata.configuration.broker import DYNAMIC_ONLY_CONFIGS
from metadata.configuration.definition import (
    REQUIRED,
    ConfigValue,
    Password,
    Required,
    Validator,
    java_text,
    key,
    parse_value,
    value_text,
)
from metadata.configuration.validators import at_least, between, each_of, one_of
from metadata.configuration.vocabulary import INT
from metadata.protocol import ConfigType

ALL_KEYS = [*BROKER_CONFIGS.keys.values(), *DYNAMIC_ONLY_CONFIGS.keys.values(), *TOPIC_CONFIGS.keys.values()]


@pytest.mark.parametrize(
    ("config_type", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, " 12\t", 12),
        (ConfigType.INT, "+4", 4),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.SHORT, "0032767", 32767),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, ".5f", 0.5),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "  ", ()),
        (ConfigType.LIST, ",", ("", "")),
        (ConfigType.STRING, " text ", "text"),
        (ConfigType.CLASS, "org.example.Class", "org.example.Class"),
        (ConfigType.PASSWORD, "secret", Password("secret")),
    ],
)
def test_values_are_parsed_as_by_java(config_type: ConfigType, text: str, value: object) -> None:
    assert parse_value("some.key", text, config_type) == value


@pytest.mark.parametrize(
    ("config_type", "text", "message"),
    [
        (ConfigType.BOOLEAN, "yes", "Invalid value yes for configuration k: Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Invalid value 2147483648 for configuration k: Not a number of type INT"),
        (ConfigType.INT, " 1 0 ", "Invalid value  1 0  for configuration k: Not a number of type INT"),
        (ConfigType.INT, "1_000", "Invalid value 1_000 for configuration k: Not a number of type INT"),
        (ConfigType.SHORT, "32768", "Invalid value 32768 for configuration k: Not a number of type SHORT"),
        (ConfigType.LONG, "", "Invalid value  for configuration k: Not a number of type LONG"),
        (ConfigType.DOUBLE, "one", "Invalid value one for configuration k: Not a number of type DOUBLE"),
    ],
)
def test_malformed_values_are_refused_with_kafkas_messages(config_type: ConfigType, text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_value("k", text, config_type)
    assert raised.value.message == message


def test_a_number_of_absurd_length_is_a_config_error() -> None:
    with pytest.raises(InvalidConfig, match="Not a number of type LONG"):
        parse_value("k", "9" * 10_000, ConfigType.LONG)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (1e-5, "1.0E-5"),
        (123456789.0, "1.23456789E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-0.0, "-0.0"),
        (float("inf"), "Infinity"),
        (True, "true"),
        (None, "null"),
        (("a", "b"), "[a, b]"),
        (Password("secret"), "[hidden]"),
    ],
)
def test_values_are_shown_as_java_prints_them(value: bool | float | str | tuple[str, ...] | None, text: str) -> None:
    assert java_text(value) == text


@given(st.floats(allow_nan=False))
def test_a_shown_double_reads_back(value: float) -> None:
    assert parse_value("k", java_text(value), ConfigType.DOUBLE) == value


@pytest.mark.parametrize(
    ("validator", "value", "message"),
    [
        (at_least(1), 0, "Invalid value 0 for configuration k: Value must be at least 1"),
        (at_least(1), None, "Invalid value null for configuration k: Value must be non-null"),
        (between(0, 1), 1.5, "Invalid value 1.5 for configuration k: Value must be no more than 1"),
        (one_of("a", "b"), "c", "Invalid value c for configuration k: String must be one of: a, b"),
        (each_of("a", "b"), ("a", "c"), "Invalid value c for configuration k: String must be one of: a, b"),
    ],
)
def test_validators_refuse_with_kafkas_messages(validator: Validator, value: ConfigValue | None, message: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        validator("k", value)
    assert raised.value.message == message


def test_a_required_key_has_to_be_set() -> None:
    class Keys(ConfigValues):
        k = key(INT, REQUIRED, None, Importance.HIGH, "A number.")

    definition = ConfigDef(Keys)
    with pytest.raises(InvalidConfig) as raised:
        definition.parse({})
    assert raised.value.message == 'Missing required configuration "k" which has no default value.'
    assert definition.parse({"k": "3", "unknown": "x"}) == {"k": 3}


def test_every_default_has_its_keys_type_and_obeys_its_rule() -> None:
    for each in ALL_KEYS:
        check_default(each)


def check_default(key: ConfigKey[Any]) -> None:
    if isinstance(key.default, Required):
        return
    if key.validator is not None and key.name != "internal.segment.bytes":
        key.validator(key.name, key.default)
    if key.default is not None and key.type is not ConfigType.PASSWORD:
        parsed = key.parse(value_text(key.default))
        assert parsed == key.default
        assert type(parsed) is type(key.default)
    assert key.doc.endswith(".") or ":" in key.doc, key.name
