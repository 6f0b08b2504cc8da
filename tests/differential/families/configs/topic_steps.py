"""The requests that create, grow, delete and describe topics."""

from typing import Any, Final

import attrs

from broker.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from broker.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from tests.differential.comparable import comparable
from tests.differential.families.metadata_barrier import Changes
from tests.differential.sequences import Place, Step

_UNKNOWN_ID: Final = b"absent".ljust(16, b".")
# Names that begin so are not those of the sequence.
ABSOLUTE: Final = "="
# The first versions with topic ids, with structs in DeleteTopics, and with an empty list for "no topics".
_METADATA_IDS_FROM: Final = 10
_METADATA_BY_ID_FROM: Final = 12
_DELETE_STRUCTS_FROM: Final = 6
_NO_TOPICS_FROM: Final = 1
_VALIDATE_FROM: Final = 1


@attrs.define(eq=False)
class State(Changes):
    """The ids of the topics that the sequence has created, by name; `is_clean` once nothing of others is left."""

    topic_ids: dict[str, bytes] = attrs.field(factory=dict)
    is_clean: bool = False


def state_of(place: Place) -> State:
    state: State = place.state
    return state


def full_name(place: Place, name: str) -> str:
    return name.removeprefix(ABSOLUTE) if name.startswith(ABSOLUTE) else place.named(name)


def topic_id(place: Place, name: str) -> bytes:
    known = {**place.topic_ids, **state_of(place).topic_ids}
    return known.get(full_name(place, name), _UNKNOWN_ID)


class ChangingStep(Step):
    """A request after which the server needs a moment until it answers from the new metadata."""

    def observe(self, place: Place, response: Any) -> None:
        state_of(place).is_pending = True


@attrs.frozen
class Topic:
    """A topic to create."""

    name: str
    partitions: int = -1
    replicas: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@attrs.frozen(kw_only=True)
class CreateTopics(ChangingStep):
    version: int = 7
    topics: tuple[Topic, ...] = ()
    is_validation: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [
            CreatableTopic(
                name=full_name(place, each.name),
                num_partitions=each.partitions,
                replication_factor=each.replicas,
                assignments=[
                    CreatableReplicaAssignment(partition_index=at, broker_ids=list(ids)) for at, ids in each.assignments
                ],
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in each.configs],
            )
            for each in self.topics
        ]
        return CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=self.is_validation), self.version

    def observe(self, place: Place, response: Any) -> None:
        super().observe(place, response)
        for each in response.topics:
            if any(each.topic_id):
                state_of(place).topic_ids[each.name] = bytes(each.topic_id)

    def comparable(self, place: Place, response: Any) -> Any:
        """A topic that is only validated has an id that no other response has."""
        if self.is_validation:
            for each in response.topics:
                each.topic_id = bytes(16)
        found = comparable(response, place.labels)
        for each in found["topics"]:
            each["configs"] = each["configs"] and {config["name"]: config for config in each["configs"]}
        return found


@attrs.frozen(kw_only=True)
class DeleteTopics(ChangingStep):
    """`topics` are pairs of a name or None, and the name of the topic whose id is given, or None."""

    version: int = 6
    topics: tuple[tuple[str | None, str | None], ...] = ()

    def request(self, place: Place) -> tuple[Any, int]:
        message = DeleteTopicsRequest(timeout_ms=10_000)
        if self.version < _DELETE_STRUCTS_FROM:
            message.topic_names = [full_name(place, name) for name, _ in self.topics if name is not None]
            return message, self.version
        for name, named_by_id in self.topics:
            state = DeleteTopicState(name=None if name is None else full_name(place, name))
            if named_by_id is not None:
                state.topic_id = topic_id(place, named_by_id)
            message.topics.append(state)
        return message, self.version


@attrs.frozen(kw_only=True)
class CreatePartitions(ChangingStep):
    """`topics` are names with the new numbers of partitions, and the brokers of the new ones."""

    version: int = 3
    topics: tuple[tuple[str, int, tuple[tuple[int, ...], ...] | None], ...] = ()
    is_validation: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        topics = [
            CreatePartitionsTopic(
                name=full_name(place, name),
                count=count,
                assignments=None
                if assignments is None
                else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments],
            )
            for name, count, assignments in self.topics
        ]
        return CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=self.is_validation), self.version


@attrs.frozen(kw_only=True)
class Metadata(Step):
    """`topics` are names, or pairs as in DeleteTopics; without any, all topics of the sequence."""

    version: int = 13
    topics: tuple[tuple[str | None, str | None], ...] | None = None
    with_operations: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        message = MetadataRequest(allow_auto_topic_creation=True)
        message.include_topic_authorized_operations = self.with_operations
        if self.topics is None:
            message.topics = None if self.version >= _NO_TOPICS_FROM else []
            return message, self.version
        topics = []
        for name, named_by_id in self.topics:
            topic = MetadataRequestTopic(name=None if name is None else full_name(place, name))
            if named_by_id is not None and self.version >= _METADATA_IDS_FROM:
                topic.topic_id = topic_id(place, named_by_id)
            if topic.name is None and self.version < _METADATA_IDS_FROM:
                topic.name = ""
            topics.append(topic)
        message.topics = topics
        return message, self.version

    def comparable(self, place: Place, response: Any) -> Any:
        response.brokers = [each.node_id for each in response.brokers]
        response.cluster_id = None
        if not self.topics:
            response.topics = [each for each in response.topics if each.name.startswith(f"{place.name}-")]
        return comparable(response, place.labels)


@attrs.frozen(kw_only=True)
class DescribeTopicPartitions(Step):
    """Without topics, all topics of the sequence, from `cursor` on."""

    topics: tuple[str, ...] = ()
    limit: int = 2_000
    cursor: tuple[str, int] | None = None

    def request(self, place: Place) -> tuple[Any, int]:
        message = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=full_name(place, name)) for name in self.topics],
            response_partition_limit=self.limit,
        )
        if self.cursor is not None:
            name, index = self.cursor
            message.cursor = Cursor(topic_name=full_name(place, name), partition_index=index)
        return message, 0

    def comparable(self, place: Place, response: Any) -> Any:
        if not self.topics:
            response.topics = [each for each in response.topics if each.name.startswith(f"{place.name}-")]
            response.next_cursor = None
        return comparable(response, place.labels)
