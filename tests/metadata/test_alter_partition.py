"""AlterPartition: the ISR changes that a leader may make (KIP-497, KIP-704, KIP-841, KIP-903)."""

from typing import Any

import attrs
import pytest

from metadata.controller import AlteredPartition, ConfigChange, IsrChange, IsrMember, NewTopic, TopicIsrChanges
from metadata.controller.alter_partition import AlterPartitionControl
from metadata.image import ConfigResource, PartitionImage
from metadata.protocol import ConfigOperation, ConfigResourceType, ErrorCode, KafkaError
from metadata.records import LEADER_RECOVERED, LEADER_RECOVERING
from tests.support.metadata import Cluster, schema


def cluster_of_three(min_insync_replicas: int = 1) -> Cluster:
    cluster = Cluster(4)
    configs = {"min.insync.replicas": str(min_insync_replicas)}
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", assignments=[(0, (1, 2, 3))], configs=configs)]))
    return cluster


def partition(cluster: Cluster) -> PartitionImage:
    return cluster.image.topics.by_name["t"].partitions[0]


def isr_of(cluster: Cluster, *brokers: int) -> list[IsrMember]:
    return [IsrMember(broker, cluster.image.cluster.brokers[broker].broker_epoch) for broker in brokers]


def alter(
    cluster: Cluster, new_isr: list[IsrMember], *, topic_id: bytes | None = None, **changes: Any
) -> AlteredPartition:
    now = partition(cluster)
    change = attrs.evolve(
        IsrChange(partition_id=0, leader_epoch=now.leader_epoch, partition_epoch=now.partition_epoch, new_isr=new_isr),
        **changes,
    )
    topic_id = topic_id or cluster.image.topics.by_name["t"].topic_id
    leader = max(now.leader, 1)
    epoch = cluster.image.cluster.brokers[leader].broker_epoch
    decision = AlterPartitionControl(schema()).alter(
        cluster.image, leader, epoch, [TopicIsrChanges(topic_id, [change])]
    )
    (topic,) = cluster.decide(decision)
    (altered,) = topic.partitions
    return altered


def refused(cluster: Cluster, new_isr: list[IsrMember], **changes: Any) -> ErrorCode:
    end = cluster.image.offset
    altered = alter(cluster, new_isr, **changes)
    assert cluster.image.offset == end
    assert altered.error is not None
    assert altered.partition is None
    return altered.error.code


def test_leader_shrinks_and_expands_the_isr() -> None:
    """A change of the ISR alone raises the partition epoch and not the leader epoch (KAFKA-15021)."""
    cluster = cluster_of_three()
    altered = alter(cluster, isr_of(cluster, 1, 3))
    assert altered.error is None
    assert altered.partition == partition(cluster)
    assert (altered.partition.isr, altered.partition.leader_epoch, altered.partition.partition_epoch) == ((1, 3), 0, 1)
    alter(cluster, isr_of(cluster, 1, 2, 3))
    assert (partition(cluster).isr, partition(cluster).partition_epoch) == ((1, 2, 3), 2)


def test_unchanged_isr_is_confirmed_without_a_record() -> None:
    cluster = cluster_of_three()
    end = cluster.image.offset
    assert alter(cluster, isr_of(cluster, 1, 2, 3)).partition == partition(cluster)
    assert cluster.image.offset == end


def test_replica_removed_below_min_insync_replicas_becomes_eligible() -> None:
    """KIP-966."""
    cluster = cluster_of_three(min_insync_replicas=2)
    alter(cluster, isr_of(cluster, 1, 2))
    assert partition(cluster).eligible_leader_replicas == ()
    alter(cluster, isr_of(cluster, 1))
    assert partition(cluster).eligible_leader_replicas == (2,)
    alter(cluster, isr_of(cluster, 1, 3))
    assert partition(cluster).eligible_leader_replicas == ()


def test_isr_change_with_wrong_epochs_is_refused() -> None:
    cluster = cluster_of_three()
    cluster.fence(1)
    cluster.heartbeat(1)
    isr = isr_of(cluster, 2, 3)
    now = partition(cluster)
    assert now.leader == 2
    assert refused(cluster, isr, leader_epoch=now.leader_epoch - 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(cluster, isr, partition_epoch=now.partition_epoch - 1) is ErrorCode.INVALID_UPDATE_VERSION
    assert refused(cluster, isr, leader_epoch=now.leader_epoch + 1) is ErrorCode.NOT_CONTROLLER
    assert refused(cluster, isr, partition_epoch=now.partition_epoch + 1) is ErrorCode.NOT_CONTROLLER


def test_isr_change_of_another_broker_than_the_leader_is_refused() -> None:
    cluster = cluster_of_three()
    now = partition(cluster)
    change = IsrChange(
        partition_id=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr=isr_of(cluster, 1, 2),
    )
    topics = [TopicIsrChanges(cluster.image.topics.by_name["t"].topic_id, [change])]
    epoch = cluster.image.cluster.brokers[2].broker_epoch
    (topic,) = AlterPartitionControl(schema()).alter(cluster.image, 2, epoch, topics).response
    assert topic.partitions[0].error is not None
    assert topic.partitions[0].error.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        AlterPartitionControl(schema()).alter(cluster.image, 2, epoch - 1, topics)


def test_leader_that_leaves_the_isr_is_replaced_by_another_member() -> None:
    """A leader whose log is damaged leaves; the other members stay, and one of them leads. Kafka refuses this."""
    cluster = cluster_of_three(min_insync_replicas=2)
    before = partition(cluster)
    altered = alter(cluster, isr_of(cluster, 2, 3))
    assert altered.error is not None
    assert altered.error.code is ErrorCode.NEW_LEADER_ELECTED
    now = partition(cluster)
    assert (now.leader, now.isr, now.eligible_leader_replicas) == (2, (2, 3), ())
    assert now.leader_epoch == before.leader_epoch + 1
    assert now.leader_recovery_state == LEADER_RECOVERED


def test_leader_that_leaves_an_isr_below_min_insync_replicas_stays_eligible() -> None:
    """KIP-966: it still has all acknowledged records but the damaged ones."""
    cluster = cluster_of_three(min_insync_replicas=2)
    alter(cluster, isr_of(cluster, 1, 3))
    alter(cluster, isr_of(cluster, 3))
    assert (partition(cluster).leader, partition(cluster).isr) == (3, (3,))
    assert partition(cluster).eligible_leader_replicas == (1,)


@pytest.mark.parametrize("brokers", [(), (2,), (1, 1), (1, 4), (2, 3, 4)])
def test_isr_must_be_distinct_replicas_including_the_leader(brokers: tuple[int, ...]) -> None:
    cluster = cluster_of_three()
    assert refused(cluster, isr_of(cluster, *brokers)) is ErrorCode.INVALID_REQUEST


def test_isr_change_of_an_unknown_topic_or_partition_is_refused() -> None:
    cluster = cluster_of_three()
    assert refused(cluster, isr_of(cluster, 1), topic_id=b"?" * 16) is ErrorCode.UNKNOWN_TOPIC_ID
    assert refused(cluster, isr_of(cluster, 1), partition_id=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("why", ["fenced", "shutting down", "unregistered"])
def test_inactive_broker_is_not_added_to_an_isr(why: str) -> None:
    """KIP-841."""
    cluster = cluster_of_three()
    members = isr_of(cluster, 1, 2, 3)
    match why:
        case "fenced":
            cluster.fence(2)
        case "shutting down":
            cluster.decide(
                cluster.topics.create(cluster.image, [NewTopic("led by 2".replace(" ", "-"), assignments=[(0, (2,))])])
            )
            cluster.heartbeat(2, want_shut_down=True)
        case _:
            cluster.decide(cluster.brokers.unregister(cluster.image, 2))
    assert refused(cluster, members) is ErrorCode.INELIGIBLE_REPLICA


def test_kip_903_broker_of_a_former_incarnation_is_not_added_to_an_isr() -> None:
    """KIP-903: since its restart, the broker may lack the records for which the leader adds it."""
    cluster = cluster_of_three()
    before = isr_of(cluster, 1, 2, 3)
    cluster.join(2)
    assert partition(cluster).isr == (1, 3)
    assert refused(cluster, before) is ErrorCode.INELIGIBLE_REPLICA
    assert alter(cluster, [IsrMember(broker) for broker in (1, 2, 3)]).error is None, "-1 skips this check"


def test_kip_704_uncleanly_elected_leader_recovers_alone_and_once() -> None:
    """KIP-704."""
    cluster = cluster_of_three()
    for broker in (2, 3, 1):
        cluster.fence(broker)
    change = ConfigChange("unclean.leader.election.enable", ConfigOperation.SET, "true")
    cluster.heartbeat(3)
    cluster.decide(
        cluster.configs.incremental_alter(cluster.image, [(ConfigResource(ConfigResourceType.TOPIC, "t"), [change])])
    )
    after = partition(cluster)
    assert (after.leader, after.isr, after.leader_recovery_state) == (3, (3,), LEADER_RECOVERING)
    cluster.heartbeat(2)
    both = isr_of(cluster, 3, 2)
    assert refused(cluster, both, leader_recovery_state=LEADER_RECOVERING) is ErrorCode.INVALID_REQUEST
    assert refused(cluster, both, leader_recovery_state=7) is ErrorCode.INVALID_REQUEST
    assert alter(cluster, both, leader_recovery_state=LEADER_RECOVERED).error is None
    assert partition(cluster).leader_recovery_state == LEADER_RECOVERED
    assert refused(cluster, isr_of(cluster, 3), leader_recovery_state=LEADER_RECOVERING) is ErrorCode.INVALID_REQUEST
