"""A replica accepts only epochs that a correct quorum can have reached (`kraft.core.plausible_epochs`)."""

from collections.abc import Callable

import pytest

from kraft.core import ElectionState, OffsetAndEpoch, ReplicaKey, Role
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.log_state import OffsetAndEpoch as Place
from kraft.core.messages import CurrentLeader, Error
from kraft.core.plausible_epochs import ALWAYS_BELIEVED, COUNTED_FROM_S, EPOCH_END, is_plausible
from tests.support.directory_ids import directory_id
from tests.support.raft_core import EMPTY, KEYS, WALL_S, SingleCore, established

LAST = 2**31 - 1
# The highest epoch that is plausible at WALL_S.
HIGHEST = int(WALL_S) - COUNTED_FROM_S


def vote(epoch: int, *, pre_vote: bool = False, node_id: int = 2) -> said.VoteRequest:
    return said.VoteRequest(epoch, KEYS[node_id], KEYS[1], OffsetAndEpoch(1_000, epoch), pre_vote)


@pytest.mark.parametrize("epoch", [LAST, EPOCH_END, EPOCH_END - 1, HIGHEST + 1])
@pytest.mark.parametrize(
    "request_",
    [
        lambda epoch: vote(epoch),
        lambda epoch: vote(epoch, pre_vote=True),
        lambda epoch: said.BeginEpochRequest(epoch, 2, "host2:1", KEYS[1]),
        lambda epoch: said.EndEpochRequest(epoch, 2, (1, 3)),
        lambda epoch: said.FetchRequest(epoch, KEYS[2], EMPTY, 0),
        lambda epoch: said.FetchSnapshotRequest(epoch, KEYS[2], Place(1, 1), 0),
    ],
    ids=["vote", "pre-vote", "begin-epoch", "end-epoch", "fetch", "fetch-snapshot"],
)
def test_request_of_an_implausible_epoch_has_no_effect(request_: Callable[[int], said.Request], epoch: int) -> None:
    one = established()
    effects = one.ask(request_(epoch))
    assert (one.core.epoch, one.core.role) == (1, Role.LEADER)
    assert todo.RefusedEpoch(2, 1, epoch) in effects
    (answer,) = [effect for effect in effects if isinstance(effect, todo.Answer)]
    assert answer.response.error is Error.UNKNOWN_LEADER_EPOCH
    assert not any(isinstance(effect, todo.PersistElection) for effect in effects)


def test_response_of_an_implausible_epoch_has_no_effect() -> None:
    one = SingleCore()
    (pre_vote, _) = one.time_out()
    effects = one.step(
        happened.Responded(2, pre_vote, said.VoteResponse(CurrentLeader(LAST, 2, "host2:1"), granted=False))
    )
    assert one.core.epoch == 0
    assert todo.RefusedEpoch(2, 0, LAST) in effects


def test_replica_that_was_away_for_long_catches_up_at_once() -> None:
    one = SingleCore(1, election=ElectionState(7))
    (to_two, _) = one.time_out()
    one.step(happened.Responded(2, to_two, said.VoteResponse(CurrentLeader(HIGHEST, 3, "host3:1"), granted=False)))
    assert (one.core.epoch, one.core.leader_id) == (HIGHEST, 3)


def test_replicas_that_a_faulty_peer_led_to_different_epochs_accept_each_others_epochs() -> None:
    """The faulty peer raises one replica's epoch in many large steps, and that replica then stands for election."""
    misled, other = SingleCore(), SingleCore()
    for step in range(1, 2_001):
        misled.ask(vote(step * 100_000))
    assert misled.core.epoch == HIGHEST // 100_000 * 100_000
    response = other.answer_to(vote(misled.core.epoch, node_id=3))
    assert isinstance(response, said.VoteResponse)
    assert response.granted


def test_one_peer_with_two_names_cannot_use_up_the_epochs() -> None:
    one = established()
    for node_id in (2, 3):
        one.ask(vote(EPOCH_END - 1, node_id=node_id))
    assert one.core.epoch == 1


def test_observer_with_a_higher_epoch_does_not_depose_the_leader() -> None:
    """As in Kafka, whose leader answers UNKNOWN_LEADER_EPOCH to a Fetch of a later epoch."""
    one = established()
    response = one.answer_to(said.FetchRequest(2, ReplicaKey(9, directory_id("d9")), EMPTY, 0))
    assert response.error is Error.UNKNOWN_LEADER_EPOCH
    assert (one.core.epoch, one.core.role) == (1, Role.LEADER)


@pytest.mark.parametrize(
    ("epoch", "wall_s", "is_believed"),
    [
        (HIGHEST, WALL_S, True),
        (HIGHEST + 1, WALL_S, False),
        (HIGHEST + 1, WALL_S + 1, True),
        (ALWAYS_BELIEVED, 0.0, True),
        (ALWAYS_BELIEVED + 1, 0.0, False),
        (EPOCH_END - 1, 1e12, True),
        (EPOCH_END, 1e12, False),
    ],
)
def test_plausible_epoch_is_one_election_per_second_since_2020(epoch: int, wall_s: float, *, is_believed: bool) -> None:
    assert is_plausible(epoch, wall_s) is is_believed


def test_replica_may_still_lead_in_the_last_epoch() -> None:
    one = SingleCore(election=ElectionState(EPOCH_END - 2)).elected()
    assert one.core.epoch == EPOCH_END - 1


def test_replica_at_the_last_epoch_does_not_stand_for_election() -> None:
    one = SingleCore(election=ElectionState(EPOCH_END - 1))
    assert one.time_out() == []
    assert one.core.role is Role.UNATTACHED
