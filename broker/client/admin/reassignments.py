"""Calls that move replicas to other brokers (KIP-455, KIP-860) and elect leaders (KIP-460)."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from broker.client.admin.routing import Deadline, Routing, by_topic
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.results import Outcomes, Results, failure
from broker.client.types import NodeId, TopicPartition
from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from broker.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from metadata.protocol import ElectionType

# ElectLeaders has types of elections from this version on (KIP-460).
_TYPES_SINCE = 1


@attrs.frozen
class PartitionReassignment:
    """A reassignment that is under way. `replicas` has all replicas, with those that are added and removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas that the partition has once the reassignment has ended."""
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)


class ReassignmentCalls(Routing):
    """Calls on the placement of replicas, and on leaders."""

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[NodeId] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Moves replicas to these brokers, the preferred leader first; None cancels a reassignment that is under way.

        It returns when the reassignments have begun; `list_partition_reassignments` shows those that are not finished.
        """

        async def ask(
            broker: Broker, pending: Sequence[TopicPartition], deadline: Deadline
        ) -> Outcomes[TopicPartition, None]:
            request = AlterPartitionReassignmentsRequest(
                timeout_ms=deadline.request_timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=_reassignable({each: reassignments[each] for each in pending}),
            )
            lowest = 0 if allow_replication_factor_change else 1
            response: AlterPartitionReassignmentsResponse = await broker.call(request, lowest=lowest)
            check(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): failure(each.error_code, each.error_message)
                for topic in response.responses
                for each in topic.partitions
            }

        return await self._change(reassignments, ask, timeout_ms)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Returns the reassignments that are under way, of all partitions or some. Raises KafkaError."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=[each.partition for each in of_topic])
                for topic, of_topic in by_topic(partitions).items()
            ]

        async def ask(broker: Broker, deadline: Deadline) -> dict[TopicPartition, PartitionReassignment]:
            request = ListPartitionReassignmentsRequest(timeout_ms=deadline.request_timeout_ms, topics=topics)
            response: ListPartitionReassignmentsResponse = await broker.call(request)
            check(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                    tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return await self._ask_controller(ask, timeout_ms)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
        timeout_ms: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Elects leaders of these partitions, or of all partitions.

        The error of a partition that has the right leader already is ELECTION_NOT_NEEDED. If `partitions` is None, the
        results leave such partitions out. Raises KafkaError.
        """

        async def ask(
            broker: Broker, pending: Sequence[TopicPartition], deadline: Deadline
        ) -> Outcomes[TopicPartition, None]:
            return await _elect(broker, pending, election_type, deadline)

        async def ask_for_all(broker: Broker, deadline: Deadline) -> Results[TopicPartition, None]:
            return Results(await _elect(broker, None, election_type, deadline))

        if partitions is None:
            return await self._ask_controller(ask_for_all, timeout_ms)
        return await self._change(partitions, ask, timeout_ms)


def _reassignable(reassignments: Mapping[TopicPartition, Sequence[int] | None]) -> list[ReassignableTopic]:
    def of_partition(partition: TopicPartition) -> ReassignablePartition:
        replicas = reassignments[partition]
        return ReassignablePartition(
            partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
        )

    return [
        ReassignableTopic(name=topic, partitions=[of_partition(each) for each in of_topic])
        for topic, of_topic in by_topic(reassignments).items()
    ]


async def _elect(
    broker: Broker, partitions: Sequence[TopicPartition] | None, election_type: ElectionType, deadline: Deadline
) -> Outcomes[TopicPartition, None]:
    """Requests elections, of all partitions if `partitions` is None. Raises KafkaError."""
    topics = None
    if partitions is not None:
        topics = [
            TopicPartitions(topic=topic, partitions=[each.partition for each in of_topic])
            for topic, of_topic in by_topic(partitions).items()
        ]
    request = ElectLeadersRequest(
        election_type=election_type, topic_partitions=topics, timeout_ms=deadline.request_timeout_ms
    )
    lowest = 0 if election_type == ElectionType.PREFERRED else _TYPES_SINCE
    response: ElectLeadersResponse = await broker.call(request, lowest=lowest)
    check(response.error_code)
    return {
        TopicPartition(topic.topic, each.partition_id): failure(each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }
