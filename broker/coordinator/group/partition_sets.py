"""Sets of partitions by topic id, as assignments are kept. They are never changed, and no topic's set is empty."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeAlias

# By topic id.
PartitionSets: TypeAlias = Mapping[bytes, frozenset[int]]

NO_PARTITIONS: Final[PartitionSets] = {}
_NOTHING: Final[frozenset[int]] = frozenset()


class TopicPartitions(Protocol):
    """The fields of a topic in messages and records."""

    topic_id: bytes
    partitions: list[int]


def partition_sets(topics: Iterable[TopicPartitions]) -> PartitionSets:
    """Converts the topics of a message or a record."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


def as_message(sets: PartitionSets, make: Any) -> list[Any]:
    """Converts to topics of a message or a record; `make` is their class."""
    return [make(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in sets.items()]


def of_topic(sets: PartitionSets, topic_id: bytes) -> frozenset[int]:
    return sets.get(topic_id, _NOTHING)


def count(sets: PartitionSets) -> int:
    return sum(len(partitions) for partitions in sets.values())


def union(first: PartitionSets, second: PartitionSets) -> PartitionSets:
    if not second:
        return first
    return {
        topic_id: of_topic(first, topic_id) | of_topic(second, topic_id)
        for topic_id in dict.fromkeys([*first, *second])
    }


def intersection(first: PartitionSets, second: PartitionSets) -> PartitionSets:
    """The partitions that are in both, in the order of the first."""
    return _without_empty({topic_id: partitions & of_topic(second, topic_id) for topic_id, partitions in first.items()})


def difference(first: PartitionSets, second: PartitionSets) -> PartitionSets:
    """The partitions that are in the first only."""
    if not second:
        return first
    return _without_empty({topic_id: partitions - of_topic(second, topic_id) for topic_id, partitions in first.items()})


def is_within(part: PartitionSets, whole: PartitionSets) -> bool:
    return all(partitions <= of_topic(whole, topic_id) for topic_id, partitions in part.items())


def _without_empty(sets: dict[bytes, frozenset[int]]) -> PartitionSets:
    return {topic_id: partitions for topic_id, partitions in sets.items() if partitions}
