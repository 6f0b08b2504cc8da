"""ISR changes that partition leaders request (AlterPartition: KIP-497, KIP-841, KIP-903)."""

from collections.abc import Sequence

from kraft import lazy_attrs
from metadata.configuration import ConfigSchema
from metadata.controller.brokers import check_broker_epoch
from metadata.controller.decision import Decision
from metadata.controller.partition_change_builder import PartitionChangeBuilder, acceptable_leaders, election_rules
from metadata.image import MetadataImage, PartitionImage, TopicImage, changed_partition
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import LEADER_RECOVERED, LEADER_RECOVERING, PartitionChangeRecord

ANY_BROKER_EPOCH = -1


@lazy_attrs.frozen
class IsrMember:
    """A replica, and the epoch of its broker when it caught up; ANY_BROKER_EPOCH if the leader does not send it."""

    broker_id: int
    broker_epoch: int = ANY_BROKER_EPOCH


@lazy_attrs.frozen(kw_only=True)
class IsrChange:
    """The requested ISR of one partition, and the epochs of the state on which the leader bases it."""

    partition_id: int
    leader_epoch: int
    partition_epoch: int
    new_isr: Sequence[IsrMember]
    leader_recovery_state: int = LEADER_RECOVERED


@lazy_attrs.frozen
class TopicIsrChanges:
    topic_id: bytes
    partitions: Sequence[IsrChange]


@lazy_attrs.frozen
class AlteredPartition:
    """The result of an IsrChange: the changed partition, or an error."""

    partition_id: int
    partition: PartitionImage | None
    error: KafkaError | None = None


@lazy_attrs.frozen
class AlteredTopic:
    topic_id: bytes
    partitions: Sequence[AlteredPartition]


class AlterPartitionControl:
    """Decides ISR changes. Only a partition's leader knows which replicas are in sync, so it requests them."""

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def alter(
        self, image: MetadataImage, broker_id: int, broker_epoch: int, topics: Sequence[TopicIsrChanges]
    ) -> Decision[list[AlteredTopic]]:
        """Each partition succeeds or fails independently.

        Raises KafkaError STALE_BROKER_EPOCH for a former incarnation of the broker.

        A change with old epochs is refused, because it is based on an old state. A broker is never added to an ISR
        while it is fenced or shutting down, or if it has restarted since it caught up: it may have lost records
        (KIP-903).
        """
        check_broker_epoch(image, broker_id, broker_epoch)
        records: list[PartitionChangeRecord] = []
        altered = [
            AlteredTopic(
                topic.topic_id,
                [self._alter(image, broker_id, topic.topic_id, change, records) for change in topic.partitions],
            )
            for topic in topics
        ]
        return Decision(records, altered)

    def _alter(
        self,
        image: MetadataImage,
        broker_id: int,
        topic_id: bytes,
        change: IsrChange,
        records: list[PartitionChangeRecord],
    ) -> AlteredPartition:
        try:
            topic = image.topics.by_id.get(topic_id)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            partition = _checked(image, broker_id, topic, change)
        except KafkaError as error:
            return AlteredPartition(change.partition_id, None, error)
        record = self._decide(image, topic, partition, change)
        if record is None:
            return AlteredPartition(change.partition_id, partition)
        after = changed_partition(partition, record)
        isr = [member.broker_id for member in change.new_isr]
        if broker_id not in isr and after.leader not in isr:
            return AlteredPartition(change.partition_id, None, KafkaError(ErrorCode.INELIGIBLE_REPLICA))
        records.append(record)
        if after.leader != broker_id:
            return AlteredPartition(change.partition_id, None, KafkaError(ErrorCode.NEW_LEADER_ELECTED))
        return AlteredPartition(change.partition_id, after)

    def _decide(
        self, image: MetadataImage, topic: TopicImage, partition: PartitionImage, change: IsrChange
    ) -> PartitionChangeRecord | None:
        return PartitionChangeBuilder(
            topic_id=topic.topic_id,
            partition_id=change.partition_id,
            partition=partition,
            rules=election_rules(image, topic, self._schema),
            may_lead=acceptable_leaders(image, partition),
            isr=tuple(member.broker_id for member in change.new_isr),
            leader_recovery_state=change.leader_recovery_state,
        ).build()


def _checked(image: MetadataImage, broker_id: int, topic: TopicImage, change: IsrChange) -> PartitionImage:
    """Return the partition after checking the request's epochs and the new ISR."""
    partition = topic.partitions.get(change.partition_id)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        # The leader has a newer state than this controller, which was therefore replaced as the active one.
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if change.leader_epoch < partition.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if change.partition_epoch < partition.partition_epoch:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)
    _check_isr(partition, change)
    if any(not _is_eligible(image, member) for member in change.new_isr):
        raise KafkaError(ErrorCode.INELIGIBLE_REPLICA)
    return partition


def _check_isr(partition: PartitionImage, change: IsrChange) -> None:
    isr = [member.broker_id for member in change.new_isr]
    if len(set(isr)) < len(isr) or any(replica not in partition.replicas for replica in isr):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if partition.leader not in isr and not _is_handover(partition, isr):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if change.leader_recovery_state not in (LEADER_RECOVERED, LEADER_RECOVERING):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    # An uncleanly elected leader is the only ISR member until it has recovered, which happens once (KIP-704).
    is_recovering = change.leader_recovery_state == LEADER_RECOVERING
    if is_recovering and (len(isr) > 1 or partition.leader_recovery_state == LEADER_RECOVERED):
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _is_handover(partition: PartitionImage, isr: Sequence[int]) -> bool:
    """Whether the leader alone leaves the ISR, so that another member leads.

    A leader requests this when its log is damaged. Kafka refuses it: there, only a whole log directory can fail.
    """
    return bool(isr) and set(isr) == set(partition.isr) - {partition.leader}


def _is_eligible(image: MetadataImage, member: IsrMember) -> bool:
    broker = image.cluster.brokers.get(member.broker_id)
    if broker is None or not broker.is_active:
        return False
    return member.broker_epoch in (ANY_BROKER_EPOCH, broker.broker_epoch)
