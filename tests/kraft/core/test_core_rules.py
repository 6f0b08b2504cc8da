"""One test per rule of elections and replication, on a single core. The names and docstrings cite the source."""

import pytest

from kraft.core import (
    Core,
    ElectionState,
    LogState,
    OffsetAndEpoch,
    QuorumConfig,
    Role,
    VoterSetHistory,
)
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.control_records import leader_change
from kraft.core.messages import CurrentLeader, Error
from kraft.replicated_log import Batch
from tests.support.raft_core import EMPTY, KEYS, THREE, WALL_S, SingleCore, established, kinds, sends


def test_5_2_replica_votes_once_per_epoch() -> None:
    """Raft's paper, section 5.2: the first candidate gets the vote, also when it asks again."""
    one = SingleCore()
    assert one.vote_for(2, 5, EMPTY)
    assert not one.vote_for(3, 5, EMPTY)
    assert one.vote_for(2, 5, EMPTY)
    assert one.vote_for(3, 6, EMPTY)


def test_5_2_vote_survives_a_restart() -> None:
    one = SingleCore(election=ElectionState(5, KEYS[2]))
    assert not one.vote_for(3, 5, EMPTY)
    assert one.vote_for(2, 5, EMPTY)


def test_5_2_vote_and_epoch_are_persisted_together_before_the_response() -> None:
    effects = SingleCore().ask(said.VoteRequest(5, KEYS[2], KEYS[1], EMPTY, pre_vote=False))
    assert kinds(effects) == [todo.RoleChanged, todo.PersistElection, todo.Answer]
    assert todo.PersistElection(ElectionState(5, KEYS[2])) in effects


@pytest.mark.parametrize(
    ("end", "granted"),
    [
        (OffsetAndEpoch(3, 4), True),
        (OffsetAndEpoch(4, 4), True),
        (OffsetAndEpoch(1, 5), True),
        (OffsetAndEpoch(2, 4), False),
        (OffsetAndEpoch(9, 3), False),
    ],
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_5_4_1_vote_is_granted_only_to_a_log_that_is_as_up_to_date(
    end: OffsetAndEpoch, granted: bool, pre_vote: bool
) -> None:
    """Raft's paper, section 5.4.1: the later epoch wins, then the longer log."""
    assert SingleCore(1, 4, 4).vote_for(2, 7, end, pre_vote=pre_vote) is granted


@pytest.mark.parametrize(
    ("end", "granted"),
    [
        (OffsetAndEpoch(3, 4), False),  # all that the log still has
        (OffsetAndEpoch(4, 4), False),
        (OffsetAndEpoch(5, 4), True),  # all that it had
        (OffsetAndEpoch(1, 5), True),
    ],
)
@pytest.mark.parametrize("pre_vote", [False, True])
def test_replica_that_lost_entries_votes_as_if_it_had_them(end: OffsetAndEpoch, granted: bool, pre_vote: bool) -> None:
    """Protocol-Aware Recovery (FAST 2018): damaged entries may be committed."""
    one = SingleCore(1, 4, 4)
    one.core.log.lost_end = OffsetAndEpoch(5, 4)
    assert one.vote_for(2, 7, end, pre_vote=pre_vote) is granted


def test_replica_that_lost_entries_looks_for_a_leader_and_is_elected_once_it_has_caught_up() -> None:
    one = SingleCore(1, 4, 4)
    one.core.log.lost_end = OffsetAndEpoch(5, 4)
    for _ in range(3):
        effects = one.step(happened.Tick(), one.core.deadline_ms - one.now_ms)
        assert one.core.role is Role.UNATTACHED
        for request in sends(effects):
            assert isinstance(request, said.FetchRequest)
            one.step(happened.RequestFailed(2, request))
    fetch = one.follow(2, 4)
    for offset in (3, 4):
        assert one.core.log.lost_end is not None
        batch = Batch(offset, 4, 0, (b"lost",))
        one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(4, 2, "host2:1"), 3, batches=(batch,))))
        (fetch,) = sends(one.sync())
        assert isinstance(fetch, said.FetchRequest)
    assert one.core.log.lost_end is None
    assert one.time_out() != []


def test_5_1_request_of_an_older_epoch_is_refused() -> None:
    one = SingleCore(election=ElectionState(5))
    for request in (
        said.VoteRequest(4, KEYS[2], KEYS[1], EMPTY, pre_vote=False),
        said.BeginEpochRequest(4, 2, "host2:1", KEYS[1]),
        said.EndEpochRequest(4, 2, (1,)),
        said.FetchRequest(4, KEYS[2], EMPTY, 0),
    ):
        response = one.answer_to(request)
        assert response.error is Error.FENCED_LEADER_EPOCH
        assert response.current_leader == CurrentLeader(5)


def test_5_1_leader_in_a_higher_epoch_steps_down_and_fails_waiting_requests() -> None:
    one = SingleCore().elected()
    one.fetch(3, 2, 1)
    effects = one.ask(said.VoteRequest(9, KEYS[2], KEYS[1], EMPTY, pre_vote=False))
    assert one.core.role is Role.UNATTACHED
    waiting = [effect.response for effect in effects if isinstance(effect, todo.Answer)]
    assert [response.error for response in waiting] == [Error.NOT_LEADER_OR_FOLLOWER, Error.NONE]


def test_5_2_candidate_follows_the_elected_leader() -> None:
    one = SingleCore()
    one.step(happened.Responded(2, one.time_out()[0], said.VoteResponse(CurrentLeader(0), granted=True)))
    assert (one.core.role, one.core.epoch) == (Role.CANDIDATE, 1)
    one.follow(3, 1)


def test_5_2_lost_election_is_repeated_in_another_epoch() -> None:
    one = SingleCore()
    effects = one.step(happened.Responded(2, one.time_out()[0], said.VoteResponse(CurrentLeader(0), granted=True)))
    for node_id, vote in zip((2, 3), sends(effects), strict=True):
        one.step(happened.Responded(node_id, vote, said.VoteResponse(CurrentLeader(1), granted=False)))
    one.step(happened.Tick(), max(0.0, one.core.deadline_ms - one.now_ms))
    assert (one.core.role, one.core.epoch) == (Role.PROSPECTIVE, 1)


def test_5_2_sole_voter_leads_at_its_first_step() -> None:
    one = SingleCore(voters=1)
    one.step(happened.Tick())
    assert one.core.role is Role.LEADER


def test_5_2_voter_with_rivals_waits_a_random_time_before_it_asks_for_votes() -> None:
    one = SingleCore(voters=2)
    assert one.step(happened.Tick()) == []
    assert one.core.deadline_ms > one.now_ms


def test_kip_996_epoch_rises_only_after_pre_votes_of_a_majority() -> None:
    one = SingleCore(election=ElectionState(7))
    for request in one.time_out():
        assert request.pre_vote
        assert request.epoch == 7
    assert (one.core.role, one.core.epoch) == (Role.PROSPECTIVE, 7)


def test_kip_996_pre_vote_does_not_count_as_a_vote() -> None:
    one = SingleCore()
    assert one.vote_for(2, 0, EMPTY, pre_vote=True)
    assert one.vote_for(3, 0, EMPTY, pre_vote=True)
    assert one.core.election == ElectionState()


def test_kip_996_follower_with_a_leader_refuses_pre_votes() -> None:
    one = SingleCore()
    fetch = one.follow(2, 1)
    one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(1, 2), 0)))
    assert not one.vote_for(3, 1, EMPTY, pre_vote=True)
    one.step(happened.ConnectionReset(2))
    assert one.vote_for(3, 1, EMPTY, pre_vote=True)


def test_kip_996_leader_refuses_pre_votes() -> None:
    one = SingleCore().elected()
    assert not one.vote_for(3, 1, OffsetAndEpoch(9, 1), pre_vote=True)


def test_kip_996_prospective_replica_follows_its_leader_again_when_refused() -> None:
    one = SingleCore()
    one.follow(2, 1)
    requests = one.time_out()
    assert one.core.role is Role.PROSPECTIVE
    for node_id, request in zip((2, 3), requests, strict=True):
        one.step(happened.Responded(node_id, request, said.VoteResponse(CurrentLeader(1, 2), granted=False)))
    assert (one.core.role, one.core.leader_id, one.core.epoch) == (Role.FOLLOWER, 2, 1)


def test_kip_996_prospective_replica_follows_the_lost_leader_only_on_its_own_message() -> None:
    one = SingleCore()
    one.follow(2, 1)
    requests = one.time_out()
    one.step(happened.Responded(3, requests[1], said.VoteResponse(CurrentLeader(1, 2), granted=False)))
    assert one.core.role is Role.PROSPECTIVE
    one.step(happened.Responded(2, requests[0], said.VoteResponse(CurrentLeader(1, 2), granted=False)))
    assert one.core.role is Role.FOLLOWER


def test_5_3_fetch_is_checked_against_the_epoch_of_the_previous_entry() -> None:
    """Log matching, KIP-595: entries are sent only to a log that has the same entry before them."""
    one = SingleCore(1, 1, 3).elected()
    one.sync()
    response = one.answer_to(said.FetchRequest(4, KEYS[2], OffsetAndEpoch(3, 2), 0))
    assert isinstance(response, said.FetchResponse)
    assert response.diverging == OffsetAndEpoch(2, 1)
    assert one.core.high_watermark == 0


@pytest.mark.parametrize("is_gone", [True, False])
def test_partial_snapshot_is_discarded_when_the_leader_no_longer_has_it(is_gone: bool) -> None:
    """The leader has a later snapshot, or another leader may have one."""
    one = SingleCore()
    wanted = OffsetAndEpoch(5, 1)
    fetch = one.follow(2, 1)
    (fetch_snapshot,) = sends(
        one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(1, 2), 0, snapshot=wanted)))
    )
    part = said.FetchSnapshotResponse(CurrentLeader(1, 2), 10, 0, b"x")
    (fetch_snapshot,) = sends(one.step(happened.Responded(2, fetch_snapshot, part)))
    if is_gone:
        gone = said.FetchSnapshotResponse(CurrentLeader(1, 2), error=Error.SNAPSHOT_NOT_FOUND)
        effects = one.step(happened.Responded(2, fetch_snapshot, gone))
    else:
        effects = one.ask(said.BeginEpochRequest(2, 3, "host3:1", KEYS[1]))
    assert todo.DiscardSnapshot(wanted) in effects


def test_kip_630_own_snapshot_is_ignored_while_a_fetched_one_is_installed() -> None:
    """The own snapshot took long, and is complete only while a later one is being installed."""
    one = SingleCore(1, 1, 1)
    fetch = one.follow(2, 1)
    (fetch,) = sends(one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(1, 2), 2))))
    fetched = OffsetAndEpoch(10, 1)
    (fetch,) = sends(
        one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(1, 2), 2, snapshot=fetched)))
    )
    effects = one.step(happened.Responded(2, fetch, said.FetchSnapshotResponse(CurrentLeader(1, 2), 1, 0, b"x")))
    assert todo.InstallSnapshot(fetched) in effects
    assert one.step(happened.SnapshotTaken(OffsetAndEpoch(2, 1))) == []


def test_follower_acknowledges_only_durable_entries() -> None:
    """Raft's paper, section 5.3: the Fetch that acknowledges waits for the sync."""
    one = SingleCore()
    fetch = one.follow(2, 1)
    batch = leader_change(0, 1, 2, [2, 3])
    effects = one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(1, 2), 0, batches=(batch,))))
    assert kinds(effects) == [todo.AppendLog]
    (request,) = sends(one.sync())
    assert isinstance(request, said.FetchRequest)
    assert request.log_end == OffsetAndEpoch(1, 1)


def test_follower_refuses_batches_that_do_not_continue_its_log() -> None:
    one = SingleCore()
    fetch = one.follow(2, 1)
    stray = Batch(4, 1, 0, (b"x",))
    effects = one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(1, 2), 0, batches=(stray,))))
    assert effects == []
    assert one.core.end_offset == 0


def test_follower_never_truncates_committed_entries() -> None:
    one = SingleCore(1, 1)
    fetch = one.follow(2, 2)
    one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(2, 2), 2)))
    assert one.core.high_watermark == 2
    response = said.FetchResponse(CurrentLeader(2, 2), 2, diverging=OffsetAndEpoch(1, 1))
    effects = one.step(happened.Responded(2, one.core._replica.requests._under_way[2, type(fetch)], response))
    assert effects == [todo.RefusedTruncation(2, 1, 2)]
    assert one.core.end_offset == 2


def test_kip_595_first_preferred_successor_stands_at_once_and_others_wait() -> None:
    for successors, role in (((1, 3), Role.CANDIDATE), ((3, 1), Role.FOLLOWER)):
        one = SingleCore()
        one.follow(2, 1)
        one.ask(said.EndEpochRequest(1, 2, successors))
        assert one.core.role is role
        if role is Role.FOLLOWER:
            assert 20 <= one.core.deadline_ms - one.now_ms <= 1_000


LONG_MS = 10_000.0


def test_leaving_leader_never_stands_again() -> None:
    one = established()
    one.step(happened.Leave())
    assert one.core.role is Role.RESIGNED
    for _ in range(5):
        one.step(happened.Tick(), LONG_MS)
        assert (one.core.role, one.core.epoch) == (Role.UNATTACHED, 1)
    assert one.vote_for(2, 2, OffsetAndEpoch(2, 1)), "but it helps others to be elected"


def test_leaving_follower_does_not_stand_and_is_no_successor() -> None:
    one = SingleCore()
    one.follow(2, 1)
    one.step(happened.Leave())
    one.ask(said.EndEpochRequest(1, 2, (1, 3)))
    assert one.core.role is Role.FOLLOWER
    one.step(happened.Tick(), LONG_MS)
    assert (one.core.role, one.core.epoch) == (Role.UNATTACHED, 1)
    assert one.core.deadline_ms > one.now_ms, "it waits for an election timeout"


def test_leaving_candidate_is_not_elected() -> None:
    asking = SingleCore()
    (pre_vote, _) = asking.time_out()
    asking.step(happened.Leave())
    asking.step(happened.Responded(2, pre_vote, said.VoteResponse(CurrentLeader(0), granted=True)))
    assert (asking.core.role, asking.core.epoch) == (Role.UNATTACHED, 0)
    standing = SingleCore()
    (pre_vote, _) = standing.time_out()
    vote = sends(standing.step(happened.Responded(2, pre_vote, said.VoteResponse(CurrentLeader(0), granted=True))))[0]
    assert standing.core.role is Role.CANDIDATE
    standing.step(happened.Leave())
    standing.step(happened.Responded(2, vote, said.VoteResponse(CurrentLeader(1), granted=True)))
    assert (standing.core.role, standing.core.epoch) == (Role.UNATTACHED, 1)


def test_reset_connection_to_the_leader_starts_a_pre_vote_at_once() -> None:
    one = SingleCore()
    one.follow(2, 1)
    one.step(happened.ConnectionReset(3))
    assert one.core.role is Role.FOLLOWER
    one.step(happened.ConnectionReset(2))
    assert one.core.deadline_ms - one.now_ms <= 100
    assert one.time_out()
    assert (one.core.role, one.core.epoch) == (Role.PROSPECTIVE, 1)


def test_response_to_a_request_of_a_former_role_is_ignored() -> None:
    """A vote of an earlier epoch does not count in the current one."""
    one = SingleCore()
    effects = one.step(happened.Responded(2, one.time_out()[0], said.VoteResponse(CurrentLeader(0), granted=True)))
    late = sends(effects)[0]
    one.follow(3, 2)
    one.step(happened.Responded(2, late, said.VoteResponse(CurrentLeader(1), granted=True)))
    assert (one.core.role, one.core.epoch) == (Role.FOLLOWER, 2)


@pytest.mark.parametrize("address", ["host2:1", ""])
def test_started_replica_requests_pre_votes_at_once_and_finds_the_leader(address: str) -> None:
    """A response without an address names a voter, whose address is in the voter set."""
    one = SingleCore(election=ElectionState(3))
    assert one.core.deadline_ms <= 40.0
    (pre_vote, _) = one.time_out()
    assert pre_vote.pre_vote
    refusal = said.VoteResponse(CurrentLeader(3, 2, address), granted=False)
    effects = one.step(happened.Responded(2, pre_vote, refusal))
    assert (one.core.role, one.core.leader_id, one.core.epoch) == (Role.FOLLOWER, 2, 3)
    (fetch,) = [effect for effect in effects if isinstance(effect, todo.Send)]
    assert (type(fetch.request), fetch.destination, fetch.address) == (said.FetchRequest, 2, "host2:1")


def test_prospective_replica_with_the_lower_id_gets_the_pre_vote_of_the_other() -> None:
    lower, higher = SingleCore(), SingleCore()
    higher.core = Core(
        QuorumConfig(KEYS[3], "host3:1"),
        lambda: 0.5,
        ElectionState(),
        LogState(),
        VoterSetHistory(THREE),
        0.0,
        lambda: WALL_S,
    )
    for one, rival in ((lower, 3), (higher, 2)):
        one.time_out()
        assert one.core.role is Role.PROSPECTIVE
        request = said.VoteRequest(0, KEYS[rival], one.core._replica.me, OffsetAndEpoch(0, 0), pre_vote=True)
        response = one.answer_to(request)
        assert isinstance(response, said.VoteResponse)
        assert response.granted is (one is higher)


def test_candidate_grants_a_pre_vote_only_after_it_has_lost() -> None:
    one = SingleCore()
    (pre_vote, _) = one.time_out()
    votes = sends(one.step(happened.Responded(2, pre_vote, said.VoteResponse(CurrentLeader(0), granted=True))))
    assert one.core.role is Role.CANDIDATE
    assert not one.vote_for(3, 1, OffsetAndEpoch(0, 0), pre_vote=True)
    for node_id, vote in zip((2, 3), votes, strict=True):
        one.step(happened.Responded(node_id, vote, said.VoteResponse(CurrentLeader(1), granted=False)))
    assert one.vote_for(3, 1, OffsetAndEpoch(0, 0), pre_vote=True)


def test_replica_that_granted_a_pre_vote_postpones_its_own_election() -> None:
    one = SingleCore()
    one.follow(2, 1)
    one.step(happened.ConnectionReset(2))
    assert one.vote_for(3, 1, OffsetAndEpoch(0, 0), pre_vote=True)
    assert one.core.deadline_ms - one.now_ms == 150.0
