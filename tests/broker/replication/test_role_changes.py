"""The roles of a replica: the table of transitions, and the operations that a replica refuses in each role."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.replication.follower_role import FollowerRole, following
from broker.replication.leader_role import LeaderRole, leading
from broker.replication.partition_role import LeaderlessRole, OfflineRole
from broker.replication.transitions import TRANSITIONS, Cause, Role, diagram, next_role
from broker.wire.errors import ErrorCode, KafkaError
from kraft.core.transitions import IllegalTransition
from tests.support.logs import NOW_MS, batch
from tests.support.partition_harness import A, B, Harness


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def lead(harness: Harness, epoch: int) -> None:
    harness.become(epoch=epoch, version=epoch)


def follow(harness: Harness, epoch: int) -> None:
    harness.become(leader=A, epoch=epoch, version=epoch)


def lose_leader(harness: Harness, epoch: int) -> None:
    harness.become(leader=-1, epoch=epoch, version=epoch)


def close(harness: Harness, epoch: int) -> None:
    harness.partition.close(ErrorCode.KAFKA_STORAGE_ERROR)


CHANGES: dict[Cause, Callable[[Harness, int], None]] = {
    Cause.ELECTED: lead,
    Cause.OTHER_ELECTED: follow,
    Cause.NONE_ELECTED: lose_leader,
    Cause.CLOSED: close,
}
ENTERING = {Role.LEADER: lead, Role.FOLLOWER: follow, Role.LEADERLESS: lose_leader, Role.OFFLINE: close}


@pytest.mark.parametrize(("role", "cause"), TRANSITIONS)
def test_metadata_and_failures_change_the_role_as_the_table_says(harness: Harness, role: Role, cause: Cause) -> None:
    ENTERING[role](harness, 0)
    assert harness.partition.role.kind is role
    CHANGES[cause](harness, 1)
    assert harness.partition.role.kind is TRANSITIONS[role, cause]


@pytest.mark.parametrize("change", [lead, follow, lose_leader])
def test_offline_replica_takes_over_epochs_and_no_role(
    harness: Harness, change: Callable[[Harness, int], None]
) -> None:
    close(harness, 0)
    change(harness, 3)
    assert isinstance(harness.partition.role, OfflineRole)
    assert (harness.partition.leader_epoch, harness.partition.partition_epoch) == (3, 3)
    assert harness.partition.log is None


def test_illegal_transition_is_refused_and_changes_nothing(harness: Harness) -> None:
    log = harness.partition.log
    assert log is not None
    close(harness, 0)
    offline = harness.partition.role
    with pytest.raises(IllegalTransition):
        harness.partition.become(Cause.ELECTED, LeaderRole(harness.partition, log, 0))
    with pytest.raises(IllegalTransition, match="CLOSED does not lead to FOLLOWER"):
        harness.partition.become(Cause.CLOSED, FollowerRole(harness.partition, log, A))
    with pytest.raises(IllegalTransition):
        next_role(Role.OFFLINE, Cause.OTHER_ELECTED)
    assert harness.partition.role is offline


@pytest.mark.parametrize("enter", [lead, follow])
def test_new_leader_epoch_begins_with_a_new_role_even_under_the_same_leader(
    harness: Harness, enter: Callable[[Harness, int], None]
) -> None:
    enter(harness, 0)
    before = harness.partition.role
    harness.become(leader=before.leader_id, epoch=0, version=1)
    assert harness.partition.role is before
    enter(harness, 2)
    assert harness.partition.role is not before


def test_proposal_of_a_former_leadership_is_ignored(harness: Harness) -> None:
    """The response may arrive after this replica was elected again: the outcome says nothing of the new epoch."""
    harness.become(isr=(1, A))
    harness.fetch(B, 0)
    former, proposal = harness.leader, harness.proposal
    harness.become(isr=(1,), epoch=2, version=2)
    former.proposal_accepted(proposal, leader_epoch=2, partition_epoch=3, isr=(1, A, B))
    assert not former.proposal_refused(proposal, ErrorCode.REQUEST_TIMED_OUT)
    assert (harness.isr, harness.partition.partition_epoch) == ((1,), 2)


REFUSALS = {
    Role.LEADERLESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Role.FOLLOWER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Role.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
}


@pytest.mark.parametrize("role", REFUSALS)
def test_replica_that_does_not_lead_refuses_operations_of_a_leader(harness: Harness, role: Role) -> None:
    ENTERING[role](harness, 0)
    partition, records = harness.partition, batch(b"value")
    for request in (
        partition.leader_log,
        lambda: leading(partition),
        lambda: partition.role.append(records, 1, NOW_MS),
        lambda: partition.role.append_as_coordinator(records, NOW_MS),
        lambda: partition.role.awaits(-1, 1),
    ):
        with pytest.raises(KafkaError) as refusal:
            request()
        assert refusal.value.code is REFUSALS[role]


@pytest.mark.parametrize(
    ("enter", "epoch", "code"),
    [
        (lead, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lose_leader, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (follow, 1, ErrorCode.FENCED_LEADER_EPOCH),
        (close, -1, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_response_of_another_leader_epoch_is_not_applied(
    harness: Harness, enter: Callable[[Harness, int], None], epoch: int, code: ErrorCode
) -> None:
    enter(harness, 0)
    with pytest.raises(KafkaError) as refusal:
        following(harness.partition, epoch)
    assert refusal.value.code is code


def test_replica_without_a_leader_serves_consumers_as_it_did_before(harness: Harness) -> None:
    """A replica that agreed with the last leader has lost nothing while there is none."""
    lose_leader(harness, 0)
    assert isinstance(harness.partition.role, LeaderlessRole)
    with pytest.raises(KafkaError) as refusal:
        harness.partition.committed_log()
    assert refusal.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    lead(harness, 1)
    lose_leader(harness, 2)
    assert harness.partition.committed_log() is harness.partition.log


def test_diagram_has_every_transition() -> None:
    assert diagram().count("-->") == len(TRANSITIONS) + 2
