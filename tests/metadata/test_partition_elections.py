"""PartitionChangeBuilder: the leader, the ISR and the ELR after a change, and the record (KIP-966)."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.controller.partition_change_builder import ElectionRules, PartitionChangeBuilder
from metadata.image import PartitionImage, changed_partition
from metadata.records import LEADER_RECOVERED, LEADER_RECOVERING, NO_LEADER, PartitionChangeRecord

CLEAN = ElectionRules(min_insync_replicas=2, unclean=False, elr_enabled=True)
UNCLEAN = attrs.evolve(CLEAN, unclean=True)
WITHOUT_ELR = attrs.evolve(CLEAN, elr_enabled=False)


def partition(isr: Sequence[int] = (1, 2, 3), leader: int = 1, **others: Any) -> PartitionImage:
    return PartitionImage((1, 2, 3), tuple(isr), leader, leader_epoch=5, partition_epoch=9, **others)


def record(
    before: PartitionImage,
    isr: Sequence[int],
    active: Sequence[int] = (1, 2, 3),
    rules: ElectionRules = CLEAN,
    **others: Any,
) -> PartitionChangeRecord | None:
    election = PartitionChangeBuilder(
        topic_id=b"t" * 16,
        partition_id=0,
        partition=before,
        rules=rules,
        may_lead=lambda broker: broker in active,
        isr=tuple(isr),
        **others,
    )
    return election.build()


def outcome(
    before: PartitionImage,
    isr: Sequence[int],
    active: Sequence[int] = (1, 2, 3),
    rules: ElectionRules = CLEAN,
    **others: Any,
) -> PartitionImage:
    change = record(before, isr, active, rules, **others)
    return before if change is None else changed_partition(before, change)


def test_no_record_without_a_change() -> None:
    assert record(partition(), (1, 2, 3)) is None


def test_active_leader_stays() -> None:
    change = record(partition(leader=3), (1, 3), (1, 3))
    assert change == PartitionChangeRecord(topic_id=b"t" * 16, partition_id=0, isr=(1, 3))


def test_the_first_replica_in_sync_leads_next() -> None:
    after = outcome(partition(isr=(3, 2, 1)), (3, 2), (2, 3))
    assert (after.leader, after.isr, after.leader_epoch) == (2, (3, 2), 6)


def test_the_preferred_leader_is_elected_where_it_is_in_sync() -> None:
    assert outcome(partition(leader=3), (1, 2, 3), prefer_first=True).leader == 1
    assert outcome(partition(leader=3), (2, 3), prefer_first=True).leader == 3
    assert outcome(partition(leader=3), (2, 3), (1, 2), prefer_first=True).leader == 2


def test_replica_that_leaves_below_min_insync_replicas_is_eligible() -> None:
    after = outcome(partition(isr=(1, 2)), (1,), (1,))
    assert (after.isr, after.eligible_leader_replicas) == ((1,), (2,))


def test_elr_is_empty_at_min_insync_replicas() -> None:
    assert outcome(partition(), (1, 2), (1, 2)).eligible_leader_replicas == ()
    assert outcome(partition(isr=(1,), eligible_leader_replicas=(2,)), (1, 3)).eligible_leader_replicas == ()


def test_last_known_elr_is_the_last_leader_when_the_isr_is_empty() -> None:
    after = outcome(partition(isr=(1,), eligible_leader_replicas=(2,)), (), ())
    assert (after.leader, after.isr) == (NO_LEADER, ())
    assert (after.eligible_leader_replicas, after.last_known_elr) == ((1, 2), (1,))


def test_eligible_replica_is_elected_when_the_isr_is_empty() -> None:
    before = partition(isr=(), leader=NO_LEADER, eligible_leader_replicas=(1, 2), last_known_elr=(1,))
    after = outcome(before, (), (2, 3))
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (2, (2,), (1,))
    assert after.leader_recovery_state == LEADER_RECOVERED, "it has everything"
    assert after.last_known_elr == ()


def test_eligible_replica_is_not_elected_while_the_isr_has_a_member() -> None:
    before = partition(isr=(1,), eligible_leader_replicas=(2,))
    assert record(before, (1,), (2,)) is not None
    assert outcome(before, (1,), (2,)).leader == NO_LEADER


def test_elr_is_empty_when_min_insync_replicas_is_one() -> None:
    before = partition(isr=(), leader=NO_LEADER, eligible_leader_replicas=(1, 2))
    after = outcome(before, (), (2,), attrs.evolve(CLEAN, min_insync_replicas=1))
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (2, (2,), ())


def test_an_unclean_shutdown_ends_eligibility() -> None:
    before = partition(isr=(1,), eligible_leader_replicas=(2, 3))
    assert outcome(before, (1,), unclean_shutdown=2).eligible_leader_replicas == (3,)
    alone = outcome(before, (), (3,), unclean_shutdown=1)
    assert (alone.leader, alone.eligible_leader_replicas) == (3, (2,))


def test_last_known_leader_is_elected_when_isr_and_elr_are_empty() -> None:
    """KIP-966's balanced recovery. Records may be lost, so the leader is recovering (KIP-704)."""
    before = partition(isr=(), leader=NO_LEADER, last_known_elr=(2,))
    assert record(before, (), (1, 3)) is None
    after = outcome(before, (), (1, 2, 3))
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), LEADER_RECOVERING)


def test_any_active_replica_is_elected_when_unclean_elections_are_enabled() -> None:
    before = partition(isr=(1,), eligible_leader_replicas=(2,))
    after = outcome(before, (), (3,), UNCLEAN)
    assert (after.leader, after.isr, after.leader_recovery_state) == (3, (3,), LEADER_RECOVERING)
    assert (after.eligible_leader_replicas, after.last_known_elr) == ((), ())
    assert outcome(before, (), (2, 3), UNCLEAN).leader == 2, "a clean election comes first"


def test_without_elr_the_last_member_remains_in_the_isr() -> None:
    after = outcome(partition(isr=(1,)), (), (2, 3), WITHOUT_ELR)
    assert (after.leader, after.isr, after.eligible_leader_replicas, after.last_known_elr) == (NO_LEADER, (1,), (), ())
    assert outcome(after, after.isr, (1,), WITHOUT_ELR).leader == 1


@pytest.mark.parametrize("active", [(), (1,), (2,)])
def test_disabling_elr_leaves_every_partition_electable(active: tuple[int, ...]) -> None:
    before = partition(isr=(), leader=NO_LEADER, eligible_leader_replicas=(1,), last_known_elr=(2,))
    after = outcome(before, (), active, WITHOUT_ELR)
    assert after.leader == (1 if active == (1,) else NO_LEADER)
    if active == ():
        assert outcome(before, (), (1,), WITHOUT_ELR).leader == 1


SUBSETS = st.sets(st.integers(1, 3))


@given(
    isr=SUBSETS,
    elr=SUBSETS,
    target=SUBSETS,
    active=SUBSETS,
    crashed=st.none() | st.integers(1, 3),
    rules=st.builds(ElectionRules, st.integers(1, 3), st.booleans(), st.booleans()),
    prefer_first=st.booleans(),
)
def test_partition_invariants_hold_after_any_change(
    isr: set[int],
    elr: set[int],
    target: set[int],
    active: set[int],
    crashed: int | None,
    rules: ElectionRules,
    prefer_first: bool,
) -> None:
    leader = min(isr, default=NO_LEADER)
    before = partition(
        sorted(isr), leader, eligible_leader_replicas=tuple(sorted(elr - isr)), last_known_elr=() if isr else (3,)
    )
    wanted = sorted((isr & target) - {crashed})
    after = outcome(before, wanted, sorted(active), rules, unclean_shutdown=crashed, prefer_first=prefer_first)
    assert set(after.isr) | set(after.eligible_leader_replicas) <= {1, 2, 3}
    assert not set(after.isr) & set(after.eligible_leader_replicas)
    assert after.leader == NO_LEADER or (after.leader in after.isr and after.leader in active)
    assert after.leader_epoch - before.leader_epoch == (after.leader != before.leader)
    assert after.partition_epoch - before.partition_epoch == (after != before)
    recovers = after.leader_recovery_state == LEADER_RECOVERING
    if not recovers:
        had_everything = set(before.isr) | set(before.eligible_leader_replicas)
        assert set(after.isr) | set(after.eligible_leader_replicas) <= had_everything
        assert after.leader == NO_LEADER or after.leader in had_everything
    elif not rules.unclean:
        assert (after.leader,) == before.last_known_elr
    if rules.elr_enabled:
        assert not after.eligible_leader_replicas or len(after.isr) < rules.min_insync_replicas
    else:
        assert after == before or after.eligible_leader_replicas == ()
        assert after.isr or not before.isr
