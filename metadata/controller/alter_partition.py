"""Changes of an ISR that the leader of a partition asks for (KIP-497, KIP-841, KIP-903)."""

from collections.abc import Sequence

import attrs

from metadata.configuration import ConfigSchema
from metadata.controller.brokers import check_broker_epoch
from metadata.controller.decision import Decision
from metadata.controller.partition_change_builder import PartitionChangeBuilder, acceptable_leaders, election_rules
from metadata.errors import (
    ApiError,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from metadata.image import MetadataImage, PartitionImage, TopicImage, changed_partition
from metadata.records import LEADER_RECOVERED, LEADER_RECOVERING, PartitionChangeRecord

ANY_BROKER_EPOCH = -1


@attrs.frozen
class IsrMember:
    """A replica, and the life of its broker in which the leader saw it catch up; -1 where the leader does not say."""

    broker_id: int
    broker_epoch: int = ANY_BROKER_EPOCH


@attrs.frozen(kw_only=True)
class IsrChange:
    """What the leader wants for one partition, and the epochs of what it bases this on."""

    partition_id: int
    leader_epoch: int
    partition_epoch: int
    new_isr: Sequence[IsrMember]
    leader_recovery_state: int = LEADER_RECOVERED


@attrs.frozen
class TopicIsrChanges:
    topic_id: bytes
    partitions: Sequence[IsrChange]


@attrs.frozen
class AlteredPartition:
    """What came of an IsrChange; `partition` is what it has become, None with an `error`."""

    partition_id: int
    partition: PartitionImage | None
    error: ApiError | None = None


@attrs.frozen
class AlteredTopic:
    topic_id: bytes
    partitions: Sequence[AlteredPartition]


class AlterPartitionControl:
    """Decides who is in sync, on the word of the leader, which alone can know."""

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def alter(
        self, image: MetadataImage, broker_id: int, broker_epoch: int, topics: Sequence[TopicIsrChanges]
    ) -> Decision[list[AlteredTopic]]:
        """Each partition succeeds or fails for itself. Raises StaleBrokerEpoch for a leader of a former life.

        A partition is told of by its epochs: what a leader asks for on the ground of what is not true any more does
        not happen. No ISR ever gets a broker that is fenced, is shutting down, or lives another life than the one in
        which it caught up: it might have lost since what made it a member (KIP-903).
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
                raise UnknownTopicId
            partition = _checked(image, broker_id, topic, change)
        except ApiError as error:
            return AlteredPartition(change.partition_id, None, error)
        record = self._decide(image, topic, partition, change)
        if record is None:
            return AlteredPartition(change.partition_id, partition)
        records.append(record)
        after = changed_partition(partition, record)
        if after.leader != broker_id:
            return AlteredPartition(change.partition_id, None, NewLeaderElected())
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
    """The partition, if the leader's word on it counts."""
    partition = topic.partitions.get(change.partition_id)
    if partition is None:
        raise UnknownTopicOrPartition
    if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
        # The leader knows more than this controller, which then cannot be the active one for long.
        raise NotController
    if change.leader_epoch < partition.leader_epoch:
        raise FencedLeaderEpoch
    if broker_id != partition.leader:
        raise InvalidRequest
    if change.partition_epoch < partition.partition_epoch:
        raise InvalidUpdateVersion
    _check_isr(partition, change)
    if any(not _is_eligible(image, member) for member in change.new_isr):
        raise IneligibleReplica
    return partition


def _check_isr(partition: PartitionImage, change: IsrChange) -> None:
    isr = [member.broker_id for member in change.new_isr]
    if len(set(isr)) < len(isr) or any(replica not in partition.replicas for replica in isr):
        raise InvalidRequest
    if partition.leader not in isr:
        raise InvalidRequest
    if change.leader_recovery_state not in (LEADER_RECOVERED, LEADER_RECOVERING):
        raise InvalidRequest
    # Until it has recovered, an uncleanly elected leader is alone; and it recovers once (KIP-704).
    is_recovering = change.leader_recovery_state == LEADER_RECOVERING
    if is_recovering and (len(isr) > 1 or partition.leader_recovery_state == LEADER_RECOVERED):
        raise InvalidRequest


def _is_eligible(image: MetadataImage, member: IsrMember) -> bool:
    broker = image.cluster.brokers.get(member.broker_id)
    if broker is None or not broker.is_active:
        return False
    return member.broker_epoch in (ANY_BROKER_EPOCH, broker.broker_epoch)
