"""Leader elections that an operator requests (KIP-460): preferred and unclean ones."""

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from kraft import lazy_attrs
from metadata.configuration import ConfigSchema
from metadata.controller.decision import Decision
from metadata.controller.partition_change_builder import (
    ElectionRules,
    PartitionChangeBuilder,
    acceptable_leaders,
    election_rules,
)
from metadata.controller.partitions import MAX_PARTITIONS_PER_BATCH
from metadata.image import MetadataImage, PartitionImage, TopicImage
from metadata.protocol import ElectionType, ErrorCode, KafkaError
from metadata.records import NO_LEADER, NO_LEADER_CHANGE, PartitionChangeRecord

# The errors of partitions that an election of all partitions passes over.
_NOT_TO_ELECT: Final = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@lazy_attrs.frozen
class ElectedPartition:
    """The result for one partition; `error` is None if another leader was elected."""

    partition_id: int
    error: KafkaError | None = None


@lazy_attrs.frozen
class ElectedTopic:
    name: str
    partitions: Sequence[ElectedPartition]


class ElectLeadersControl:
    """Elects the leaders that an operator requests."""

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def elect(
        self,
        image: MetadataImage,
        election_type: int,
        wanted: Sequence[tuple[str, Sequence[int]]],
        *,
        needed_only: bool = False,
    ) -> Decision[list[ElectedTopic]]:
        """Elect leaders of `wanted`, partitions by topic, each of which succeeds or fails independently.

        With `needed_only`, the response leaves out partitions that need no election or do not exist. Raises
        KafkaError INVALID_REQUEST for an unknown type, POLICY_VIOLATION for more elections than one batch may have.
        """
        if election_type not in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
        elections = _Elections(image, self._schema, ElectionType(election_type))
        topics = [elections.named(name, partition_ids) for name, partition_ids in wanted]
        if needed_only:
            topics = list(map(_needed, topics))
        return Decision(list(elections.records.values()), topics)


def preferred_election(
    image: MetadataImage, topic: TopicImage, partition_id: int, partition: PartitionImage, rules: ElectionRules
) -> PartitionChangeRecord | None:
    """Elect the first replica. Returns None if it cannot be elected, or leads already. Never unclean."""
    return _leader_change(image, topic, partition_id, partition, attrs.evolve(rules, unclean=False), prefer_first=True)


class _Elections:
    """The elections of one request. A partition that is named twice is decided once."""

    def __init__(self, image: MetadataImage, schema: ConfigSchema, election_type: ElectionType) -> None:
        self._image = image
        self._schema = schema
        self._type = election_type
        self.records: dict[tuple[bytes, int], PartitionChangeRecord] = {}

    def named(self, name: str, partition_ids: Iterable[int]) -> ElectedTopic:
        topic = self._image.topics.by_name.get(name)
        if topic is not None:
            return self.of_topic(topic, partition_ids)
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        return ElectedTopic(name, [ElectedPartition(partition_id, unknown) for partition_id in partition_ids])

    def of_topic(self, topic: TopicImage, partition_ids: Iterable[int]) -> ElectedTopic:
        rules = election_rules(self._image, topic, self._schema)
        return ElectedTopic(topic.name, [self._elect(topic, partition_id, rules) for partition_id in partition_ids])

    def _elect(self, topic: TopicImage, partition_id: int, rules: ElectionRules) -> ElectedPartition:
        partition = topic.partitions.get(partition_id)
        if partition is None:
            error = KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic.name}-{partition_id}"
            )
            return ElectedPartition(partition_id, error)
        key = (topic.topic_id, partition_id)
        if key in self.records:
            return ElectedPartition(partition_id)
        is_preferred = self._type == ElectionType.PREFERRED
        if partition.leader == partition.replicas[0] if is_preferred else partition.leader != NO_LEADER:
            error = KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
            return ElectedPartition(partition_id, error)
        decide = preferred_election if is_preferred else _unclean_election
        record = decide(self._image, topic, partition_id, partition, rules)
        if record is None:
            return ElectedPartition(partition_id, _none_to_elect(is_preferred=is_preferred))
        if len(self.records) >= MAX_PARTITIONS_PER_BATCH:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        self.records[key] = record
        return ElectedPartition(partition_id)


def _none_to_elect(*, is_preferred: bool) -> KafkaError:
    if is_preferred:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    message = "Eligible topic partition leaders are not available."
    return KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)


def _unclean_election(
    image: MetadataImage, topic: TopicImage, partition_id: int, partition: PartitionImage, rules: ElectionRules
) -> PartitionChangeRecord | None:
    return _leader_change(image, topic, partition_id, partition, attrs.evolve(rules, unclean=True), prefer_first=False)


def _leader_change(
    image: MetadataImage,
    topic: TopicImage,
    partition_id: int,
    partition: PartitionImage,
    rules: ElectionRules,
    *,
    prefer_first: bool,
) -> PartitionChangeRecord | None:
    change = PartitionChangeBuilder(
        topic_id=topic.topic_id,
        partition_id=partition_id,
        partition=partition,
        rules=rules,
        may_lead=acceptable_leaders(image, partition),
        isr=partition.isr,
        prefer_first=prefer_first,
    ).build()
    return None if change is None or change.leader == NO_LEADER_CHANGE else change


def _needed(topic: ElectedTopic) -> ElectedTopic:
    needed = [each for each in topic.partitions if each.error is None or each.error.code not in _NOT_TO_ELECT]
    return ElectedTopic(topic.name, needed)
