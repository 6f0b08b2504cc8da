"""A replica that adds itself to the voters (KIP-1186), on a single core."""

import attrs
import pytest

from kraft.core import QuorumConfig, ReplicaKey, Role, Voter, VoterSet
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.control_records import voters_entry
from kraft.core.joining import JoinRequest
from kraft.core.messages import CurrentLeader, Error
from kraft.replicated_log import Batch
from tests.support.directory_ids import directory_id
from tests.support.raft_core import KEYS, THREE, SingleCore, established, sends

NEW = ReplicaKey(3, directory_id("new"))
LEADER = CurrentLeader(1, 2, "host2:1")


class Joiner:
    """A replica with an empty log, which has found leader 2 in epoch 1 by its first Fetch."""

    def __init__(self, me: ReplicaKey = KEYS[4], *, auto_join: bool = True) -> None:
        config = QuorumConfig(me, f"host{me.node_id}:1", ("host2:1",), auto_join=auto_join)
        self.one = SingleCore(config=config, voters=0)
        self.sent: list[said.Request] = []
        self.fetch: said.FetchRequest | None = None
        self._note(self.one.step(happened.Tick(), 100.0))
        self.respond(CurrentLeader(1, 2, "host2:1"), Error.NOT_LEADER_OR_FOLLOWER, destination=-1)
        self.wait(100.0)

    def respond(
        self, leader: CurrentLeader = LEADER, error: Error = Error.NONE, destination: int = 2, **fields: object
    ) -> None:
        assert self.fetch is not None, "a Fetch is under way"
        fetch, self.fetch = self.fetch, None
        response = attrs.evolve(said.FetchResponse(leader, 0, error), **fields)
        self._note(self.one.step(happened.Responded(destination, fetch, response)))
        self._note(self.one.sync())

    def receive(self, *batches: Batch, committed: int) -> None:
        self.respond(batches=batches, high_watermark=committed)

    def joined(self) -> list[JoinRequest]:
        """The join requests since the last call."""
        found = [each for each in self.sent if isinstance(each, said.AddVoterRequest | said.RemoveVoterRequest)]
        self.sent = []
        return found

    def wait(self, ms: float) -> list[JoinRequest]:
        """Let time pass. Fetches stay unanswered."""
        self._note(self.one.step(happened.Tick(), ms))
        return self.joined()

    def _note(self, effects: list[todo.Effect]) -> None:
        self.sent += sends(effects)
        fetches = [each for each in sends(effects) if isinstance(each, said.FetchRequest)]
        self.fetch = fetches[-1] if fetches else self.fetch


def voters(*keys: ReplicaKey) -> VoterSet:
    return VoterSet(tuple(Voter(key, f"host{key.node_id}:1") for key in keys))


def record(offset: int) -> Batch:
    return Batch(offset, 1, 0, (b"record",))


def ended(joiner: Joiner, request: JoinRequest, error: Error = Error.NONE) -> None:
    joiner._note(joiner.one.step(happened.Responded(2, request, said.VoterChangeResponse(CurrentLeader(0), error))))


def test_kip_1186_replica_asks_to_be_added_once_it_has_all_committed_entries() -> None:
    joiner = Joiner()
    joiner.receive(voters_entry(0, 1, THREE), committed=2)
    assert joiner.joined() == []
    joiner.receive(record(1), committed=2)
    (request,) = joiner.joined()
    assert isinstance(request, said.AddVoterRequest)
    assert request.voter == Voter(KEYS[4], "host4:1")
    assert request.timeout_ms == QuorumConfig(KEYS[4], "host4:1").fetch_timeout_ms / 4
    assert not request.ack_when_committed, "the commit may need a Fetch of this replica"


def test_kip_1186_replica_that_is_not_configured_to_join_stays_an_observer() -> None:
    joiner = Joiner(auto_join=False)
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    assert joiner.joined() == []


def test_kip_1186_replica_does_not_act_on_a_voter_set_that_is_not_committed() -> None:
    """It may be truncated."""
    joiner = Joiner(NEW)
    joiner.receive(voters_entry(0, 1, THREE), committed=0)
    assert joiner.joined() == []
    joiner.receive(committed=1)
    assert [type(each) for each in joiner.joined()] == [said.RemoveVoterRequest]


def test_kip_1186_replica_removes_its_former_directory_before_it_is_added() -> None:
    joiner = Joiner(NEW)
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    (request,) = joiner.joined()
    assert isinstance(request, said.RemoveVoterRequest)
    assert request.key == KEYS[3]
    ended(joiner, request)
    assert joiner.joined() == []
    joiner.receive(voters_entry(1, 1, voters(KEYS[1], KEYS[2])), committed=2)
    (added,) = joiner.joined()
    assert isinstance(added, said.AddVoterRequest)
    assert added.voter.key == NEW


def test_kip_1186_replica_that_has_become_a_voter_asks_no_more() -> None:
    joiner = Joiner()
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    (request,) = joiner.joined()
    joiner.receive(voters_entry(1, 1, THREE.with_voter(Voter(KEYS[4], "host4:1"))), committed=1)
    ended(joiner, request)
    assert joiner.wait(1_000.0) == []
    assert joiner.one.core.is_voter


@pytest.mark.parametrize("error", [Error.NONE, Error.REQUEST_TIMED_OUT, Error.DUPLICATE_VOTER, Error.INVALID_REQUEST])
def test_kip_1186_replica_asks_again_after_a_fetch_timeout_whatever_the_response(error: Error) -> None:
    joiner = Joiner()
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    (request,) = joiner.joined()
    ended(joiner, request, error)
    joiner.receive(committed=1)
    assert joiner.wait(1_000.0) == []
    joiner.receive(committed=1)
    assert joiner.wait(1_000.0) == [request]


def test_kip_1186_replica_asks_again_after_a_request_without_a_response() -> None:
    joiner = Joiner()
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    (request,) = joiner.joined()
    joiner._note(joiner.one.step(happened.RequestFailed(2, request)))
    joiner.receive(committed=1)
    assert joiner.wait(1_000.0) == []
    joiner.receive(committed=1)
    assert joiner.wait(1_000.0) == [request]


def test_kip_1186_replica_asks_the_next_leader_at_once() -> None:
    joiner = Joiner()
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    (request,) = joiner.joined()
    joiner._note(joiner.one.ask(said.BeginEpochRequest(2, 1, "host1:1", KEYS[4])))
    assert joiner.joined() == [], "the new leader may have entries that change the voters"
    assert joiner.fetch is not None
    joiner.respond(CurrentLeader(2, 1, "host1:1"), destination=1, high_watermark=1)
    assert joiner.joined() == [request]


def test_kip_1186_late_response_of_a_former_leader_changes_nothing() -> None:
    joiner = Joiner()
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    (request,) = joiner.joined()
    joiner._note(joiner.one.ask(said.BeginEpochRequest(2, 1, "host1:1", KEYS[4])))
    joiner.respond(CurrentLeader(2, 1, "host1:1"), destination=1, high_watermark=1)
    (again,) = joiner.joined()
    ended(joiner, request)
    assert joiner.wait(1_000.0) == [], "the request to the new leader is still under way"
    assert again == request


def test_kip_1186_replica_that_is_about_to_stop_does_not_ask() -> None:
    joiner = Joiner()
    joiner._note(joiner.one.step(happened.Leave()))
    joiner.receive(voters_entry(0, 1, THREE), committed=1)
    assert joiner.joined() == []


def test_kip_1186_voter_asks_for_nothing() -> None:
    config = QuorumConfig(KEYS[1], "host1:1", auto_join=True)
    one = SingleCore(config=config)
    one.follow(2, 1)
    assert [type(each) for each in sends(one.step(happened.Tick(), 100.0))] == []
    assert one.core.role is Role.FOLLOWER


def test_kip_1186_addition_is_acknowledged_before_its_commit_if_the_request_asks_for_that() -> None:
    one = established()
    one.fetch(4, 2, 1)
    change = said.AddVoterRequest(Voter(KEYS[4], "host4:1"), 5_000, ack_when_committed=False)
    (begin,) = [each for each in sends(one.ask(change)) if isinstance(each, said.BeginEpochRequest)]
    effects = one.step(happened.Responded(4, begin, said.BeginEpochResponse(CurrentLeader(1, 1))))
    assert one.core.voters.ids == (1, 2, 3, 4)
    kinds = [type(each) for each in effects]
    assert kinds.index(todo.AppendLog) < kinds.index(todo.Answer), "the entry is written before the response"
    (answer,) = [each.response for each in effects if isinstance(each, todo.Answer)]
    assert answer == said.VoterChangeResponse(CurrentLeader(1, 1, "host1:1"))
    assert one.core.high_watermark == 2
    one.ask(said.RemoveVoterRequest(KEYS[3], 5_000))
    assert one.core.voters.ids == (1, 2, 3, 4), "the addition is not committed yet"


def test_kip_853_addition_is_acknowledged_after_its_commit_by_default() -> None:
    one = established()
    one.fetch(4, 2, 1)
    change = said.AddVoterRequest(Voter(KEYS[4], "host4:1"), 5_000)
    (begin,) = [each for each in sends(one.ask(change)) if isinstance(each, said.BeginEpochRequest)]
    effects = one.step(happened.Responded(4, begin, said.BeginEpochResponse(CurrentLeader(1, 1))))
    effects += one.sync()
    assert [each for each in effects if isinstance(each, todo.Answer)] == []
    effects = [*one.fetch(2, 3, 1), *one.fetch(3, 3, 1)]
    answers = [each.response for each in effects if isinstance(each, todo.Answer)]
    assert said.VoterChangeResponse(CurrentLeader(1, 1, "host1:1")) in answers
