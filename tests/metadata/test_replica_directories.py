"""Log directories of replicas, and failed directories (KIP-858)."""

from random import Random

import attrs
import pytest

from metadata.controller import AssignedReplica, DirectoryAssignment, NewTopic
from metadata.controller.partition_change_builder import acceptable_leaders
from metadata.controller.replica_directories import ReplicaDirectoriesControl
from metadata.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, random_uuid
from metadata.image import PartitionImage
from metadata.protocol import ErrorCode, KafkaError
from metadata.records import NO_LEADER
from tests.support.metadata import Cluster, schema

# Broker 1 has three of these directories; every other broker has only its default one.
ONE, TWO, GONE, ELSEWHERE = (random_uuid(Random(seed)) for seed in (100, 200, 300, 400))
OF_1 = [ONE, TWO, GONE]


def cluster_of_three(replicas: tuple[int, ...] = (1, 2, 3), min_insync_replicas: int = 2) -> Cluster:
    """Broker 1 leads the partition, and has not reported the directory of its replica yet."""
    cluster = Cluster(0)
    cluster.join(1, log_dirs=OF_1)
    for broker_id in (2, 3):
        cluster.join(broker_id)
    configs = {"min.insync.replicas": str(min_insync_replicas)}
    cluster.decide(cluster.topics.create(cluster.image, [NewTopic("t", assignments=[(0, replicas)], configs=configs)]))
    assert partition(cluster).leader == replicas[0]
    return cluster


def partition(cluster: Cluster) -> PartitionImage:
    return cluster.image.topics.by_name["t"].partitions[0]


def directory(cluster: Cluster, broker_id: int = 1) -> bytes:
    now = partition(cluster)
    return now.directories[now.replicas.index(broker_id)]


def outcomes(cluster: Cluster, *assignments: DirectoryAssignment, broker_id: int = 1) -> list[AssignedReplica]:
    epoch = cluster.image.cluster.brokers[broker_id].broker_epoch
    return cluster.decide(ReplicaDirectoriesControl(schema()).assign(cluster.image, broker_id, epoch, assignments))


def code(error: KafkaError | None) -> ErrorCode | None:
    return None if error is None else error.code


def of_topic(cluster: Cluster, directory_id: bytes, partition_id: int = 0) -> DirectoryAssignment:
    return DirectoryAssignment(directory_id, cluster.image.topics.by_name["t"].topic_id, partition_id)


def assign(cluster: Cluster, directory_id: bytes) -> None:
    (outcome,) = outcomes(cluster, of_topic(cluster, directory_id))
    assert outcome.error is None


def fail(cluster: Cluster, *directories: bytes) -> None:
    cluster.heartbeat(1, offline_log_dirs=list(directories))


def test_assignment_sets_the_directory_of_a_replica() -> None:
    cluster = cluster_of_three()
    before = partition(cluster)
    assert directory(cluster) == UNASSIGNED_DIRECTORY
    assign(cluster, TWO)
    after = partition(cluster)
    assert directory(cluster) == TWO
    assert after.directories[1:] == before.directories[1:]
    assert (after.leader, after.leader_epoch, after.isr) == (1, before.leader_epoch, before.isr)


def test_repeated_assignment_changes_nothing() -> None:
    cluster = cluster_of_three()
    assign(cluster, TWO)
    end = cluster.image.offset
    assign(cluster, TWO)
    assert cluster.image.offset == end


def test_a_replica_may_move_between_directories_that_work() -> None:
    cluster = cluster_of_three()
    assign(cluster, TWO)
    assign(cluster, ONE)
    assert directory(cluster) == ONE
    assert partition(cluster).isr == (1, 2, 3)


def test_replica_without_a_known_directory_can_lead_while_its_broker_is_active() -> None:
    """Records of older metadata versions name no directories."""
    cluster = cluster_of_three((1, 2))
    without = attrs.evolve(partition(cluster), directories=())
    assert [acceptable_leaders(cluster.image, without, gone=2)(each) for each in (1, 2, 9)] == [True, False, False]


def test_failed_directory_affects_only_its_replicas() -> None:
    cluster = cluster_of_three()
    assign(cluster, TWO)
    fail(cluster, ONE)
    assert partition(cluster).leader == 1
    fail(cluster, ONE, TWO)
    assert partition(cluster).leader == 2
    assert partition(cluster).isr == (2, 3)
    assert cluster.image.cluster.brokers[1].log_dirs == (GONE,)
    assert not cluster.image.cluster.brokers[1].fenced


def test_assignment_to_a_failed_directory_removes_the_replica_from_the_isr() -> None:
    cluster = cluster_of_three()
    fail(cluster, TWO)
    assert partition(cluster).leader == 1  # the controller does not know of it yet
    assign(cluster, TWO)
    assert directory(cluster) == TWO
    assert partition(cluster).leader == 2
    assert 1 not in partition(cluster).isr


def test_replica_that_was_in_a_failed_directory_when_it_was_assigned_stays_eligible_kip_966() -> None:
    """Its records are not lost: the directory may return with them."""
    cluster = cluster_of_three(min_insync_replicas=3)
    fail(cluster, TWO)
    assign(cluster, TWO)
    assert partition(cluster).isr == (2, 3)
    assert partition(cluster).eligible_leader_replicas == (1,)


def test_partition_has_no_leader_when_the_directory_of_its_sole_replica_failed() -> None:
    cluster = cluster_of_three((1,), min_insync_replicas=1)
    assign(cluster, TWO)
    fail(cluster, TWO)
    assert partition(cluster).leader == NO_LEADER
    assert partition(cluster).eligible_leader_replicas == (1,)  # it may return after a restart


def test_replica_restarted_in_another_directory_counts_as_empty() -> None:
    """It was eligible while its failed directory could return with its records; now its replica is in another one."""
    cluster = cluster_of_three((1,), min_insync_replicas=1)
    assign(cluster, TWO)
    fail(cluster, TWO)
    assign(cluster, ONE)
    assert partition(cluster).eligible_leader_replicas == ()
    assert partition(cluster).last_known_elr == ()
    # No other replica ever had records: it leads again, and its recovery is tracked (KIP-966).
    assert partition(cluster).leader == 1
    assert partition(cluster).leader_recovery_state == 1


def test_other_replicas_lead_when_a_replica_restarts_in_another_directory() -> None:
    cluster = cluster_of_three(min_insync_replicas=3)
    assign(cluster, TWO)
    fail(cluster, TWO)
    cluster.fence(3)
    cluster.fence(2)
    assert partition(cluster).leader == NO_LEADER
    assert 1 in partition(cluster).eligible_leader_replicas
    assign(cluster, ONE)
    assert partition(cluster).leader == NO_LEADER
    assert 1 not in partition(cluster).eligible_leader_replicas


def test_a_replica_that_cannot_be_found_counts_as_lost() -> None:
    cluster = cluster_of_three()
    assign(cluster, LOST_DIRECTORY)
    assert partition(cluster).leader == 2
    assert 1 not in (*partition(cluster).isr, *partition(cluster).eligible_leader_replicas)
    assign(cluster, TWO)
    assert directory(cluster) == TWO
    assert partition(cluster).leader == 2


def test_clean_restart_without_a_log_directory_changes_partitions() -> None:
    """The last active broker keeps its leaderships over a clean restart, but not those of a missing directory."""
    cluster = Cluster(0)
    cluster.join(1, log_dirs=[ONE, TWO])
    topics = [NewTopic("t", assignments=[(0, (1,))])]
    cluster.decide(cluster.topics.create(cluster.image, topics))
    assign(cluster, TWO)
    epoch = cluster.image.cluster.brokers[1].broker_epoch
    cluster.join(1, log_dirs=[ONE], previous_broker_epoch=epoch)
    assert partition(cluster).leader == NO_LEADER


def test_invalid_assignments_of_directories_are_refused() -> None:
    cluster = cluster_of_three((1, 2))
    before = cluster.image.offset
    unknown = DirectoryAssignment(ONE, b"unknown".ljust(16), 0)
    errors = [outcome.error for outcome in outcomes(cluster, unknown, of_topic(cluster, ONE, 7))]
    assert [code(error) for error in errors] == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (not_here,) = outcomes(cluster, of_topic(cluster, ELSEWHERE), broker_id=3)
    assert code(not_here.error) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.image.offset == before
    twice = outcomes(cluster, of_topic(cluster, ONE), of_topic(cluster, TWO))
    assert [code(outcome.error) for outcome in twice] == [None, ErrorCode.INVALID_REQUEST]
    assert directory(cluster) == ONE
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        ReplicaDirectoriesControl(schema()).assign(cluster.image, 1, 0, [])
