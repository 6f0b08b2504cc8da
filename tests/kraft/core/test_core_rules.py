"""One test for each rule, told to one core; where the rule is from stands beside it."""

import attrs
import pytest

from kraft.core import (
    Core,
    ElectionState,
    LogShape,
    OffsetAndEpoch,
    QuorumConfig,
    ReplicaKey,
    Role,
    Voter,
    VoterHistory,
    VoterSet,
)
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.control import leader_change
from kraft.core.messages import Error, Known
from kraft.core.replica import UnsafeTruncation
from kraft.replicated_log import Batch

THREE = VoterSet(tuple(Voter(ReplicaKey(node_id, f"d{node_id}"), f"host{node_id}") for node_id in (1, 2, 3)))
KEYS = {node_id: ReplicaKey(node_id, f"d{node_id}") for node_id in range(1, 6)}


class One:
    """Node 1 of three voters, whose log has a batch of one record for each of `epochs`."""

    def __init__(
        self,
        *epochs: int,
        election: ElectionState | None = None,
        voters: int = 3,
        named: Voter | None = None,
        config: QuorumConfig | None = None,
    ) -> None:
        log = LogShape()
        for offset, epoch in enumerate(epochs):
            log.append(offset, offset, epoch)
        log.synced(log.end)
        initial = VoterSet(tuple(Voter(KEYS[node_id], f"host{node_id}") for node_id in range(1, voters + 1)))
        if named is not None:
            initial = initial.with_voter(named)
        config = config or QuorumConfig(KEYS[1], "host1")
        election = election or ElectionState(log.last_epoch)
        self.core = Core(config, lambda: 0.5, election, log, VoterHistory(initial), 0.0)
        self.now_ms = 0.0
        self.tokens = 0

    def step(self, event: happened.Event, wait_ms: float = 0.0) -> list[todo.Effect]:
        self.now_ms += wait_ms
        return self.core.step(event, self.now_ms)

    def ask(self, request: said.Request) -> list[todo.Effect]:
        self.tokens += 1
        return self.step(happened.Received(self.tokens, request))

    def answer_to(self, request: said.Request) -> said.Response:
        (answer,) = [effect for effect in self.ask(request) if isinstance(effect, todo.Answer)]
        return answer.response

    def time_out(self) -> list[said.VoteRequest]:
        effects = self.step(happened.Tick(), self.core.deadline_ms - self.now_ms)
        return [sent for sent in sends(effects) if isinstance(sent, said.VoteRequest)]

    def elected(self) -> "One":
        """Won with the votes of node 2."""
        (pre_vote, _) = self.time_out()
        known = Known(self.core.epoch)
        effects = self.step(happened.Responded(2, pre_vote, said.VoteResponse(known, granted=True)))
        vote = sends(effects)[0]
        self.step(happened.Responded(2, vote, said.VoteResponse(Known(self.core.epoch), granted=True)))
        assert self.core.role is Role.LEADER
        return self

    def sync(self) -> list[todo.Effect]:
        return self.step(happened.LogSynced(self.core.log.end))

    def fetch(self, node_id: int, offset: int, epoch: int, request_epoch: int | None = None) -> list[todo.Effect]:
        request_epoch = self.core.epoch if request_epoch is None else request_epoch
        return self.ask(said.FetchRequest(request_epoch, KEYS[node_id], OffsetAndEpoch(offset, epoch), 0))

    def follow(self, leader_id: int, epoch: int) -> said.FetchRequest:
        effects = self.ask(said.BeginEpochRequest(epoch, leader_id, f"host{leader_id}", KEYS[1]))
        assert self.core.role is Role.FOLLOWER
        (fetch,) = sends(effects)
        assert isinstance(fetch, said.FetchRequest)
        return fetch

    def vote_for(self, node_id: int, epoch: int, end: OffsetAndEpoch, *, pre_vote: bool = False) -> bool:
        response = self.answer_to(said.VoteRequest(epoch, KEYS[node_id], KEYS[1], end, pre_vote))
        assert isinstance(response, said.VoteResponse)
        return response.granted


def sends(effects: list[todo.Effect]) -> list[said.Request]:
    return [effect.request for effect in effects if isinstance(effect, todo.Send)]


def kinds(effects: list[todo.Effect]) -> list[type[todo.Effect]]:
    return [type(effect) for effect in effects]


EMPTY = OffsetAndEpoch(0, 0)


def test_5_2_one_vote_in_an_epoch() -> None:
    """Raft's paper, section 5.2: first come, first served; the same candidate may ask again."""
    one = One()
    assert one.vote_for(2, 5, EMPTY)
    assert not one.vote_for(3, 5, EMPTY)
    assert one.vote_for(2, 5, EMPTY)
    assert one.vote_for(3, 6, EMPTY)


def test_5_2_a_vote_survives_a_restart() -> None:
    one = One(election=ElectionState(5, KEYS[2]))
    assert not one.vote_for(3, 5, EMPTY)
    assert one.vote_for(2, 5, EMPTY)


def test_5_2_a_vote_is_durable_before_it_is_given_once_for_epoch_and_vote() -> None:
    effects = One().ask(said.VoteRequest(5, KEYS[2], KEYS[1], EMPTY, pre_vote=False))
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
def test_5_4_1_votes_go_to_logs_that_are_as_up_to_date(end: OffsetAndEpoch, granted: bool, pre_vote: bool) -> None:
    """Raft's paper, section 5.4.1: the later epoch wins, then the longer log."""
    assert One(1, 4, 4).vote_for(2, 7, end, pre_vote=pre_vote) is granted


def test_5_1_a_request_of_an_older_epoch_is_refused() -> None:
    one = One(election=ElectionState(5))
    for request in (
        said.VoteRequest(4, KEYS[2], KEYS[1], EMPTY, pre_vote=False),
        said.BeginEpochRequest(4, 2, "host2", KEYS[1]),
        said.EndEpochRequest(4, 2, (1,)),
        said.FetchRequest(4, KEYS[2], EMPTY, 0),
    ):
        response = one.answer_to(request)
        assert response.error is Error.FENCED_LEADER_EPOCH
        assert response.known == Known(5)


def test_5_1_a_leader_that_hears_of_a_higher_epoch_steps_down_and_tells_who_waits() -> None:
    one = One().elected()
    one.fetch(3, 2, 1)
    effects = one.ask(said.VoteRequest(9, KEYS[2], KEYS[1], EMPTY, pre_vote=False))
    assert one.core.role is Role.UNATTACHED
    waiting = [effect.response for effect in effects if isinstance(effect, todo.Answer)]
    assert [response.error for response in waiting] == [Error.NOT_LEADER_OR_FOLLOWER, Error.NONE]


def test_5_2_a_candidate_follows_whoever_won() -> None:
    one = One()
    one.step(happened.Responded(2, one.time_out()[0], said.VoteResponse(Known(0), granted=True)))
    assert (one.core.role, one.core.epoch) == (Role.CANDIDATE, 1)
    one.follow(3, 1)


def test_5_2_a_lost_election_is_tried_again_in_another_epoch() -> None:
    one = One()
    effects = one.step(happened.Responded(2, one.time_out()[0], said.VoteResponse(Known(0), granted=True)))
    for node_id, vote in zip((2, 3), sends(effects), strict=True):
        one.step(happened.Responded(node_id, vote, said.VoteResponse(Known(1), granted=False)))
    one.step(happened.Tick(), max(0.0, one.core.deadline_ms - one.now_ms))
    assert (one.core.role, one.core.epoch) == (Role.PROSPECTIVE, 1)


def test_kip_996_the_epoch_stays_until_a_majority_would_vote() -> None:
    one = One(election=ElectionState(7))
    for request in one.time_out():
        assert request.pre_vote
        assert request.epoch == 7
    assert (one.core.role, one.core.epoch) == (Role.PROSPECTIVE, 7)


def test_kip_996_a_pre_vote_is_no_vote() -> None:
    one = One()
    assert one.vote_for(2, 0, EMPTY, pre_vote=True)
    assert one.vote_for(3, 0, EMPTY, pre_vote=True)
    assert one.core.election == ElectionState()


def test_kip_996_nobody_would_vote_while_it_hears_its_leader() -> None:
    one = One()
    fetch = one.follow(2, 1)
    one.step(happened.Responded(2, fetch, said.FetchResponse(Known(1, 2), 0)))
    assert not one.vote_for(3, 1, EMPTY, pre_vote=True)
    one.step(happened.ConnectionReset(2))
    assert one.vote_for(3, 1, EMPTY, pre_vote=True)


def test_kip_996_a_leader_would_vote_for_nobody() -> None:
    one = One().elected()
    assert not one.vote_for(3, 1, OffsetAndEpoch(9, 1), pre_vote=True)


def test_kip_996_who_is_refused_goes_back_to_its_leader() -> None:
    one = One()
    one.follow(2, 1)
    requests = one.time_out()
    assert one.core.role is Role.PROSPECTIVE
    for node_id, request in zip((2, 3), requests, strict=True):
        one.step(happened.Responded(node_id, request, said.VoteResponse(Known(1, 2), granted=False)))
    assert (one.core.role, one.core.leader_id, one.core.epoch) == (Role.FOLLOWER, 2, 1)


def test_kip_996_word_of_the_lost_leader_counts_only_from_itself() -> None:
    one = One()
    one.follow(2, 1)
    requests = one.time_out()
    one.step(happened.Responded(3, requests[1], said.VoteResponse(Known(1, 2), granted=False)))
    assert one.core.role is Role.PROSPECTIVE
    one.step(happened.Responded(2, requests[0], said.VoteResponse(Known(1, 2), granted=False)))
    assert one.core.role is Role.FOLLOWER


def test_8_a_leader_begins_with_an_entry_of_its_epoch() -> None:
    """Raft's paper, section 8: it cannot know what is committed before one of its own is."""
    one = One(1, 1).elected()
    assert one.core.epoch == 2
    assert one.core.log.end_of_epoch(2).epoch == 2


def test_5_3_a_leader_commits_what_a_majority_has_durably() -> None:
    one = One().elected()
    assert not [effect for effect in one.fetch(2, 2, 1) if isinstance(effect, todo.Committed)]
    assert todo.Committed(2) in one.sync()


def test_5_3_what_the_leader_has_not_synced_does_not_count() -> None:
    one = One().elected()
    one.fetch(2, 2, 1)
    assert one.core.high_watermark == 0
    one.fetch(3, 2, 1)
    assert one.core.high_watermark == 2


def test_5_4_2_entries_of_older_epochs_are_not_committed_by_counting() -> None:
    """Raft's paper, section 5.4.2 and figure 8."""
    one = One(1, 1, 1).elected()
    one.sync()
    one.fetch(2, 3, 1)
    assert one.core.high_watermark == 0
    one.fetch(2, 4, 2)
    assert one.core.high_watermark == 4


def test_5_3_a_fetch_is_checked_against_the_epoch_before_it() -> None:
    """Log matching, KIP-595: what follows is only handed out behind the same entry."""
    one = One(1, 1, 3).elected()
    one.sync()
    response = one.answer_to(said.FetchRequest(4, KEYS[2], OffsetAndEpoch(3, 2), 0))
    assert isinstance(response, said.FetchResponse)
    assert response.diverging == OffsetAndEpoch(2, 1)
    assert one.core.high_watermark == 0


def test_kip_630_who_is_behind_the_start_is_sent_to_the_snapshot() -> None:
    one = One(1, 1, 1).elected()
    one.sync()
    one.fetch(2, one.core.end_offset, 2)
    one.step(happened.SnapshotTaken(OffsetAndEpoch(2, 1)))
    response = one.answer_to(said.FetchRequest(2, KEYS[3], OffsetAndEpoch(1, 1), 0))
    assert isinstance(response, said.FetchResponse)
    assert response.snapshot == OffsetAndEpoch(2, 1)


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_was_fetched_of_a_snapshot_is_discarded_when_it_is_not_to_be_had_any_more(is_gone: bool) -> None:
    """The leader has a later one, or somebody else leads, who may have a later one."""
    one = One()
    wanted = OffsetAndEpoch(5, 1)
    fetch = one.follow(2, 1)
    (fetch_snapshot,) = sends(
        one.step(happened.Responded(2, fetch, said.FetchResponse(Known(1, 2), 0, snapshot=wanted)))
    )
    part = said.FetchSnapshotResponse(Known(1, 2), 10, 0, b"x")
    (fetch_snapshot,) = sends(one.step(happened.Responded(2, fetch_snapshot, part)))
    if is_gone:
        gone = said.FetchSnapshotResponse(Known(1, 2), error=Error.SNAPSHOT_NOT_FOUND)
        effects = one.step(happened.Responded(2, fetch_snapshot, gone))
    else:
        effects = one.ask(said.BeginEpochRequest(2, 3, "host3", KEYS[1]))
    assert todo.DiscardSnapshot(wanted) in effects


def test_kip_630_an_own_snapshot_does_not_cut_a_log_that_a_fetched_one_replaces() -> None:
    """It was taken slowly, and comes while the later one is being installed."""
    one = One(1, 1, 1)
    fetch = one.follow(2, 1)
    (fetch,) = sends(one.step(happened.Responded(2, fetch, said.FetchResponse(Known(1, 2), 2))))
    fetched = OffsetAndEpoch(10, 1)
    (fetch,) = sends(one.step(happened.Responded(2, fetch, said.FetchResponse(Known(1, 2), 2, snapshot=fetched))))
    effects = one.step(happened.Responded(2, fetch, said.FetchSnapshotResponse(Known(1, 2), 1, 0, b"x")))
    assert todo.InstallSnapshot(fetched) in effects
    assert one.step(happened.SnapshotTaken(OffsetAndEpoch(2, 1))) == []


def test_a_follower_acknowledges_only_what_is_durable() -> None:
    """Raft's paper, section 5.3: the Fetch that acknowledges waits for the sync."""
    one = One()
    fetch = one.follow(2, 1)
    batch = leader_change(0, 1, 2, [2, 3])
    effects = one.step(happened.Responded(2, fetch, said.FetchResponse(Known(1, 2), 0, batches=(batch,))))
    assert kinds(effects) == [todo.AppendLog]
    (request,) = sends(one.sync())
    assert isinstance(request, said.FetchRequest)
    assert request.log_end == OffsetAndEpoch(1, 1)


def test_a_follower_takes_no_batches_that_do_not_follow() -> None:
    one = One()
    fetch = one.follow(2, 1)
    stray = Batch(4, 1, 0, (b"x",))
    effects = one.step(happened.Responded(2, fetch, said.FetchResponse(Known(1, 2), 0, batches=(stray,))))
    assert effects == []
    assert one.core.end_offset == 0


def test_a_follower_never_truncates_what_is_committed() -> None:
    one = One(1, 1)
    fetch = one.follow(2, 2)
    one.step(happened.Responded(2, fetch, said.FetchResponse(Known(2, 2), 2)))
    assert one.core.high_watermark == 2
    again = attrs.evolve(fetch, high_watermark=2)
    response = said.FetchResponse(Known(2, 2), 2, diverging=OffsetAndEpoch(1, 1))
    with pytest.raises(UnsafeTruncation):
        one.step(happened.Responded(2, one.core._replica.requests._under_way[2, type(again)], response))


def test_check_quorum_a_leader_without_fetches_from_a_majority_resigns() -> None:
    """KIP-595 and Raft's dissertation, section 6.2."""
    one = One().elected()
    one.step(happened.Tick(), 2_999.0)
    assert one.core.role is Role.LEADER
    effects = one.step(happened.Tick(), 1.0)
    assert one.core.role is Role.RESIGNED
    assert {type(request) for request in sends(effects)} == {said.EndEpochRequest}


def test_check_quorum_fetches_from_one_other_of_three_suffice() -> None:
    one = One().elected()
    for _ in range(10):
        one.fetch(3, 0, 0)
        one.step(happened.Tick(), 2_000.0)
    assert one.core.role is Role.LEADER


def test_check_quorum_a_wiped_voter_does_not_count() -> None:
    """KIP-853: another directory id is another replica."""
    one = One().elected()
    stranger = said.FetchRequest(1, ReplicaKey(3, "new"), OffsetAndEpoch(2, 1), 0)
    one.ask(stranger)
    one.sync()
    assert one.core.high_watermark == 0


def test_kip_595_the_best_successor_stands_at_once_and_the_others_wait() -> None:
    for successors, role in (((1, 3), Role.CANDIDATE), ((3, 1), Role.FOLLOWER)):
        one = One()
        one.follow(2, 1)
        one.ask(said.EndEpochRequest(1, 2, successors))
        assert one.core.role is role
        if role is Role.FOLLOWER:
            assert 20 <= one.core.deadline_ms - one.now_ms <= 1_000


def test_kip_853_votes_meant_for_a_lost_disk_are_refused() -> None:
    request = said.VoteRequest(1, KEYS[2], ReplicaKey(1, "lost"), EMPTY, pre_vote=False)
    response = One().answer_to(request)
    assert response.error is Error.INVALID_VOTER_KEY


def test_kip_853_one_with_another_disk_learns_who_leads_from_what_is_meant_for_the_lost_one() -> None:
    one = One()
    effects = one.ask(said.BeginEpochRequest(3, 2, "host2", ReplicaKey(1, "lost")))
    answers = [effect.response.error for effect in effects if isinstance(effect, todo.Answer)]
    assert answers == [Error.INVALID_VOTER_KEY]
    assert (one.core.role, one.core.leader_id, one.core.epoch) == (Role.FOLLOWER, 2, 3)


def add(node_id: int) -> said.AddVoterRequest:
    return said.AddVoterRequest(Voter(KEYS[node_id], f"host{node_id}"), 5_000)


def established(voters: int = 3) -> One:
    one = One(voters=voters).elected()
    one.sync()
    one.fetch(2, 2, 1)
    assert one.core.high_watermark == 2
    return one


def test_kip_853_no_change_before_the_epoch_has_committed() -> None:
    """Ongaro's correction of 2015 to the single-server changes of the dissertation."""
    one = One().elected()
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    assert one.core.voters.ids == (1, 2, 3)
    one.fetch(2, 2, 1)
    one.sync()
    assert one.core.voters.ids == (1, 2)


def test_kip_853_one_change_at_a_time() -> None:
    one = established()
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    assert one.core.voters.ids == (1, 2)
    response = one.answer_to(said.RemoveVoterRequest(KEYS[2], 5_000))
    assert response.error is Error.REQUEST_TIMED_OUT
    one.step(happened.Tick(), 2_500.0)
    one.fetch(2, 2, 1)
    one.step(happened.Tick(), 2_500.0)  # its asker has given up, its entry is in the log
    one.ask(said.RemoveVoterRequest(KEYS[2], 5_000))
    assert one.core.voters.ids == (1, 2)


def test_kip_853_a_voter_is_added_once_it_has_caught_up() -> None:
    one = established()
    one.ask(add(4))
    one.fetch(4, 1, 1)
    assert one.core.voters.ids == (1, 2, 3)
    one.fetch(4, 2, 1)
    assert one.core.voters.ids == (1, 2, 3, 4)


def test_kip_853_refused_changes_say_why() -> None:
    one = established()
    for request, error in (
        (add(3), Error.DUPLICATE_VOTER),
        (said.RemoveVoterRequest(KEYS[4], 5_000), Error.VOTER_NOT_FOUND),
        (said.RemoveVoterRequest(ReplicaKey(3, "other"), 5_000), Error.VOTER_NOT_FOUND),
        (said.UpdateVoterRequest(Voter(KEYS[5], "host5"), 5_000), Error.VOTER_NOT_FOUND),
    ):
        assert one.answer_to(request).error is error


def test_kip_853_a_change_that_waits_too_long_times_out() -> None:
    one = established()
    one.ask(add(4))
    answers: list[said.Response] = []
    for _ in range(6):
        one.fetch(2, 2, 1)
        effects = one.step(happened.Tick(), 1_000.0)
        answers += [each.response for each in effects if isinstance(each, todo.Answer)]
    assert [answer.error for answer in answers if isinstance(answer, said.VoterChangeResponse)] == [
        Error.REQUEST_TIMED_OUT
    ]


def test_kip_853_a_new_address_goes_through_the_log() -> None:
    one = established()
    one.ask(said.UpdateVoterRequest(Voter(KEYS[3], "moved"), 5_000))
    voter = one.core.voters.get(3)
    assert voter is not None
    assert voter.address == "moved"


def test_kip_853_a_leader_that_removed_itself_does_not_count_itself() -> None:
    one = established()
    one.ask(said.RemoveVoterRequest(KEYS[1], 5_000))
    one.sync()
    one.fetch(2, 3, 1)
    assert one.core.high_watermark == 2
    one.fetch(3, 3, 1)
    assert one.core.high_watermark == 3
    assert one.core.role is Role.RESIGNED


def test_4_2_2_who_is_removed_may_stand_until_that_is_committed() -> None:
    """Raft's dissertation, section 4.2.2: nobody else may have the entry that removes it."""
    one = established()
    one.ask(said.RemoveVoterRequest(KEYS[1], 5_000))
    one.step(happened.Tick(), 3_000.0)
    assert one.core.role is Role.RESIGNED
    one.step(happened.Tick(), 1_500.0)
    assert one.core.role is Role.PROSPECTIVE


LONG_MS = 10_000.0


def test_a_leader_that_leaves_never_stands_again() -> None:
    one = established()
    one.step(happened.Leave())
    assert one.core.role is Role.RESIGNED
    for _ in range(5):
        one.step(happened.Tick(), LONG_MS)
        assert (one.core.role, one.core.epoch) == (Role.UNATTACHED, 1)
    assert one.vote_for(2, 2, OffsetAndEpoch(2, 1)), "but it helps others to be elected"


def test_a_follower_that_leaves_does_not_stand_and_is_no_successor() -> None:
    one = One()
    one.follow(2, 1)
    one.step(happened.Leave())
    one.ask(said.EndEpochRequest(1, 2, (1, 3)))
    assert one.core.role is Role.FOLLOWER
    one.step(happened.Tick(), LONG_MS)
    assert (one.core.role, one.core.epoch) == (Role.UNATTACHED, 1)


def test_who_stands_for_election_and_leaves_is_not_elected_any_more() -> None:
    asking = One()
    (pre_vote, _) = asking.time_out()
    asking.step(happened.Leave())
    asking.step(happened.Responded(2, pre_vote, said.VoteResponse(Known(0), granted=True)))
    assert (asking.core.role, asking.core.epoch) == (Role.UNATTACHED, 0)
    standing = One()
    (pre_vote, _) = standing.time_out()
    vote = sends(standing.step(happened.Responded(2, pre_vote, said.VoteResponse(Known(0), granted=True))))[0]
    assert standing.core.role is Role.CANDIDATE
    standing.step(happened.Leave())
    standing.step(happened.Responded(2, vote, said.VoteResponse(Known(1), granted=True)))
    assert (standing.core.role, standing.core.epoch) == (Role.UNATTACHED, 1)


def test_a_reset_connection_to_the_leader_starts_a_pre_vote_at_once() -> None:
    one = One()
    one.follow(2, 1)
    one.step(happened.ConnectionReset(3))
    assert one.core.role is Role.FOLLOWER
    one.step(happened.ConnectionReset(2))
    assert one.core.deadline_ms - one.now_ms <= 100
    assert one.time_out()
    assert (one.core.role, one.core.epoch) == (Role.PROSPECTIVE, 1)


def test_an_answer_of_a_former_role_counts_for_nothing() -> None:
    """A vote that was asked for in an epoch before does not elect in this one."""
    one = One()
    effects = one.step(happened.Responded(2, one.time_out()[0], said.VoteResponse(Known(0), granted=True)))
    late = sends(effects)[0]
    one.follow(3, 2)
    one.step(happened.Responded(2, late, said.VoteResponse(Known(1), granted=True)))
    assert (one.core.role, one.core.epoch) == (Role.FOLLOWER, 2)


def test_who_starts_asks_around_at_once_and_finds_the_leader() -> None:
    one = One(election=ElectionState(3))
    assert one.core.deadline_ms <= 40.0
    (pre_vote, _) = one.time_out()
    assert pre_vote.pre_vote
    effects = one.step(happened.Responded(2, pre_vote, said.VoteResponse(Known(3, 2, "host2"), granted=False)))
    assert (one.core.role, one.core.leader_id, one.core.epoch) == (Role.FOLLOWER, 2, 3)
    assert [type(request) for request in sends(effects)] == [said.FetchRequest]


MOVED = QuorumConfig(KEYS[1], "moved")


def test_kip_853_a_voter_reports_its_disk_and_its_address_to_the_leader() -> None:
    one = One(named=Voter(ReplicaKey(1), "host1"), config=MOVED)
    effects = one.ask(said.BeginEpochRequest(1, 2, "host2", KEYS[1]))
    (_, update) = sends(effects)
    assert isinstance(update, said.UpdateVoterRequest)
    assert update.voter == Voter(KEYS[1], "moved")
    refused = said.VoterChangeResponse(Known(1, 2), Error.REQUEST_TIMED_OUT)
    assert sends(one.step(happened.Responded(2, update, refused))) == []
    (again,) = sends(one.step(happened.Tick(), update.timeout_ms))
    assert again == update


def test_kip_853_a_leader_names_itself_in_the_log() -> None:
    one = One(named=Voter(ReplicaKey(1), "host1"), config=MOVED).elected()
    assert one.core.voters.get(1) == Voter(KEYS[1], "moved")


def test_kip_853_a_leader_that_has_moved_says_so_once_its_epoch_has_committed() -> None:
    one = established()
    one.core._replica.config = MOVED
    assert sends(one.step(happened.Tick())) == []
    assert one.core.voters.get(1) == Voter(KEYS[1], "moved")


def test_kip_853_whoever_has_another_disk_than_the_voter_never_claims_to_be_it() -> None:
    one = One(named=Voter(ReplicaKey(1, "lost"), "host1"))
    assert not one.core.is_voter
    effects = one.step(happened.Tick(), 100.0)  # it asks for the leader as an observer does
    (fetch,) = sends(effects)
    assert isinstance(fetch, said.FetchRequest)
    destination = next(effect.destination for effect in effects if isinstance(effect, todo.Send))
    effects = one.step(happened.Responded(destination, fetch, said.FetchResponse(Known(1, 2, "host2"), 0)))
    assert one.core.role is Role.FOLLOWER
    assert [type(request) for request in sends(effects)] == [said.FetchRequest]


def test_of_two_that_ask_each_other_the_one_with_the_lower_id_goes_first() -> None:
    lower, higher = One(), One()
    higher.core = Core(
        QuorumConfig(KEYS[3], "host3"), lambda: 0.5, ElectionState(), LogShape(), VoterHistory(THREE), 0.0
    )
    for one, rival in ((lower, 3), (higher, 2)):
        one.time_out()
        assert one.core.role is Role.PROSPECTIVE
        request = said.VoteRequest(0, KEYS[rival], one.core._replica.me, OffsetAndEpoch(0, 0), pre_vote=True)
        response = one.answer_to(request)
        assert isinstance(response, said.VoteResponse)
        assert response.granted is (one is higher)


def test_a_candidate_encourages_a_rival_only_once_it_has_lost() -> None:
    one = One()
    (pre_vote, _) = one.time_out()
    votes = sends(one.step(happened.Responded(2, pre_vote, said.VoteResponse(Known(0), granted=True))))
    assert one.core.role is Role.CANDIDATE
    assert not one.vote_for(3, 1, OffsetAndEpoch(0, 0), pre_vote=True)
    for node_id, vote in zip((2, 3), votes, strict=True):
        one.step(happened.Responded(node_id, vote, said.VoteResponse(Known(1), granted=False)))
    assert one.vote_for(3, 1, OffsetAndEpoch(0, 0), pre_vote=True)


def test_whoever_encourages_another_gives_it_time() -> None:
    one = One()
    one.follow(2, 1)
    one.step(happened.ConnectionReset(2))
    assert one.vote_for(3, 1, OffsetAndEpoch(0, 0), pre_vote=True)
    assert one.core.deadline_ms - one.now_ms == 150.0


def test_of_a_replaced_disk_the_leader_remembers_only_the_new_one() -> None:
    def observers(one: One) -> list[ReplicaKey]:
        leader = one.core.leader_state
        assert leader is not None
        return sorted(leader.observers)

    def fetch(one: One, key: ReplicaKey, end: OffsetAndEpoch) -> None:
        one.step(happened.Tick(), 1.0)
        one.ask(said.FetchRequest(1, key, end, 0))

    one = established()
    third, replaced, again = KEYS[3], ReplicaKey(3, "new"), ReplicaKey(3, "newer")
    fetch(one, third, OffsetAndEpoch(2, 1))
    fetch(one, replaced, OffsetAndEpoch(0, 0))
    assert observers(one) == [replaced], "the voter is no observer, whatever its disk"
    one.ask(said.RemoveVoterRequest(third, 5_000))
    assert observers(one) == [replaced]
    fetch(one, KEYS[4], OffsetAndEpoch(0, 0))
    fetch(one, again, OffsetAndEpoch(0, 0))
    assert observers(one) == [again, KEYS[4]]


def test_kip_853_once_its_disk_is_known_another_one_does_not_count_for_a_voter() -> None:
    one = One(named=Voter(ReplicaKey(2), "host2")).elected()
    one.sync()
    one.fetch(2, 2, 1)
    assert one.core.high_watermark == 2
    one.ask(said.UpdateVoterRequest(Voter(KEYS[2], "host2"), 5_000))
    one.sync()
    one.ask(said.FetchRequest(1, ReplicaKey(2, "other"), OffsetAndEpoch(3, 1), 2))
    assert one.core.high_watermark == 2
    one.fetch(2, 3, 1)
    assert one.core.high_watermark == 3
