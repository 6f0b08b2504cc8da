"""A replica believes only epochs that an honest quorum can have reached (`kraft.core.plausible_epochs`)."""

from collections.abc import Callable

import pytest

from kraft.core import (
    Core,
    ElectionState,
    LogShape,
    OffsetAndEpoch,
    QuorumConfig,
    ReplicaKey,
    Role,
    VoterHistory,
    VoterSet,
)
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.log_shape import OffsetAndEpoch as Place
from kraft.core.messages import Error, Known
from kraft.core.plausible_epochs import EPOCH_END, EPOCHS_PER_SECOND, LEAP, PlausibleEpochs
from tests.support.raft_core import EMPTY, KEYS, One, established, sends

LAST = 2**31 - 1


def vote(epoch: int, *, pre_vote: bool = False, node_id: int = 2) -> said.VoteRequest:
    return said.VoteRequest(epoch, KEYS[node_id], KEYS[1], OffsetAndEpoch(1_000, epoch), pre_vote)


@pytest.mark.parametrize("epoch", [LAST, EPOCH_END, LEAP + 2])
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
    one = One()
    (pre_vote, _) = one.time_out()
    effects = one.step(happened.Responded(2, pre_vote, said.VoteResponse(Known(LAST, 2, "host2:1"), granted=False)))
    assert one.core.epoch == 0
    assert todo.RefusedEpoch(2, 0, LAST) in effects


def test_replica_that_was_away_for_long_catches_up_when_two_voters_say_the_same() -> None:
    one = One(1, election=ElectionState(7))
    told = Known(5_000_000, 3, "host3:1")
    (to_two, to_three) = one.time_out()
    one.step(happened.Responded(2, to_two, said.VoteResponse(told, granted=False)))
    assert one.core.epoch == 7
    one.step(happened.Responded(3, to_three, said.VoteResponse(told, granted=False)))
    assert (one.core.epoch, one.core.leader_id) == (5_000_000, 3)


def test_new_observer_believes_the_first_replica_that_it_asks() -> None:
    config = QuorumConfig(ReplicaKey(9, "d9"), "", ("host2:1",))
    core = Core(config, lambda: 0.5, ElectionState(), LogShape(), VoterHistory(VoterSet()), 0.0)
    (request,) = sends(core.step(happened.Tick(), 0.0))
    answer = said.FetchResponse(Known(5_000_000, 3, "host3:1"), 0, Error.NOT_LEADER_OR_FOLLOWER)
    core.step(happened.Responded(-1, request, answer), 1.0)
    assert (core.epoch, core.leader_id) == (5_000_000, 3)
    other = Core(config, lambda: 0.5, ElectionState(), LogShape(), VoterHistory(VoterSet()), 0.0)
    (request,) = sends(other.step(happened.Tick(), 0.0))
    other.step(happened.Responded(-1, request, said.FetchResponse(Known(EPOCH_END), 0)), 1.0)
    assert other.epoch == 0


def test_observer_with_a_higher_epoch_does_not_depose_the_leader() -> None:
    """As in Kafka, whose leader answers UNKNOWN_LEADER_EPOCH to a Fetch of a later epoch."""
    one = established()
    response = one.answer_to(said.FetchRequest(2, ReplicaKey(9, "d9"), EMPTY, 0))
    assert response.error is Error.UNKNOWN_LEADER_EPOCH
    assert (one.core.epoch, one.core.role) == (1, Role.LEADER)


def test_one_peer_alone_raises_the_epoch_at_a_bounded_rate() -> None:
    """A peer that claims one election after the other needs years to get to the end of the range."""
    epochs, own = PlausibleEpochs(0.0), 0
    for second in range(1_000):
        while epochs.believe(own, own + 1_000, 2, second * 1_000.0):
            own += 1_000
    assert own <= LEAP + 1_000 * EPOCHS_PER_SECOND
    assert epochs.believe(own, own + 1, 3, 1_000_000.0)


def test_two_sources_that_disagree_confirm_only_the_lower_epoch() -> None:
    epochs = PlausibleEpochs(0.0)
    assert not epochs.believe(5, EPOCH_END - 1, 2, 0.0)
    assert not epochs.believe(5, EPOCH_END - 1, 2, 0.0)
    assert epochs.believe(5, 5_000_000, 3, 0.0)


def test_replica_at_the_last_epoch_does_not_stand_for_election() -> None:
    one = One(election=ElectionState(EPOCH_END - 1))
    assert one.time_out() == []
    assert one.core.role is Role.UNATTACHED
