"""The topics and partitions to read: exactly one of assign, subscribe and subscribePattern."""

import re
from typing import Final, TypeAlias

import attrs

from broker.client import TopicPartition
from broker.spark.offsets import partitions_from_json
from broker.spark.options.option_map import IllegalOption, OptionMap

# In the order in which Spark's messages list them.
_NAMES: Final = ("subscribe", "subscribePattern", "assign")
_LISTED: Final = "subscribe, subscribepattern, assign"


@attrs.frozen
class Assign:
    """Exactly these partitions."""

    partitions: tuple[TopicPartition, ...]


@attrs.frozen
class Subscribe:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@attrs.frozen
class SubscribePattern:
    """All partitions of the topics whose whole names a regular expression matches; internal topics never match."""

    pattern: str

    def matches(self, topic: str) -> bool:
        return re.fullmatch(self.pattern, topic) is not None


TopicChoice: TypeAlias = Assign | Subscribe | SubscribePattern


def read_topics(options: OptionMap) -> TopicChoice:
    """Reads the topics to read. Raises IllegalOption, with the messages of Spark's connector."""
    given = [name for name in _NAMES if name in options]
    if not given:
        raise IllegalOption(
            f"One of the following options must be specified for Kafka source: {_LISTED}. "
            "See the docs for more details."
        )
    if len(given) > 1:
        raise IllegalOption(
            f"Only one of the following options can be specified for Kafka source: {_LISTED}. "
            "See the docs for more details."
        )
    value = options.text(given[0]) or ""
    match given[0]:
        case "assign":
            return _read_assign(value)
        case "subscribe":
            return _read_subscribe(value)
    return _read_pattern(value)


def _read_assign(value: str) -> Assign:
    if not value.strip().startswith("{"):
        raise IllegalOption(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    return Assign(tuple(partitions_from_json(value)))


def _read_subscribe(value: str) -> Subscribe:
    topics = tuple(dict.fromkeys(name for part in value.split(",") if (name := part.strip())))
    if not topics:
        raise IllegalOption(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
    return Subscribe(topics)


def _read_pattern(value: str) -> SubscribePattern:
    pattern = value.strip()
    if not pattern:
        raise IllegalOption(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise IllegalOption(f"subscribePattern '{pattern}' is not a regular expression: {error}") from error
    return SubscribePattern(pattern)
