"""Validators of config values, which raise InvalidConfig with Kafka's messages."""

import re

from metadata.configuration.definition import ConfigValue, InvalidConfig, Validator, invalid_value, java_text
from metadata.configuration.quorum_addresses import parse_quorum_server, parse_quorum_voters


def at_least(minimum: float) -> Validator:
    def check(name: str, value: ConfigValue | None) -> None:
        if _number(name, value) < minimum:
            raise invalid_value(name, value, f"Value must be at least {java_text(minimum)}")

    return check


def between(minimum: float, maximum: float) -> Validator:
    """A range that includes both ends."""

    def check(name: str, value: ConfigValue | None) -> None:
        number = _number(name, value)
        if number < minimum:
            raise invalid_value(name, value, f"Value must be at least {java_text(minimum)}")
        if number > maximum:
            raise invalid_value(name, value, f"Value must be no more than {java_text(maximum)}")

    return check


def between_or(minimum: int, maximum: int, other: int) -> Validator:
    """A range, and one value outside of it, such as the -1 that stands for the default level of gzip."""

    def check(name: str, value: ConfigValue | None) -> None:
        number = _number(name, value)
        if number != other and not minimum <= number <= maximum:
            raise invalid_value(name, value, f"Value must be between {minimum} and {maximum} or equal to {other}")

    return check


def one_of(*allowed: str) -> Validator:
    def check(name: str, value: ConfigValue | None) -> None:
        if value not in allowed:
            raise invalid_value(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_ignoring_case(*allowed: str) -> Validator:
    def check(name: str, value: ConfigValue | None) -> None:
        if not isinstance(value, str) or value.upper() not in allowed:
            raise invalid_value(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


def each_of(*allowed: str) -> Validator:
    """Every element of a list is one of these; the list may be empty, its elements may not."""
    check_one = one_of(*allowed)

    def check(name: str, value: ConfigValue | None) -> None:
        for element in _elements(value):
            no_empty_elements(name, (element,))
            check_one(name, element)

    return check


def no_empty_elements(name: str, value: ConfigValue | None) -> None:
    """A list may be empty, its elements may not."""
    if "" in _elements(value):
        raise InvalidConfig(f"Configuration '{name}' values must not be empty.")


def no_empty_list(name: str, value: ConfigValue | None) -> None:
    no_empty_elements(name, value)
    if not _elements(value):
        raise InvalidConfig(f"Configuration '{name}' must not be empty. Valid values include: any non-empty value")


def no_repeated_elements(name: str, value: ConfigValue | None) -> None:
    no_empty_elements(name, value)
    elements = [element.strip() for element in _elements(value)]
    if len(set(elements)) < len(elements):
        raise InvalidConfig(f"{name} must not contain duplicate tag keys.")


def no_empty_names(name: str, value: ConfigValue | None) -> None:
    """As `no_empty_elements`, for a list that is described as a string. It may be null."""
    if value is not None and any(not element.strip() for element in str(value).split(",")):
        raise InvalidConfig(f"Configuration '{name}' values must not be empty.")


def non_empty(name: str, value: ConfigValue | None) -> None:
    """A string may be null, but not empty."""
    if value == "":
        raise invalid_value(name, value, "String must be non-empty")


def non_null(name: str, value: ConfigValue | None) -> None:
    if value is None:
        raise invalid_value(name, value, "entry must be non null")


def throttled_replicas(name: str, value: ConfigValue | None) -> None:
    """`*`, or `partition:broker` pairs (KIP-73)."""
    elements = [element.strip() for element in _elements(value)]
    are_pairs = all(re.fullmatch(r"(?:[0-9]{1,10}:[0-9]{1,10})?", element) for element in elements)
    if not are_pairs and "".join(elements) != "*":
        reason = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise invalid_value(name, value, reason)


def quorum_voters(name: str, value: ConfigValue | None) -> None:
    """`{id}@{host}:{port}` entries."""
    if value is None:
        raise invalid_value(name, value, None)
    parse_quorum_voters(_elements(value))


def quorum_servers(name: str, value: ConfigValue | None) -> None:
    """`{host}:{port}` entries."""
    if value is None:
        raise invalid_value(name, value, None)
    for entry in _elements(value):
        parse_quorum_server(entry)


def _number(name: str, value: ConfigValue | None) -> float:
    if value is None:
        raise invalid_value(name, value, "Value must be non-null")
    assert isinstance(value, (int, float)), f"{name} has a validator of numbers, and another value"
    return value


def _elements(value: ConfigValue | None) -> tuple[str, ...]:
    assert isinstance(value, tuple), "a validator of lists got another value"
    return value
