"""The order in which Kafka's tools print what they keep in a hash map, so that outputs can be compared line by line."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from broker.client.types import TopicPartition

_LOAD_FACTOR: Final = 0.75
_DEFAULT_CAPACITY: Final = 16

T = TypeVar("T")


def hash_map_order(names: Iterable[str], *, capacity: int = _DEFAULT_CAPACITY) -> list[str]:
    """The names in the order of a java.util.HashMap of this initial capacity, into which they were put in turn."""
    return _ordered(names, hash_code, capacity)


def described_topics_order(names: Iterable[str]) -> list[str]:
    """The order in which Kafka's admin client returns the descriptions of topics.

    It puts them into a map of their number, copies this map, and puts the copy into another map of their number.
    """
    futures = list(dict.fromkeys(names))
    count = len(futures)
    for capacity in (count, int(count / _LOAD_FACTOR) + 1, count):
        futures = _ordered(futures, hash_code, capacity)
    return futures


def partition_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The partitions in the order of a java.util.HashMap."""
    return _ordered(partitions, lambda each: 31 * (31 + each.partition) + hash_code(each.topic), _DEFAULT_CAPACITY)


def hash_code(name: str) -> int:
    """String.hashCode, as an unsigned number."""
    units = name.encode("utf-16-be")
    code = 0
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return code


def _ordered(items: Iterable[T], code: Callable[[T], int], capacity: int) -> list[T]:
    unique = list(dict.fromkeys(items))
    buckets = 1
    while buckets < capacity or len(unique) > buckets * _LOAD_FACTOR:
        buckets *= 2

    def bucket(item: T) -> int:
        found = code(item) & 0xFFFFFFFF
        return (found ^ found >> 16) & (buckets - 1)

    return sorted(unique, key=bucket)
