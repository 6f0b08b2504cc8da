"""Topics: created, deleted, listed, given more partitions; records deleted from their start."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from broker.client.admin.resource_configs import ConfigEntry, entry_of_created_topic
from broker.client.admin.routing import Deadline, Routing, by_topic
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.results import Outcomes, Results, failure, outcome_of
from broker.client.types import Int16, Int32, NodeId, PartitionNumber, TopicPartition, Uuid
from broker.wire.api.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from broker.wire.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from broker.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from broker.wire.api.metadata import MetadataRequest, MetadataResponse

HIGH_WATERMARK: Final = -1
"""The offset for `delete_records` that deletes all committed records."""

_DEFAULT: Final = -1
# CreateTopics fills in the cluster's defaults from this version on (KIP-464).
_DEFAULTS_SINCE: Final = 4
# DeleteTopics takes ids from this version on (KIP-516).
_IDS_SINCE: Final = 6


@attrs.frozen
class NewTopic:
    """A topic to create.

    Where `num_partitions` or `replication_factor` is None, the cluster's default counts. `assignments` replaces both:
    it maps each partition, from 0 on, to the brokers of its replicas, the preferred leader first.
    """

    name: str
    num_partitions: Int32 | None = None
    replication_factor: Int16 | None = None
    assignments: Mapping[PartitionNumber, Sequence[NodeId]] | None = None
    configs: Mapping[str, str | None] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.assignments is not None and (self.num_partitions, self.replication_factor) != (None, None):
            raise ValueError(
                f"topic {self.name}: assignments already say how many partitions and replicas there are; "
                "leave out num_partitions and replication_factor"
            )


@attrs.frozen
class CreatedTopic:
    """A topic as it was created. Brokers before Kafka 2.4 report neither counts (-1) nor `configs` (None).

    `configs` is None too where the client may not see them.
    """

    name: str
    topic_id: bytes
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, ConfigEntry] | None


@attrs.frozen
class NewPartitions:
    """How many partitions a topic shall have in all. `assignments` are the replicas of the added ones, in order."""

    total_count: Int32
    assignments: Sequence[Sequence[NodeId]] | None = None


@attrs.frozen
class TopicListing:
    """`topic_id` has 16 bytes; it is all zeros from brokers before Kafka 2.8."""

    name: str
    topic_id: bytes
    is_internal: bool


class TopicCalls(Routing):
    """Calls on topics and their partitions."""

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout_ms: float | None = None
    ) -> Results[str, CreatedTopic]:
        """Creates topics; with `validate_only` they are only checked."""
        wanted: dict[str, NewTopic] = {}
        for topic in topics:
            if wanted.setdefault(topic.name, topic) is not topic:
                raise ValueError(f"topic {topic.name} is given twice")

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, CreatedTopic]:
            creatable = [_creatable(wanted[name]) for name in pending]
            request = CreateTopicsRequest(
                topics=creatable, timeout_ms=deadline.request_timeout_ms, validate_only=validate_only
            )
            lowest = _DEFAULTS_SINCE if any(map(_takes_defaults, creatable)) else 0
            response: CreateTopicsResponse = await broker.call(request, lowest=lowest)
            return {
                result.name: outcome_of(result.error_code, result.error_message, _created(result))
                for result in response.topics
            }

        return await self._change(wanted, ask, timeout_ms)

    async def delete_topics(
        self, topics: Iterable[str | Uuid], *, timeout_ms: float | None = None
    ) -> Results[str | bytes, None]:
        """Deletes topics by name (str) or id (16 bytes)."""

        async def ask(
            broker: Broker, pending: Sequence[str | bytes], deadline: Deadline
        ) -> Outcomes[str | bytes, None]:
            has_ids = any(isinstance(topic, bytes) for topic in pending)
            version = broker.version_of(DeleteTopicsRequest, lowest=_IDS_SINCE if has_ids else 0)
            request = _delete_request(pending, version, deadline.request_timeout_ms)
            response: DeleteTopicsResponse = await broker.call(request, version=version)
            outcomes: Outcomes[str | bytes, None] = {}
            for result in response.responses:
                # Brokers report both the name and the id, even if only one was asked for.
                for topic in (result.name or "", result.topic_id):
                    outcomes[topic] = failure(result.error_code, result.error_message)
            return outcomes

        return await self._change(topics, ask, timeout_ms)

    async def list_topics(
        self, *, include_internal: bool = False, timeout_ms: float | None = None
    ) -> list[TopicListing]:
        """Returns all topics, sorted by name."""

        async def ask(broker: Broker, deadline: Deadline) -> list[TopicListing]:
            version = broker.version_of(MetadataRequest)
            # Version 0 takes an empty list for all topics, later ones take null.
            request = MetadataRequest(topics=None if version > 0 else [])
            response: MetadataResponse = await broker.call(request, version=version)
            check(response.error_code)
            return sorted(
                (
                    TopicListing(topic.name, topic.topic_id, topic.is_internal)
                    for topic in response.topics
                    if topic.name and (include_internal or not topic.is_internal)
                ),
                key=lambda topic: topic.name,
            )

        return await self._ask_any(ask, timeout_ms)

    async def create_partitions(
        self,
        topics: Mapping[str, Int32 | NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Adds partitions to topics. `topics` maps each topic to the number of partitions that it is to have in all."""

        async def ask(broker: Broker, pending: Sequence[str], deadline: Deadline) -> Outcomes[str, None]:
            request = CreatePartitionsRequest(
                topics=[_more_partitions(name, topics[name]) for name in pending],
                timeout_ms=deadline.request_timeout_ms,
                validate_only=validate_only,
            )
            response: CreatePartitionsResponse = await broker.call(request)
            return {result.name: failure(result.error_code, result.error_message) for result in response.results}

        return await self._change(topics, ask, timeout_ms)

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> Results[TopicPartition, int]:
        """Deletes the records before an offset of each partition, or all that are committed (HIGH_WATERMARK).

        The value of a partition is its new low watermark: the first offset that every replica still has.
        """

        async def ask(
            broker: Broker, pending: Sequence[TopicPartition], deadline: Deadline
        ) -> Outcomes[TopicPartition, int]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=each.partition, offset=offsets[each])
                            for each in partitions
                        ],
                    )
                    for topic, partitions in by_topic(pending).items()
                ],
                timeout_ms=deadline.request_timeout_ms,
            )
            response: DeleteRecordsResponse = await broker.call(request)
            return {
                TopicPartition(topic.name, each.partition_index): outcome_of(each.error_code, None, each.low_watermark)
                for topic in response.topics
                for each in topic.partitions
            }

        return await self._by_leader(offsets, ask, timeout_ms)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
        for partition, replicas in (topic.assignments or {}).items()
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=_DEFAULT if topic.num_partitions is None else topic.num_partitions,
        replication_factor=_DEFAULT if topic.replication_factor is None else topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _takes_defaults(topic: CreatableTopic) -> bool:
    return not topic.assignments and _DEFAULT in (topic.num_partitions, topic.replication_factor)


def _created(result: CreatableTopicResult) -> CreatedTopic:
    is_told = result.configs is not None and result.num_partitions >= 0
    return CreatedTopic(
        name=result.name,
        topic_id=result.topic_id,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs={each.name: entry_of_created_topic(each) for each in result.configs or ()} if is_told else None,
    )


def _delete_request(topics: Sequence[str | bytes], version: int, timeout_ms: int) -> DeleteTopicsRequest:
    if version < _IDS_SINCE:
        names = [topic for topic in topics if isinstance(topic, str)]
        return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)
    states = [
        DeleteTopicState(topic_id=topic) if isinstance(topic, bytes) else DeleteTopicState(name=topic)
        for topic in topics
    ]
    return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)


def _more_partitions(name: str, wanted: int | NewPartitions) -> CreatePartitionsTopic:
    partitions = NewPartitions(wanted) if isinstance(wanted, int) else wanted
    assignments = partitions.assignments
    return CreatePartitionsTopic(
        name=name,
        count=partitions.total_count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments],
    )
