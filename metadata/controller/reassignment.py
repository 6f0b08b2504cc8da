"""Partition reassignments (KIP-455)."""

from collections.abc import Iterable, Sequence

from kraft import lazy_attrs
from metadata.configuration import ConfigSchema
from metadata.controller.assignment import Assignment
from metadata.controller.decision import Decision
from metadata.controller.partition_change_builder import PartitionChangeBuilder, acceptable_leaders, election_rules
from metadata.controller.partitions import MAX_PARTITIONS_PER_BATCH, check_assignment, default_directory
from metadata.image import MetadataImage, PartitionImage, TopicImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import PartitionChangeRecord


@lazy_attrs.frozen
class Reassignment:
    """The target replicas of a partition, with the preferred leader first; None cancels the ongoing reassignment."""

    partition_id: int
    replicas: tuple[int, ...] | None


@lazy_attrs.frozen
class TopicReassignments:
    name: str
    partitions: Sequence[Reassignment]


@lazy_attrs.frozen
class ReassignedPartition:
    """The result of a Reassignment. Without an `error`, it has started or is complete already."""

    partition_id: int
    error: KafkaError | None = None


@lazy_attrs.frozen
class ReassignedTopic:
    name: str
    partitions: Sequence[ReassignedPartition]


@lazy_attrs.frozen
class OngoingReassignment:
    partition_id: int
    partition: PartitionImage


@lazy_attrs.frozen
class OngoingTopicReassignments:
    """The partitions of one topic with ongoing reassignments; never empty."""

    name: str
    partitions: Sequence[OngoingReassignment]


class ReassignmentsControl:
    """Starts and cancels reassignments. `PartitionChangeBuilder` completes them with the ISR change that allows it."""

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def alter(
        self, image: MetadataImage, topics: Sequence[TopicReassignments], *, allow_factor_change: bool
    ) -> Decision[list[ReassignedTopic]]:
        """Each partition succeeds or fails independently. If a partition is repeated, the last element wins.

        Raises KafkaError POLICY_VIOLATION for more partitions than one request may move.
        """
        self.check_total(topics)
        changes: dict[tuple[bytes, int], PartitionChangeRecord] = {}
        answers = []
        for asked in topics:
            topic = image.topics.by_name.get(asked.name)
            partitions = []
            for one in asked.partitions:
                try:
                    self._alter(image, topic, asked.name, one, allow_factor_change, changes)
                    partitions.append(ReassignedPartition(one.partition_id))
                except KafkaError as error:
                    partitions.append(ReassignedPartition(one.partition_id, error.with_traceback(None)))
            answers.append(ReassignedTopic(asked.name, partitions))
        return Decision(list(changes.values()), answers)

    def check_total(self, topics: Sequence[TopicReassignments]) -> None:
        """Raises KafkaError POLICY_VIOLATION for more partitions than one request may move."""
        if sum(len(topic.partitions) for topic in topics) > MAX_PARTITIONS_PER_BATCH:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")

    def _alter(
        self,
        image: MetadataImage,
        topic: TopicImage | None,
        name: str,
        asked: Reassignment,
        allow_factor_change: bool,
        changes: dict[tuple[bytes, int], PartitionChangeRecord],
    ) -> None:
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        partition = topic.partitions.get(asked.partition_id)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{asked.partition_id}."
            )
        if asked.replicas is None:
            change = self._cancel(image, topic, asked.partition_id, partition)
        else:
            check_assignment(image.cluster, asked.replicas, None, partition.replicas)
            before = Assignment.of(partition)
            if not allow_factor_change:
                _check_factor(before, asked.replicas)
            after = before.towards(asked.replicas, lambda broker: default_directory(image.cluster, broker))
            change = self._decide(image, topic, asked.partition_id, partition, after)
        # All changes are decided on the same state, so only one change of a partition can be applied.
        changes.pop((topic.topic_id, asked.partition_id), None)
        if change is not None:
            changes[topic.topic_id, asked.partition_id] = change

    def _cancel(
        self, image: MetadataImage, topic: TopicImage, partition_id: int, partition: PartitionImage
    ) -> PartitionChangeRecord | None:
        """Remove the added replicas at once, including one that leads."""
        if not partition.is_reassigning:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
        after = Assignment.of(partition).reverted()
        change = self._decide(image, topic, partition_id, partition, after)
        have_most = (*partition.isr, *partition.eligible_leader_replicas, *partition.last_known_elr)
        is_led_uncleanly = change is not None and change.leader >= 0
        if not is_led_uncleanly and not any(replica in after.replicas for replica in have_most):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{partition_id} because it would require an "
                "unclean leader election.",
            )
        return change

    def _decide(
        self,
        image: MetadataImage,
        topic: TopicImage,
        partition_id: int,
        partition: PartitionImage,
        assignment: Assignment,
    ) -> PartitionChangeRecord | None:
        return PartitionChangeBuilder(
            topic_id=topic.topic_id,
            partition_id=partition_id,
            partition=partition,
            rules=election_rules(image, topic, self._schema),
            may_lead=acceptable_leaders(image, partition),
            isr=tuple(replica for replica in partition.isr if replica in assignment.replicas),
            assignment=assignment,
        ).build()


def ongoing_reassignments(
    image: MetadataImage, wanted: Iterable[tuple[str, Iterable[int]]] | None
) -> list[OngoingTopicReassignments]:
    """The ongoing reassignments of the wanted partitions, or of all for None. Others are left out."""
    found: Iterable[tuple[TopicImage | None, Iterable[int]]]
    if wanted is None:
        found = [(image.topics.by_id[topic_id], indexes) for topic_id, indexes in image.topics.reassigning.items()]
    else:
        found = [(image.topics.by_name.get(name), indexes) for name, indexes in wanted]
    topics = []
    for topic, indexes in found:
        if topic is None:
            continue
        ongoing = [
            OngoingReassignment(index, partition)
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None and partition.is_reassigning
        ]
        if ongoing:
            topics.append(OngoingTopicReassignments(topic.name, ongoing))
    return topics


def _check_factor(before: Assignment, replicas: Sequence[int]) -> None:
    """Raises KafkaError INVALID_REPLICATION_FACTOR if the number of target replicas changes (KIP-860)."""
    if len(replicas) != len(before.target):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(before.target)} to {len(replicas)}",
        )
