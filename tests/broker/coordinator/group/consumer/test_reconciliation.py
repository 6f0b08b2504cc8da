"""Steps of a member towards its target assignment (KIP-848, "Member reconciliation")."""

import attrs
import pytest

from broker.coordinator.group.consumer.member import ConsumerMember, MemberState
from broker.coordinator.group.consumer.reconciliation import Target, reconcile
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
UNREVOKED = MemberState.UNREVOKED_PARTITIONS


def sets(**partitions: set[int]) -> PartitionSets:
    return {name.encode() * 16: frozenset(indexes) for name, indexes in partitions.items()}


# It has yet to revoke partition 2 of topic `a`.
REVOKING = ConsumerMember(
    member_id="m",
    member_epoch=4,
    previous_member_epoch=3,
    state=UNREVOKED,
    assigned=sets(a={0, 1}, b={0}),
    pending_revocation=sets(a={2}),
    assignment_epochs={A: {0: 1, 1: 2, 2: 3}, B: {0: 4}},
)


def is_free(topic_id: bytes, partition: int) -> None:
    """No partition has an owner."""


def test_epoch_stays_if_a_newer_target_revokes_further_partitions() -> None:
    member = reconcile(REVOKING, Target(7, sets(a={0})), is_free, sets(a={0, 1}, b={0}))
    owned = {"assigned": sets(a={0}), "pending_revocation": sets(a={1}, b={0})}
    assert member == attrs.evolve(REVOKING, **owned, assignment_epochs={A: {0: 1, 1: 2}, B: {0: 4}})
    member = reconcile(member, Target(7, sets(a={0})), is_free, sets(a={0}))
    assert (member.member_epoch, member.previous_member_epoch, member.state) == (7, 4, MemberState.STABLE)
    assert (member.assigned, member.pending_revocation) == (sets(a={0}), NO_PARTITIONS)
    assert member.assignment_epochs == {A: {0: 1}}


def test_epoch_is_the_targets_after_all_partitions_are_revoked() -> None:
    member = reconcile(REVOKING, Target(7, sets(a={0, 1, 2}, b={0})), is_free, REVOKING.assigned)
    assert (member.member_epoch, member.state) == (7, MemberState.STABLE)
    assert member.assigned == sets(a={0, 1, 2}, b={0})


def test_partition_has_the_epoch_of_its_assignment_until_it_is_revoked_kip_1251() -> None:
    """Partition 2 was revoked, so that its next assignment counts."""
    member = reconcile(REVOKING, Target(7, sets(a={0, 2}, b={0}, c={3})), is_free, sets(a={0, 1}, b={0}))
    assert (member.member_epoch, member.pending_revocation) == (4, sets(a={1}))
    assert member.assignment_epochs == {A: {0: 1, 1: 2}, B: {0: 4}}
    member = reconcile(member, Target(8, sets(a={0, 2}, b={0}, c={3})), is_free, sets(a={0}, b={0}))
    assert (member.member_epoch, member.state) == (8, MemberState.STABLE)
    assert member.assignment_epochs == {A: {0: 1, 2: 8}, B: {0: 4}, C: {3: 8}}


@pytest.mark.parametrize("owned", [None, sets(a={0, 1, 2}, b={0})])
def test_member_that_revokes_partitions_waits_for_them_despite_a_newer_target(owned: PartitionSets | None) -> None:
    assert reconcile(REVOKING, Target(7, sets(b={0})), is_free, owned) == REVOKING


@pytest.mark.parametrize("owned", [None, sets(a={0, 1, 2}, b={0})])
def test_topics_that_a_new_subscription_lacks_are_revoked_at_once(owned: PartitionSets | None) -> None:
    member = reconcile(REVOKING, Target(7, sets(b={0})), is_free, owned, [B, C])
    assert member == attrs.evolve(REVOKING, assigned=sets(b={0}), pending_revocation=sets(a={0, 1, 2}))


def test_new_subscription_with_all_assigned_topics_revokes_nothing_further() -> None:
    assert reconcile(REVOKING, Target(7, sets(b={0})), is_free, None, [A, B, C]) == REVOKING


def test_partitions_that_a_member_has_just_revoked_may_be_assigned_again() -> None:
    def owner_of(topic_id: bytes, partition: int) -> str:
        return "m" if (topic_id, partition) == (A, 2) else "other"

    member = reconcile(REVOKING, Target(7, sets(a={2}, c={0})), owner_of, NO_PARTITIONS)
    assert (member.member_epoch, member.state) == (7, MemberState.UNRELEASED_PARTITIONS)
    assert member.assigned == sets(a={2})
