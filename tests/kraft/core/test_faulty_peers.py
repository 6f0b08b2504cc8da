"""Invalid messages of a faulty voter or leader are refused and change nothing; they never end the replica."""

import pytest

from kraft.core import ElectionState, OffsetAndEpoch, QuorumConfig, Role
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.control_records import encode_voters
from kraft.core.messages import CurrentLeader, Error
from kraft.replicated_log import Batch, BatchKind
from tests.support.raft_core import EMPTY, KEYS, THREE, SingleCore, established, sends

LEADER = CurrentLeader(1, 2)


def following(*epochs: int) -> tuple[SingleCore, said.FetchRequest]:
    one = SingleCore(*epochs)
    return one, one.follow(2, max(epochs, default=1))


def fetched(one: SingleCore, fetch: said.FetchRequest, response: said.FetchResponse) -> list[todo.Effect]:
    return one.step(happened.Responded(2, fetch, response))


@pytest.mark.parametrize(
    "batch",
    [
        Batch(0, 1, 0, (b"junk",), BatchKind.VOTERS),
        Batch(0, 1, 0, (encode_voters(THREE),) * 2, BatchKind.VOTERS),
        Batch(0, 1, 0, (b"\x91\x93\x01\xaanot a uuid\xa0",), BatchKind.VOTERS),
        Batch(0, 1, 0, (b"\x90",), BatchKind.VOTERS),
        Batch(0, 1, 0, (b"\xdd\xff\xff\xff\xff",), BatchKind.VOTERS),
        Batch(0, 1, 0, ()),
        Batch(0, 2, 0, (b"x",)),
    ],
)
def test_batch_that_cannot_be_read_is_not_appended(batch: Batch) -> None:
    one, fetch = following()
    assert fetched(one, fetch, said.FetchResponse(LEADER, 1, batches=(batch,))) == []
    assert one.core.end_offset == 0


@pytest.mark.parametrize("snapshot", [OffsetAndEpoch(1, 1), OffsetAndEpoch(5, 2), OffsetAndEpoch(0, 0)])
def test_snapshot_without_committed_entries_or_of_a_later_epoch_is_not_fetched(snapshot: OffsetAndEpoch) -> None:
    one, fetch = following(1, 1)
    (again,) = sends(fetched(one, fetch, said.FetchResponse(LEADER, 2)))
    effects = fetched(one, again, said.FetchResponse(LEADER, 2, snapshot=snapshot))
    assert not sends(effects)


def test_malformed_snapshot_is_fetched_again_after_a_backoff() -> None:
    one, fetch = following()
    place = OffsetAndEpoch(5, 1)
    (part,) = sends(fetched(one, fetch, said.FetchResponse(LEADER, 5, snapshot=place)))
    effects = one.step(happened.Responded(2, part, said.FetchSnapshotResponse(LEADER, 1, 0, b"junk")))
    assert effects[-1] == todo.InstallSnapshot(place)
    assert not sends(one.step(happened.SnapshotRefused(place)))
    assert one.core.end_offset == 0
    assert isinstance(sends(one.step(happened.Tick(), 1_000))[0], said.FetchRequest)


def test_high_watermark_and_divergence_within_a_batch_are_rounded_down_to_its_start() -> None:
    one, fetch = following()
    batches = (Batch(0, 1, 0, (b"a",)), Batch(1, 1, 0, (b"b",) * 4))
    fetched(one, fetch, said.FetchResponse(LEADER, 3, batches=batches))
    assert one.core.high_watermark == 1
    (again,) = sends(one.sync())
    effects = fetched(one, again, said.FetchResponse(LEADER, 3, diverging=OffsetAndEpoch(3, 1)))
    assert todo.TruncateLog(1) in effects


def test_acknowledgement_within_a_batch_counts_for_the_batches_before() -> None:
    one = established()
    one.step(happened.Append((b"a", b"b", b"c"), 0))
    one.sync()
    one.fetch(2, 4, 1)
    assert one.core.high_watermark == 2


def test_thousand_refused_votes_do_not_overflow_the_election_backoff() -> None:
    """All other voters refuse a voter that was removed and does not know it, as long as it runs."""
    one = SingleCore()
    for _ in range(1_100):
        for pre_vote in one.time_out() or one.time_out():
            voter = pre_vote.voter.node_id
            one.step(happened.Responded(voter, pre_vote, said.VoteResponse(CurrentLeader(0), granted=False)))
    one.step(happened.ConnectionReset(2))
    one.follow(2, 1)
    one.core._replica.lost_elections = 2_000
    one.step(happened.ConnectionReset(2))
    assert one.core.role is not Role.LEADER


@pytest.mark.parametrize(
    "request_",
    [
        said.VoteRequest(1, KEYS[5], KEYS[1], OffsetAndEpoch(100, 1), pre_vote=False),
        said.VoteRequest(2, KEYS[5], KEYS[1], OffsetAndEpoch(100, 1), pre_vote=False),
        said.VoteRequest(1, KEYS[5], KEYS[1], OffsetAndEpoch(100, 1), pre_vote=True),
        said.BeginEpochRequest(2, 5, "host5:1", KEYS[1]),
        said.EndEpochRequest(1, 5, (1,)),
        said.EndEpochRequest(2, 5, (1,)),
        said.UpdateVoterRequest(THREE.voters[1], 1_000),
        said.FetchRequest(2, KEYS[5], EMPTY, 0),
        said.FetchSnapshotRequest(2, KEYS[5], EMPTY, 0),
    ],
)
@pytest.mark.parametrize("leads", [True, False])
def test_request_of_an_unknown_peer_changes_nothing(request_: said.Request, leads: bool) -> None:
    one = established() if leads else SingleCore(election=ElectionState(1))
    before = (one.core.role, one.core.election, one.core.current_leader, one.core.high_watermark, one.core.voters)
    effects = one.step(happened.Received(99, request_, is_unknown_peer=True))
    assert (
        one.core.role,
        one.core.election,
        one.core.current_leader,
        one.core.high_watermark,
        one.core.voters,
    ) == before
    (answer,) = [effect for effect in effects if isinstance(effect, todo.Answer)]
    assert answer.response.error in (Error.VOTER_NOT_FOUND, Error.UNKNOWN_LEADER_EPOCH)
    assert not getattr(answer.response, "granted", False)


def test_observers_beyond_the_bound_are_answered_and_not_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.core.leading.OBSERVERS_MAX", 1)
    one = established()
    for node_id in (4, 5):
        one.fetch(node_id, 0, 0)
    assert one.core.leader_state is not None
    assert list(one.core.leader_state.observers) == [KEYS[4]]


def test_voter_without_a_leader_asks_its_bootstrap_servers_when_an_unknown_peer_claims_to_lead() -> None:
    """The voter's log may lack the entry that made the leader a voter, and it must not be locked out (KIP-853)."""
    one = SingleCore(1, config=QuorumConfig(KEYS[1], "host1:1", ("host5:1",)))
    begin = said.BeginEpochRequest(7, 5, "host5:1", KEYS[1])
    (fetch,) = sends(one.step(happened.Received(1, begin, is_unknown_peer=True)))
    assert isinstance(fetch, said.FetchRequest)
    answer = said.FetchResponse(CurrentLeader(7, 5, "host5:1"), 0, Error.FENCED_LEADER_EPOCH)
    one.step(happened.Responded(-1, fetch, answer))
    assert (one.core.epoch, one.core.leader_id) == (7, 5)


def test_voter_with_a_leader_sends_nothing_when_an_unknown_peer_claims_to_lead() -> None:
    one = SingleCore(1, config=QuorumConfig(KEYS[1], "host1:1", ("host5:1",)))
    one.follow(2, 1)
    begin = said.BeginEpochRequest(7, 5, "host5:1", KEYS[1])
    assert not sends(one.step(happened.Received(1, begin, is_unknown_peer=True)))
    assert not sends(one.step(happened.ConnectionReset(2))), "nor when it loses its leader later"
