"""Reassignments: added and removed replicas, leaders, completion and cancellation (KIP-455)."""

from collections.abc import Sequence

import pytest

from metadata.controller import (
    IsrChange,
    IsrMember,
    NewPartitions,
    NewTopic,
    Reassignment,
    TopicIsrChanges,
    TopicReassignments,
    TopicToDelete,
)
from metadata.controller.alter_partition import AlterPartitionControl
from metadata.controller.partitions import MAX_PARTITIONS_PER_BATCH, create_partitions
from metadata.controller.reassignment import ReassignmentsControl, ongoing_reassignments
from metadata.image import PartitionImage
from metadata.protocol import KafkaError
from metadata.records import NO_LEADER
from tests.support.metadata import Cluster, refusal, schema

BROKERS = 6


class Moving:
    """A cluster with a topic "t" of some partitions, by their replicas."""

    def __init__(self, *replicas: Sequence[int], min_isr: int = 2, unclean: bool = False) -> None:
        self.cluster = Cluster(BROKERS)
        topic = NewTopic(
            "t",
            assignments=[(index, tuple(each)) for index, each in enumerate(replicas or ((1, 2, 3),))],
            configs={
                "min.insync.replicas": str(min_isr),
                "unclean.leader.election.enable": "true" if unclean else "false",
            },
        )
        assert self.cluster.decide(self.cluster.topics.create(self.cluster.image, [topic]))[0].error is None
        self.control = ReassignmentsControl(schema())
        self.isrs = AlterPartitionControl(schema())

    def partition(self, index: int = 0) -> PartitionImage:
        return self.cluster.image.topics.by_name["t"].partitions[index]

    def move(
        self, replicas: Sequence[int] | None, index: int = 0, *, topic: str = "t", allow_factor_change: bool = True
    ) -> tuple[str, str] | None:
        """Start or cancel a reassignment of one partition. Returns the error if it is refused."""
        wanted = Reassignment(index, None if replicas is None else tuple(replicas))
        decision = self.control.alter(
            self.cluster.image, [TopicReassignments(topic, [wanted])], allow_factor_change=allow_factor_change
        )
        return refusal(self.cluster.decide(decision)[0].partitions[0].error)

    def in_sync(self, *isr: int, index: int = 0) -> str | None:
        """The leader requests an ISR. Returns the error, if any."""
        partition = self.partition(index)
        change = IsrChange(
            partition_id=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr=[IsrMember(each) for each in isr],
        )
        topic_id = self.cluster.image.topics.by_name["t"].topic_id
        epoch = self.cluster.image.cluster.brokers[partition.leader].broker_epoch
        topics = [TopicIsrChanges(topic_id, [change])]
        decision = self.isrs.alter(self.cluster.image, partition.leader, epoch, topics)
        error = self.cluster.decide(decision)[0].partitions[0].error
        return None if error is None else error.code.name

    def ongoing(self) -> list[int]:
        return [
            each.partition_id for topic in ongoing_reassignments(self.cluster.image, None) for each in topic.partitions
        ]


def state(partition: PartitionImage) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
    return (
        partition.replicas,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.isr,
        partition.leader,
    )


def test_reassignment_adds_replicas_and_keeps_the_others_until_the_target_is_in_sync() -> None:
    moving = Moving()
    assert moving.move((4, 5, 6)) is None
    assert state(moving.partition()) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3), (1, 2, 3), 1)
    assert moving.partition().leader_epoch == 0, "nobody has to be fenced yet"
    assert moving.in_sync(1, 2, 3, 4, 5) is None
    assert moving.ongoing() == [0]


def test_reassignment_completes_in_one_step_and_the_old_leader_is_told() -> None:
    moving = Moving()
    moving.move((4, 5, 6))
    assert moving.in_sync(1, 2, 3, 6, 5, 4) == "NEW_LEADER_ELECTED"
    after = moving.partition()
    assert state(after) == ((4, 5, 6), (), (), (6, 5, 4), 4)
    assert after.leader_epoch == 1
    assert moving.ongoing() == []
    directories = {broker.broker_id: broker.log_dirs[0] for broker in moving.cluster.image.cluster.brokers.values()}
    assert after.directories == tuple(directories[broker] for broker in (4, 5, 6))


def test_remaining_leader_gets_a_new_epoch() -> None:
    """The new leader epoch fences the removed replicas."""
    moving = Moving()
    moving.move((2, 1, 4))
    assert moving.in_sync(1, 2, 3, 4) is None
    assert state(moving.partition()) == ((2, 1, 4), (), (), (1, 2, 4), 1)
    assert moving.partition().leader_epoch == 1


def test_reassignment_completes_without_the_removed_replicas_in_sync() -> None:
    moving = Moving()
    moving.move((1, 2, 4))
    moving.cluster.fence(3)
    assert moving.ongoing() == [0]
    assert moving.in_sync(1, 2, 4) is None
    assert state(moving.partition()) == ((1, 2, 4), (), (), (1, 2, 4), 1)


def test_reordering_and_shrinking_complete_at_once() -> None:
    moving = Moving()
    assert moving.move((3, 2, 1)) is None
    assert state(moving.partition()) == ((3, 2, 1), (), (), (1, 2, 3), 1)
    assert moving.partition().leader_epoch == 0
    assert moving.move((3, 2)) is None
    assert state(moving.partition()) == ((3, 2), (), (), (2, 3), 3)
    assert moving.partition().leader_epoch == 1


def test_shrinking_waits_for_a_target_replica_that_is_not_in_sync() -> None:
    moving = Moving()
    moving.cluster.fence(3)
    assert moving.move((1, 3)) is None
    assert state(moving.partition()) == ((1, 3, 2), (), (2,), (1, 2), 1)
    moving.cluster.heartbeat(3)
    assert moving.in_sync(1, 2, 3) is None
    assert state(moving.partition()) == ((1, 3), (), (), (1, 3), 1)


def test_repeated_reassignment_changes_nothing() -> None:
    moving = Moving()
    epoch = moving.partition().partition_epoch
    assert moving.move((1, 2, 3)) is None
    assert moving.partition().partition_epoch == epoch
    moving.move((4, 2, 3))
    epoch = moving.partition().partition_epoch
    assert moving.move((4, 2, 3)) is None
    assert moving.partition().partition_epoch == epoch


# Cancelled, and replaced


def test_cancelled_reassignment_restores_the_replicas_but_not_their_order() -> None:
    moving = Moving()
    moving.move((4, 3, 5))
    moving.in_sync(1, 2, 3, 4)
    assert moving.move(None) is None
    after = moving.partition()
    assert state(after) == ((3, 1, 2), (), (), (1, 2, 3), 1)
    assert after.leader_epoch == 1, "4 and 5 must not be heard any more"
    assert moving.ongoing() == []
    assert moving.move(None) == ("NO_REASSIGNMENT_IN_PROGRESS", "No partition reassignment is in progress.")


def test_cancelled_reassignment_removes_an_added_leader() -> None:
    moving = Moving((1, 2))
    moving.move((4, 5))
    moving.in_sync(1, 2, 4)
    moving.cluster.fence(1)
    assert moving.partition().leader == 4, "first in order"
    assert moving.move(None) is None
    assert state(moving.partition()) == ((1, 2), (), (), (2,), 2)


def test_reassignment_cannot_be_cancelled_without_an_original_replica_in_sync() -> None:
    moving = Moving((1, 2), min_isr=1)
    moving.move((4, 5))
    moving.in_sync(1, 4)
    moving.cluster.fence(1)
    before = moving.partition()
    assert state(before) == ((4, 5, 1, 2), (4, 5), (1, 2), (4,), 4)
    assert moving.move(None) == (
        "INVALID_REPLICA_ASSIGNMENT",
        "Unable to revert partition assignment for t:0 because it would require an unclean leader election.",
    )
    assert moving.partition() == before


def test_reassignment_can_be_cancelled_with_an_eligible_original_replica() -> None:
    """Nothing was acknowledged after it left the ISR, which is below min.insync.replicas (KIP-966)."""
    moving = Moving((1, 2), min_isr=2)
    moving.move((4, 5))
    moving.in_sync(1, 4)
    moving.cluster.fence(1)
    assert (moving.partition().isr, moving.partition().eligible_leader_replicas) == ((4,), (1,))
    assert moving.move(None) is None
    after = moving.partition()
    assert (after.replicas, after.isr, after.eligible_leader_replicas, after.leader) == ((1, 2), (), (1,), NO_LEADER)
    assert after.last_known_elr == (), "4 has no replica any more"
    moving.cluster.heartbeat(1)
    assert (moving.partition().leader, moving.partition().isr) == (1, (1,))


def test_second_reassignment_replaces_the_first_one() -> None:
    moving = Moving()
    moving.move((1, 2, 4))
    moving.in_sync(1, 2, 3, 4)
    assert moving.ongoing() == []
    moving.move((1, 2, 5))
    assert moving.move((1, 6, 3)) is None
    assert state(moving.partition()) == ((1, 6, 3, 2, 4, 5), (3, 5, 6), (2, 4, 5), (1, 2, 4), 1)
    assert moving.in_sync(1, 2, 4, 3, 6) is None
    assert state(moving.partition()) == ((1, 6, 3), (), (), (1, 3, 6), 1)


def test_replica_added_by_both_reassignments_is_removed_by_a_cancellation() -> None:
    moving = Moving()
    moving.move((1, 2, 4))
    moving.move((1, 4, 5))
    assert state(moving.partition()) == ((1, 4, 5, 2, 3), (4, 5), (2, 3), (1, 2, 3), 1)
    moving.move(None)
    assert state(moving.partition()) == ((1, 2, 3), (), (), (1, 2, 3), 1)


def test_reassignment_back_to_the_original_replicas_completes_at_once() -> None:
    moving = Moving()
    moving.move((1, 2, 4))
    moving.in_sync(1, 2, 3)
    assert moving.move((1, 2, 3)) is None
    assert state(moving.partition()) == ((1, 2, 3), (), (), (1, 2, 3), 1)


# Refused


def test_invalid_reassignments_are_refused() -> None:
    moving = Moving()
    invalid = "INVALID_REPLICA_ASSIGNMENT"
    assigned = "The manual partition assignment includes"
    assert moving.move((1, 2, 7)) == (invalid, f"{assigned} broker 7, but no such broker is registered.")
    assert moving.move((1, 2, 2)) == (invalid, f"{assigned} the broker 2 more than once.")
    assert moving.move(()) == (invalid, f"{assigned} an empty replica list.")
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert moving.move((1,), topic="x") == (unknown, "Unable to find a topic named x.")
    assert moving.move((1,), index=1) == (unknown, "Unable to find partition t:1.")
    assert moving.move(None)[0] == "NO_REASSIGNMENT_IN_PROGRESS"  # type: ignore[index]
    assert moving.ongoing() == []


def test_fenced_broker_may_get_replicas() -> None:
    moving = Moving()
    moving.cluster.fence(4)
    assert moving.move((1, 2, 4)) is None
    assert moving.in_sync(1, 2, 3, 4) == "INELIGIBLE_REPLICA"


def test_kip_860_change_of_the_replication_factor_can_be_refused() -> None:
    """KIP-860. The replication factor of a partition in a reassignment is that of its target."""
    moving = Moving()
    factor = ("INVALID_REPLICATION_FACTOR", "The replication factor is changed from 3 to 2")
    assert moving.move((4, 5), allow_factor_change=False) == factor
    assert moving.move((4, 5, 6), allow_factor_change=False) is None
    assert moving.move((4, 5), allow_factor_change=False) == factor
    assert moving.move((1, 2, 4), allow_factor_change=False) is None
    assert moving.move(None, allow_factor_change=False) is None


def test_reassignments_of_one_request_are_bounded() -> None:
    moving = Moving()
    many = TopicReassignments("t", [Reassignment(0, (1,))] * (MAX_PARTITIONS_PER_BATCH + 1))
    with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
        moving.control.alter(moving.cluster.image, [many], allow_factor_change=True)


def test_last_reassignment_of_a_repeated_partition_counts() -> None:
    moving = Moving()
    twice = TopicReassignments("t", [Reassignment(0, (4,)), Reassignment(0, (5,))])
    moving.cluster.decide(moving.control.alter(moving.cluster.image, [twice], allow_factor_change=True))
    assert moving.partition().adding_replicas == (5,)


# Interactions with other changes


def test_new_partitions_get_the_target_replication_factor() -> None:
    moving = Moving()
    moving.move((4, 5, 6))
    wanted = [NewPartitions("t", 2)]
    moving.cluster.decide(create_partitions(moving.cluster.image, wanted, moving.cluster.rng))
    assert len(moving.partition(1).replicas) == 3


def test_topic_may_be_deleted_during_a_reassignment() -> None:
    moving = Moving()
    moving.move((4, 5, 6))
    moving.cluster.decide(moving.cluster.topics.delete(moving.cluster.image, [TopicToDelete("t")]))
    assert moving.ongoing() == []
    assert moving.cluster.image.topics.by_broker == {}


def test_target_replicas_are_preferred_as_leaders() -> None:
    moving = Moving()
    moving.move((4, 5, 6))
    moving.in_sync(1, 2, 3, 5)
    moving.cluster.fence(1)
    assert moving.partition().leader == 5


def test_unclean_election_prefers_replicas_that_are_not_being_added() -> None:
    """Replicas that are being added come first in the order, but may be empty."""
    moving = Moving((1, 2), min_isr=1, unclean=True)
    moving.cluster.fence(2)
    moving.move((4, 5))
    moving.cluster.fence(1)
    assert moving.partition().leader == 4, "better than nobody, as the topic says"
    moving = Moving((1, 2), min_isr=1, unclean=True)
    moving.in_sync(1)
    moving.move((4, 5))
    moving.cluster.fence(1)
    assert moving.partition().leader == 2


def test_list_returns_the_wanted_ongoing_reassignments() -> None:
    moving = Moving((1, 2, 3), (1, 2, 3), (1, 2, 3))
    moving.move((4, 2, 3), index=2)
    moving.move((4, 2, 3), index=0)
    assert moving.ongoing() == [0, 2]
    image = moving.cluster.image
    assert ongoing_reassignments(image, [("x", [0]), ("t", [1])]) == []
    found = ongoing_reassignments(image, [("t", [2, 7])])
    assert [(topic.name, [each.partition_id for each in topic.partitions]) for topic in found] == [("t", [2])]
    moving.in_sync(1, 2, 3, 4, index=0)
    assert moving.ongoing() == [2]


def test_cordoned_broker_keeps_replicas_and_gets_no_new_ones_kip_1066() -> None:
    moving = Moving((1, 2, 3), (4, 5, 6))
    brokers = moving.cluster.image.cluster.brokers
    moving.cluster.heartbeat(3, cordoned_log_dirs=brokers[3].log_dirs)
    refused = "The manual partition assignment includes broker 3, but all its log directories are cordoned."
    assert moving.move((4, 5, 3), 1) == ("INVALID_REPLICA_ASSIGNMENT", refused)
    assert moving.move((3, 1, 2), 0) is None
    assert moving.partition().replicas == (3, 1, 2)
