"""The log directories of replicas, which brokers report (KIP-858).

The controller uses them when a directory fails: then only the replicas in it are lost, not the other ones of the
broker.
"""

from collections.abc import Iterator, Sequence

import attrs

from kraft import lazy_attrs
from metadata.configuration import ConfigSchema
from metadata.controller.brokers import check_broker_epoch
from metadata.controller.decision import Decision
from metadata.controller.partition_change_builder import PartitionChangeBuilder, acceptable_leaders, election_rules
from metadata.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, is_reserved
from metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import PartitionChangeRecord


@lazy_attrs.frozen
class DirectoryAssignment:
    """The log directory of a broker's replica; LOST_DIRECTORY for a replica that the broker cannot find."""

    directory_id: bytes
    topic_id: bytes
    partition_id: int


@lazy_attrs.frozen
class AssignedReplica:
    """The result of an assignment; `error` is None if it succeeded."""

    assignment: DirectoryAssignment
    error: KafkaError | None = None


class ReplicaDirectoriesControl:
    """Decides the changes that follow from the directories of replicas."""

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def assign(
        self, image: MetadataImage, broker_id: int, broker_epoch: int, assignments: Sequence[DirectoryAssignment]
    ) -> Decision[list[AssignedReplica]]:
        """Each assignment succeeds or fails independently. Raises KafkaError STALE_BROKER_EPOCH."""
        broker = check_broker_epoch(image, broker_id, broker_epoch)
        records: list[PartitionChangeRecord] = []
        return Decision(records, list(self._outcomes(image, broker, assignments, records)))

    def _outcomes(
        self,
        image: MetadataImage,
        broker: BrokerImage,
        assignments: Sequence[DirectoryAssignment],
        records: list[PartitionChangeRecord],
    ) -> Iterator[AssignedReplica]:
        seen: dict[tuple[bytes, int], None] = {}
        for each in assignments:
            key = (each.topic_id, each.partition_id)
            try:
                if key in seen:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "A replica is in one directory.")
                topic, partition = _found(image, broker, each)
            except KafkaError as error:
                yield AssignedReplica(each, error)
                continue
            seen[key] = None
            record = self._move(image, broker, topic, partition, each)
            if record is not None:
                records.append(record)
            yield AssignedReplica(each)

    def _move(
        self,
        image: MetadataImage,
        broker: BrokerImage,
        topic: TopicImage,
        partition: PartitionImage,
        assignment: DirectoryAssignment,
    ) -> PartitionChangeRecord | None:
        place = partition.replicas.index(broker.broker_id)
        before = partition.directories or (UNASSIGNED_DIRECTORY,) * len(partition.replicas)
        after = (*before[:place], assignment.directory_id, *before[place + 1 :])
        if after == partition.directories:
            return None
        lost = _lost_its_log(broker, before[place], assignment.directory_id)
        is_gone = lost or assignment.directory_id not in broker.log_dirs
        moved = attrs.evolve(partition, directories=after)
        change = PartitionChangeBuilder(
            topic_id=topic.topic_id,
            partition_id=assignment.partition_id,
            partition=moved,
            rules=election_rules(image, topic, self._schema),
            may_lead=acceptable_leaders(image, moved),
            isr=tuple(replica for replica in partition.isr if replica != broker.broker_id or not is_gone),
            unclean_shutdown=broker.broker_id if lost else None,
        ).build()
        if change is None:
            change = PartitionChangeRecord(topic_id=topic.topic_id, partition_id=assignment.partition_id)
        return change if change.directories is not None else attrs.evolve(change, directories=after)


def _found(
    image: MetadataImage, broker: BrokerImage, assignment: DirectoryAssignment
) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.by_id.get(assignment.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(assignment.partition_id)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.broker_id not in partition.replicas:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return topic, partition


def _lost_its_log(broker: BrokerImage, before: bytes, after: bytes) -> bool:
    """True if the replica's records are lost.

    If the replica's previous directory is gone, its log in another directory is new and empty. Kafka treats such a
    replica as if it had all records.
    """
    if after == LOST_DIRECTORY:
        return True
    return not is_reserved(before) and before not in broker.log_dirs and after in broker.log_dirs
