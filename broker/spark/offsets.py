"""Offsets by partition, and the JSON that Spark's Kafka connector writes them in: {"topic": {"0": 23, "1": -1}}."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from broker.client import TopicPartition

Offsets: TypeAlias = dict[TopicPartition, int]

# Stand for an offset that the cluster knows.
LATEST: Final = -1
EARLIEST: Final = -2

_DIGITS: Final = re.compile("[0-9]{1,10}")
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


class IllegalJson(ValueError):
    """JSON that does not have the form of an option, or of a checkpoint's offsets."""


def partitions_from_json(text: str) -> list[TopicPartition]:
    """The partitions in the form {"topicA": [0, 1], "topicB": [0, 1]}. Raises IllegalJson."""
    try:
        topics = _object(json.loads(text))
        return [TopicPartition(topic, _partition(number)) for topic, numbers in topics for number in _array(numbers)]
    except (ValueError, RecursionError):
        raise IllegalJson(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def offsets_from_json(text: str) -> Offsets:
    """Reads offsets, of which some may be LATEST or EARLIEST. Raises IllegalJson."""
    try:
        return _numbers_by_partition(text, _offset)
    except (ValueError, RecursionError):
        raise IllegalJson(f'Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}') from None


def timestamps_from_json(text: str) -> dict[TopicPartition, int]:
    """Times in milliseconds since 1970 by partition, in the form of offsets. Raises IllegalJson."""
    try:
        return _numbers_by_partition(text, _timestamp)
    except (ValueError, RecursionError):
        raise IllegalJson(
            'Expected e.g. {"topicA": {"0": 123456789, "1": 123456789},\n'
            f'"topicB": {{"0": 123456789, "1": 123456789}}}}, got {text}'
        ) from None


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Encodes offsets, sorted by topic and partition, so that equal offsets have equal texts."""
    topics: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return json.dumps(topics, separators=(",", ":"))


def named(partition: TopicPartition) -> str:
    """The partition's name in messages, as in Kafka's."""
    return f"{partition.topic}-{partition.partition}"


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """The partitions' names in messages, sorted."""
    return ", ".join(named(partition) for partition in sorted(partitions))


def _numbers_by_partition(text: str, number: Callable[[Any], int]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, _partition(_index(index))): number(value)
        for topic, partitions in _object(json.loads(text))
        for index, value in _object(partitions)
    }


def _object(value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise IllegalJson
    return iter(value.items())


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise IllegalJson
    return value


def _integer(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError
    return value


def _index(text: str) -> int:
    """The number of a partition in a key of JSON: digits only, where Python's `int` takes `0_0` as well."""
    if not _DIGITS.fullmatch(text):
        raise ValueError
    return int(text)


def _partition(value: Any) -> int:
    return _integer(value, 0, _INT32_MAX)


def _offset(value: Any) -> int:
    return _integer(value, EARLIEST, _INT64_MAX)


def _timestamp(value: Any) -> int:
    return _integer(value, 0, _INT64_MAX)
