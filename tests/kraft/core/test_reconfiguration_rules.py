"""One test per rule of voter changes and directory ids, on a single core. The names and docstrings cite the source."""

import pytest

from kraft.core import (
    OffsetAndEpoch,
    QuorumConfig,
    ReplicaKey,
    Role,
    Voter,
    VoterSet,
)
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.control_records import voters_entry
from kraft.core.messages import CurrentLeader, Error
from tests.support.directory_ids import directory_id
from tests.support.raft_core import EMPTY, KEYS, THREE, SingleCore, established, sends


def test_check_quorum_a_wiped_voter_does_not_count() -> None:
    """KIP-853: another directory id is another replica."""
    one = SingleCore().elected()
    stranger = said.FetchRequest(1, ReplicaKey(3, directory_id("new")), OffsetAndEpoch(2, 1), 0)
    one.ask(stranger)
    one.sync()
    assert one.core.high_watermark == 0


def test_kip_853_vote_request_for_a_lost_directory_is_refused() -> None:
    request = said.VoteRequest(1, KEYS[2], ReplicaKey(1, directory_id("lost")), EMPTY, pre_vote=False)
    response = SingleCore().answer_to(request)
    assert response.error is Error.INVALID_VOTER_KEY


def test_kip_853_replica_with_another_directory_follows_on_begin_epoch_for_the_lost_one() -> None:
    one = SingleCore()
    effects = one.ask(said.BeginEpochRequest(3, 2, "host2:1", ReplicaKey(1, directory_id("lost"))))
    answers = [effect.response.error for effect in effects if isinstance(effect, todo.Answer)]
    assert answers == [Error.INVALID_VOTER_KEY]
    assert (one.core.role, one.core.leader_id, one.core.epoch) == (Role.FOLLOWER, 2, 3)


def add(node_id: int) -> said.AddVoterRequest:
    return said.AddVoterRequest(Voter(KEYS[node_id], f"host{node_id}:1"), 5_000)


def test_kip_853_no_change_before_the_epoch_has_committed() -> None:
    """Ongaro's correction of 2015 to the single-server changes of the dissertation."""
    one = SingleCore().elected()
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    assert one.core.voters.ids == (1, 2, 3)
    one.fetch(2, 2, 1)
    one.sync()
    assert one.core.voters.ids == (1, 2)


def test_kip_853_leader_elected_again_changes_no_voters_before_its_epoch_has_committed() -> None:
    """The set of voters in its log is committed, by an earlier epoch. Another leader may have appended another set."""
    one = established()
    one.follow(2, 2)
    one.elected()
    assert one.core.high_watermark == 2
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    assert one.core.voters.ids == (1, 2, 3)
    one.sync()
    one.fetch(2, one.core.end_offset, 3)
    assert one.core.voters.ids == (1, 2)


def test_kip_853_one_change_at_a_time() -> None:
    one = established()
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    assert one.core.voters.ids == (1, 2)
    response = one.answer_to(said.RemoveVoterRequest(KEYS[2], 5_000))
    assert response.error is Error.REQUEST_TIMED_OUT
    one.step(happened.Tick(), 2_500.0)
    one.fetch(2, 2, 1)
    one.step(happened.Tick(), 2_500.0)  # the requester has given up, but its entry is in the log
    one.ask(said.RemoveVoterRequest(KEYS[2], 5_000))
    assert one.core.voters.ids == (1, 2)


def test_kip_853_a_removed_voter_with_a_higher_epoch_deposes_the_leader() -> None:
    """It stood for election while it was partitioned, and a leader of a lower epoch does not answer its Fetches."""
    one = established()
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    one.sync()
    one.fetch(2, 3, 1)
    assert one.core.voters.ids == (1, 2)
    one.fetch(3, 2, 1, request_epoch=2)
    assert (one.core.epoch, one.core.role) == (2, Role.UNATTACHED)


def test_kip_853_a_voter_is_added_once_it_has_caught_up() -> None:
    one = established()
    (begin,) = [sent for sent in sends(one.ask(add(4))) if isinstance(sent, said.BeginEpochRequest)]
    one.step(happened.Responded(4, begin, said.BeginEpochResponse(CurrentLeader(1, 1))))
    one.fetch(4, 1, 1)
    assert one.core.voters.ids == (1, 2, 3)
    one.fetch(4, 2, 1)
    assert one.core.voters.ids == (1, 2, 3, 4)


def test_kip_853_refused_change_has_a_message() -> None:
    one = established()
    for request, error in (
        (add(3), Error.DUPLICATE_VOTER),
        (said.RemoveVoterRequest(KEYS[4], 5_000), Error.VOTER_NOT_FOUND),
        (said.RemoveVoterRequest(ReplicaKey(3, directory_id("other")), 5_000), Error.VOTER_NOT_FOUND),
        (said.UpdateVoterRequest(Voter(KEYS[5], "host5:1"), 5_000), Error.VOTER_NOT_FOUND),
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
    one.ask(said.UpdateVoterRequest(Voter(KEYS[3], "moved:1"), 5_000))
    voter = one.core.voters.get(3)
    assert voter is not None
    assert voter.address == "moved:1"


def test_kip_853_leader_that_removed_itself_does_not_count_itself() -> None:
    one = established()
    one.ask(said.RemoveVoterRequest(KEYS[1], 5_000))
    one.sync()
    one.fetch(2, 3, 1)
    assert one.core.high_watermark == 2
    one.fetch(3, 3, 1)
    assert one.core.high_watermark == 3
    assert one.core.role is Role.RESIGNED


def test_4_2_2_removed_voter_may_stand_until_the_removal_is_committed() -> None:
    """Raft's dissertation, section 4.2.2: it may be the only replica with the entry that removes it."""
    one = established()
    one.ask(said.RemoveVoterRequest(KEYS[1], 5_000))
    one.step(happened.Tick(), 3_000.0)
    assert one.core.role is Role.RESIGNED
    one.step(happened.Tick(), 1_500.0)
    assert one.core.role is Role.PROSPECTIVE


def test_kip_853_replica_with_a_lost_directory_does_not_stand_when_the_voter_set_names_another() -> None:
    """After a restart, no entry is known to be committed, and the set before had no directory ids."""
    one = SingleCore(named=Voter(ReplicaKey(1), "host1:1"))
    named = VoterSet((Voter(ReplicaKey(1, directory_id("lost")), "host1:1"), *THREE.voters[1:]))
    sent = sends(one.ask(said.BeginEpochRequest(1, 2, "host2:1", KEYS[1])))
    (fetch,) = [request for request in sent if isinstance(request, said.FetchRequest)]
    entries = (voters_entry(0, 1, named),)
    one.step(happened.Responded(2, fetch, said.FetchResponse(CurrentLeader(1, 2, "host2:1"), 0, batches=entries)))
    assert one.core.voters == named
    assert not one.core.is_voter
    one.step(happened.Tick(), 10_000.0)
    assert one.core.role is Role.UNATTACHED


MOVED = QuorumConfig(KEYS[1], "moved:1")


def test_kip_853_a_voter_reports_its_disk_and_its_address_to_the_leader() -> None:
    one = SingleCore(named=Voter(ReplicaKey(1), "host1:1"), config=MOVED)
    effects = one.ask(said.BeginEpochRequest(1, 2, "host2:1", KEYS[1]))
    (_, update) = sends(effects)
    assert isinstance(update, said.UpdateVoterRequest)
    assert update.voter == Voter(KEYS[1], "moved:1")
    refused = said.VoterChangeResponse(CurrentLeader(1, 2), Error.REQUEST_TIMED_OUT)
    assert sends(one.step(happened.Responded(2, update, refused))) == []
    (again,) = sends(one.step(happened.Tick(), update.timeout_ms))
    assert again == update


def test_kip_853_a_leader_names_itself_in_the_log() -> None:
    one = SingleCore(named=Voter(ReplicaKey(1), "host1:1"), config=MOVED).elected()
    assert one.core.voters.get(1) == Voter(KEYS[1], "moved:1")


def test_kip_853_leader_updates_its_own_address_once_its_epoch_has_committed() -> None:
    one = established()
    one.core._replica.config = MOVED
    assert sends(one.step(happened.Tick())) == []
    assert one.core.voters.get(1) == Voter(KEYS[1], "moved:1")


def test_kip_853_replica_with_another_directory_never_updates_the_voter() -> None:
    one = SingleCore(named=Voter(ReplicaKey(1, directory_id("lost")), "host1:1"))
    assert not one.core.is_voter
    effects = one.step(happened.Tick(), 100.0)  # it asks for the leader, as an observer does
    (fetch,) = sends(effects)
    assert isinstance(fetch, said.FetchRequest)
    destination = next(effect.destination for effect in effects if isinstance(effect, todo.Send))
    effects = one.step(happened.Responded(destination, fetch, said.FetchResponse(CurrentLeader(1, 2, "host2:1"), 0)))
    assert one.core.role is Role.FOLLOWER
    assert [type(request) for request in sends(effects)] == [said.FetchRequest]


def test_leader_tracks_only_the_latest_directory_of_a_node() -> None:
    def observers(one: SingleCore) -> list[ReplicaKey]:
        leader = one.core.leader_state
        assert leader is not None
        return sorted(leader.observers)

    def fetch(one: SingleCore, key: ReplicaKey, end: OffsetAndEpoch) -> None:
        one.step(happened.Tick(), 1.0)
        one.ask(said.FetchRequest(1, key, end, 0))

    one = established()
    third, replaced, again = KEYS[3], ReplicaKey(3, directory_id("new")), ReplicaKey(3, directory_id("newer"))
    fetch(one, third, OffsetAndEpoch(2, 1))
    fetch(one, replaced, OffsetAndEpoch(0, 0))
    assert observers(one) == [replaced], "the voter is no observer, whatever its disk"
    one.ask(said.RemoveVoterRequest(third, 5_000))
    assert observers(one) == [replaced]
    fetch(one, KEYS[4], OffsetAndEpoch(0, 0))
    fetch(one, again, OffsetAndEpoch(0, 0))
    assert observers(one) == [again, KEYS[4]]


def test_kip_853_observer_that_becomes_a_voter_is_no_observer_any_more() -> None:
    one = established()
    leader = one.core.leader_state
    assert leader is not None
    one.fetch(4, 2, 1)
    assert list(leader.observers) == [KEYS[4]]
    leader.track_voters(VoterSet((*THREE.voters, Voter(KEYS[4], "host4:1"))), KEYS[1])
    assert ([*leader.voters], [*leader.observers]) == ([2, 3, 4], [])
    leader.track_voters(VoterSet(THREE.voters[:2]), KEYS[1])
    assert ([*leader.voters], sorted(leader.observers)) == ([2], [KEYS[3], KEYS[4]])


def test_kip_853_fetch_from_another_directory_does_not_count_for_a_voter() -> None:
    one = SingleCore(named=Voter(ReplicaKey(2), "host2:1")).elected()
    one.sync()
    one.fetch(2, 2, 1)
    assert one.core.high_watermark == 2
    one.ask(said.UpdateVoterRequest(Voter(KEYS[2], "host2:1"), 5_000))
    one.sync()
    one.ask(said.FetchRequest(1, ReplicaKey(2, directory_id("other")), OffsetAndEpoch(3, 1), 2))
    assert one.core.high_watermark == 2
    one.fetch(2, 3, 1)
    assert one.core.high_watermark == 3


@pytest.mark.parametrize(
    "voter",
    [
        Voter(ReplicaKey(4, "not a uuid"), "host4:1"),
        Voter(ReplicaKey(4, "x" * 600), "host4:1"),
        Voter(ReplicaKey(2**40, directory_id("d4")), "host4:1"),
        Voter(ReplicaKey(-1, directory_id("d4")), "host4:1"),
        Voter(KEYS[4], "host 4:1"),
        Voter(KEYS[4], "h" * 300 + ":1"),
        Voter(KEYS[4], "host4:65536"),
    ],
)
def test_voter_with_an_invalid_id_or_address_is_not_added(voter: Voter) -> None:
    """Such a voter could not be removed, because no request can name it."""
    one = established()
    end_offset = one.core.end_offset
    response = one.answer_to(said.AddVoterRequest(voter, 5_000))
    assert response.error is Error.INVALID_REQUEST
    assert one.core.end_offset == end_offset


def test_number_of_voters_is_bounded() -> None:
    one = established()
    many = VoterSet(tuple(Voter(ReplicaKey(node_id, directory_id(f"d{node_id}"))) for node_id in range(1, 101)))
    one.core._replica.voter_history.append(2, many)
    response = one.answer_to(said.AddVoterRequest(Voter(ReplicaKey(200, directory_id("d200")), "host:1"), 5_000))
    assert response.error is Error.INVALID_REQUEST


def asked_to_add_a_voter_that_has_caught_up() -> tuple[SingleCore, said.BeginEpochRequest]:
    """The leader of three voters, and the request by which it looks for node 4 at its address."""
    one = established()
    one.fetch(4, one.core.end_offset, 1)
    one.step(happened.Tick(), 10.0)
    effects = one.ask(add(4))
    (sent,) = [effect for effect in effects if isinstance(effect, todo.Send) and effect.destination == 4]
    assert isinstance(sent.request, said.BeginEpochRequest)
    assert (sent.address, sent.request.voter) == ("host4:1", KEYS[4])
    assert one.core.voters.ids == (1, 2, 3)
    return one, sent.request


def answers(effects: list[todo.Effect]) -> list[Error]:
    return [effect.response.error for effect in effects if isinstance(effect, todo.Answer)]


def test_kip_853_voter_that_has_caught_up_is_added_after_it_has_answered_at_its_address() -> None:
    one, begin = asked_to_add_a_voter_that_has_caught_up()
    one.step(happened.Responded(4, begin, said.BeginEpochResponse(CurrentLeader(1, 1))))
    assert one.core.voters.ids == (1, 2, 3, 4)


def test_kip_853_voter_that_does_not_answer_at_its_address_is_not_added() -> None:
    one, begin = asked_to_add_a_voter_that_has_caught_up()
    assert answers(one.step(happened.RequestFailed(4, begin))) == [Error.REQUEST_TIMED_OUT]
    assert one.core.voters.ids == (1, 2, 3)
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    assert one.core.voters.ids == (1, 2)


def test_kip_853_replica_with_another_directory_at_the_address_of_a_new_voter_is_not_added() -> None:
    one, begin = asked_to_add_a_voter_that_has_caught_up()
    other = said.BeginEpochResponse(CurrentLeader(1, 1), Error.INVALID_VOTER_KEY)
    assert answers(one.step(happened.Responded(4, begin, other))) == [Error.INVALID_REQUEST]
    assert one.core.voters.ids == (1, 2, 3)


def test_kip_853_late_answer_to_an_earlier_request_does_not_add_a_voter() -> None:
    """The requester has given up, and asks for another address."""
    one, begin = asked_to_add_a_voter_that_has_caught_up()
    one.fetch(2, one.core.end_offset, 1)
    one.step(happened.Tick(), 5_100.0)
    one.fetch(2, one.core.end_offset, 1)
    one.fetch(4, one.core.end_offset, 1)
    one.ask(said.AddVoterRequest(Voter(KEYS[4], "elsewhere:1"), 5_000))
    one.step(happened.Responded(4, begin, said.BeginEpochResponse(CurrentLeader(1, 1))))
    assert one.core.voters.ids == (1, 2, 3)
