"""Creation and deletion of topics."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from random import Random
from typing import NamedTuple

import attrs

from kraft import lazy_attrs
from metadata.configuration import ConfigSchema, InvalidConfig
from metadata.controller.controller_config import ControllerConfig
from metadata.controller.decision import Decision
from metadata.controller.partitions import MAX_PARTITIONS_PER_BATCH, assign_partition, place_partitions
from metadata.controller.topic_names import CLUSTER_METADATA_TOPIC, validate_topic_name
from metadata.ids import random_uuid
from metadata.image import MetadataImage, TopicsImage, unify_collision_chars
from metadata.protocol import ConfigResourceType, ErrorCode, KafkaError
from metadata.records import (
    ZERO_UUID,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from metadata.request_context import Requester, charge_mutations

DEFAULT = -1


@lazy_attrs.frozen
class NewTopic:
    """A topic to create. -1 stands for the broker's default, and is required if `assignments` is set.

    `assignments` are pairs of partition and brokers, with the preferred leader first.
    """

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, tuple[int, ...]]] = ()
    configs: Mapping[str, str | None] = attrs.field(factory=dict)


@lazy_attrs.frozen
class CreatedTopic:
    """The result of a NewTopic. With an `error`, the other fields are unset. `configs` are those set on the topic."""

    name: str
    error: KafkaError | None = None
    topic_id: bytes = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = attrs.field(factory=dict)


class TopicToDelete(NamedTuple):
    """A topic to delete, given by `name` or by `topic_id`."""

    name: str | None = None
    topic_id: bytes = ZERO_UUID

    @property
    def is_identified(self) -> bool:
        """True if it has a name or an id, and not both."""
        return (self.name is None) != (self.topic_id == ZERO_UUID)


@lazy_attrs.frozen
class DeletedTopic:
    name: str | None
    topic_id: bytes
    error: KafkaError | None = None


class TopicsControl:
    """Creates and deletes topics."""

    def __init__(self, config: ControllerConfig, schema: ConfigSchema, rng: Random) -> None:
        self._config = config
        self._schema = schema
        self._rng = rng

    def create(
        self, image: MetadataImage, topics: Sequence[NewTopic], context: Requester = None
    ) -> Decision[list[CreatedTopic]]:
        """Create topics, each of which succeeds or fails independently. The client is charged for their partitions.

        Raises KafkaError POLICY_VIOLATION for more partitions than one request may create.
        """
        self.check_total(topics)
        named = Counter(topic.name for topic in topics)
        records: list[MetadataRecord] = []
        created: list[CreatedTopic] = []
        for topic in topics:
            if named[topic.name] > 1:
                continue
            try:
                created.append(self._create(image, topic, records, context))
            except KafkaError as error:
                created.append(CreatedTopic(topic.name, error.with_traceback(None)))
        for name, times in named.items():
            if times > 1:
                created.append(CreatedTopic(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        return Decision(records, created)

    def delete(
        self, image: MetadataImage, topics: Sequence[TopicToDelete], context: Requester = None
    ) -> Decision[list[DeletedTopic]]:
        """Delete topics. The client is charged for their partitions. The results are in the order of the request, with
        equal entries together. A topic that is given by name and by id is not deleted, and has one result.

        Raises KafkaError TOPIC_DELETION_DISABLED.
        """
        if not self._config.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
        answers: list[DeletedTopic] = []
        ids: list[bytes] = []
        named = Counter(topics)
        given_twice = _given_by_name_and_id(image.topics, named)
        ids_given_twice = set(given_twice.values())
        # A topic that is named twice has one result; each entry that identifies no topic has its own.
        entries = (each for topic, times in named.items() for each in [topic] * (1 if topic.is_identified else times))
        for topic in entries:
            if topic.name is None and named[topic] == 1 and topic.topic_id in ids_given_twice:
                continue  # the result is that of its name
            try:
                name, topic_id = _to_delete(image.topics, topic, named[topic], given_twice)
                charge_mutations(context, len(image.topics.by_id[topic_id].partitions))
                ids.append(topic_id)
                answers.append(DeletedTopic(name, topic_id))
            except KafkaError as error:
                topic_id = given_twice.get(topic, topic.topic_id)
                answers.append(DeletedTopic(topic.name, topic_id, error.with_traceback(None)))
        return Decision([RemoveTopicRecord(topic_id=topic_id) for topic_id in ids], answers)

    def check_total(self, topics: Sequence[NewTopic]) -> None:
        """Raises KafkaError POLICY_VIOLATION for more partitions than one request may create.

        Topics that are named twice, and that of the metadata log, do not count, because they are not created.
        """
        named = Counter(topic.name for topic in topics)
        named[CLUSTER_METADATA_TOPIC] = 0
        counts = (self.partition_count(topic) for topic in topics if named[topic.name] == 1)
        if sum(counts) > MAX_PARTITIONS_PER_BATCH:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")

    def partition_count(self, topic: NewTopic) -> int:
        """The number of partitions of a topic to create."""
        if topic.assignments:
            return len(topic.assignments)
        return self._config.num_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)

    def _create(
        self, image: MetadataImage, topic: NewTopic, records: list[MetadataRecord], context: Requester
    ) -> CreatedTopic:
        _check_name(image.topics, topic.name)
        configs = self._checked_configs(topic)
        topic_id = random_uuid(self._rng)
        if topic.assignments:
            partitions = _assigned(image, topic, topic_id)
        else:
            partitions = self._placed(image, topic, topic_id)
        charge_mutations(context, len(partitions))
        records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        for name, value in configs.items():
            records.append(
                ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
            )
        records += partitions
        return CreatedTopic(topic.name, None, topic_id, len(partitions), len(partitions[0].replicas), configs)

    def _checked_configs(self, topic: NewTopic) -> dict[str, str]:
        without_value = [name for name, value in topic.configs.items() if value is None]
        if without_value:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(without_value)}"
            )
        configs = {name: value for name, value in topic.configs.items() if value is not None}
        try:
            self._schema.validate_topic(configs)
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error
        return configs

    def _placed(self, image: MetadataImage, topic: NewTopic, topic_id: bytes) -> list[PartitionRecord]:
        if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        count = self._config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
        factor = topic.replication_factor
        if factor == DEFAULT:
            factor = self._config.default_replication_factor
        try:
            return place_partitions(image, topic_id, range(count), factor, self._rng)
        except KafkaError as error:
            prefix = f"Unable to replicate the partition {factor} time(s): "
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR, prefix + error.message.removeprefix(prefix)
            ) from error


def _given_by_name_and_id(image: TopicsImage, entries: Mapping[TopicToDelete, int]) -> dict[TopicToDelete, bytes]:
    """The entries, each made once, whose topic's id the request gives as well, with that id."""
    ids = {entry.topic_id for entry in entries if entry.name is None}
    found = {}
    for entry, times in entries.items():
        topic = None if entry.name is None or not entry.is_identified else image.by_name.get(entry.name)
        if times == 1 and topic is not None and topic.topic_id in ids:
            found[entry] = topic.topic_id
    return found


def _to_delete(
    image: TopicsImage, topic: TopicToDelete, times: int, given_twice: Container[TopicToDelete]
) -> tuple[str, bytes]:
    """The name and id of a topic to delete, which the request names `times` times. Raises KafkaError."""
    by_id = topic.topic_id != ZERO_UUID
    if topic.name is None and not by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if topic.name is not None and by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic id." if by_id else "Duplicate topic name.")
    if topic.name is None:
        found = image.by_id.get(topic.topic_id)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return found.name, found.topic_id
    found = image.by_name.get(topic.name)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if topic in given_twice:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
    return found.name, found.topic_id


def _check_name(topics: TopicsImage, name: str) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        )
    if name in topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    validate_topic_name(name)
    colliding = topics.unified_names.get(unify_collision_chars(name) or "")
    if colliding:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding[0]}"
        )


def _assigned(image: MetadataImage, topic: NewTopic, topic_id: bytes) -> list[PartitionRecord]:
    given = "A manual partition assignment was specified, but"
    if topic.replication_factor != DEFAULT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{given} replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{given} numPartitions was not set to -1.")
    partitions: dict[int, PartitionRecord] = {}
    factor = None
    for partition_id, replicas in topic.assignments:
        if partition_id in partitions:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition_id}",
            )
        partitions[partition_id] = assign_partition(image.cluster, topic_id, partition_id, replicas, factor)
        factor = len(replicas)
    if sorted(partitions) != list(range(len(partitions))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [partitions[partition_id] for partition_id in range(len(partitions))]
