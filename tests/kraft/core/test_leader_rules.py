"""One test per rule of `kraft.core.leading`, on a single core. The names and docstrings cite the source."""

from kraft.core import OffsetAndEpoch, Role
from kraft.core import effects as todo
from kraft.core import events as happened
from kraft.core import messages as said
from kraft.core.messages import CurrentLeader
from tests.support.raft_core import KEYS, SingleCore, established, kinds, sends


def test_8_leader_appends_an_entry_of_its_epoch_first() -> None:
    """Raft's paper, section 8: a leader knows which entries are committed only after one of its own is."""
    one = SingleCore(1, 1).elected()
    assert one.core.epoch == 2
    assert one.core.log.end_of_epoch(2).epoch == 2


def test_5_3_leader_commits_entries_durable_on_a_majority() -> None:
    one = SingleCore().elected()
    assert not [effect for effect in one.fetch(2, 2, 1) if isinstance(effect, todo.Committed)]
    assert todo.Committed(2) in one.sync()


def test_5_3_unsynced_entries_of_the_leader_do_not_count() -> None:
    one = SingleCore().elected()
    one.fetch(2, 2, 1)
    assert one.core.high_watermark == 0
    one.fetch(3, 2, 1)
    assert one.core.high_watermark == 2


def test_5_4_2_entries_of_older_epochs_are_not_committed_by_counting() -> None:
    """Raft's paper, section 5.4.2 and figure 8."""
    one = SingleCore(1, 1, 1).elected()
    one.sync()
    one.fetch(2, 3, 1)
    assert one.core.high_watermark == 0
    one.fetch(2, 4, 2)
    assert one.core.high_watermark == 4


def test_check_quorum_leader_without_fetches_from_a_majority_resigns() -> None:
    """KIP-595 and Raft's dissertation, section 6.2."""
    one = SingleCore().elected()
    one.step(happened.Tick(), 2_999.0)
    assert one.core.role is Role.LEADER
    effects = one.step(happened.Tick(), 1.0)
    assert one.core.role is Role.RESIGNED
    assert {type(request) for request in sends(effects)} == {said.EndEpochRequest}


def test_check_quorum_fetches_from_one_other_of_three_suffice() -> None:
    one = SingleCore().elected()
    for _ in range(10):
        one.fetch(3, 0, 0)
        one.step(happened.Tick(), 2_000.0)
    assert one.core.role is Role.LEADER


def test_fetch_without_news_is_answered_at_its_deadline() -> None:
    one = established()
    waiting = said.FetchRequest(1, KEYS[2], OffsetAndEpoch(2, 1), 2)
    assert todo.AnswerEntries not in kinds(one.ask(waiting))
    assert todo.AnswerEntries not in kinds(one.step(happened.Tick(), 499.0))
    assert todo.AnswerEntries in kinds(one.step(happened.Tick(), 1.0))
    assert one.core.deadline_ms > one.now_ms


def test_kip_595_begin_epoch_is_not_repeated_to_a_voter_that_fetches_from_an_empty_log() -> None:
    one = SingleCore()
    (pre_vote, _) = one.time_out()
    vote = sends(one.step(happened.Responded(2, pre_vote, said.VoteResponse(CurrentLeader(0), granted=True))))[0]
    begun = sends(one.step(happened.Responded(2, vote, said.VoteResponse(CurrentLeader(1), granted=True))))
    for node_id, begin in zip((2, 3), begun, strict=True):
        one.step(happened.Responded(node_id, begin, said.BeginEpochResponse(CurrentLeader(1, 1))))
    one.step(happened.Tick(), 900.0)
    one.fetch(2, 0, 0)
    (repeated,) = [effect for effect in one.step(happened.Tick(), 500.0) if isinstance(effect, todo.Send)]
    assert (repeated.destination, type(repeated.request)) == (3, said.BeginEpochRequest)


def test_kip_630_fetch_below_the_log_start_is_answered_with_the_snapshot() -> None:
    one = SingleCore(1, 1, 1).elected()
    one.sync()
    one.fetch(2, one.core.end_offset, 2)
    one.step(happened.SnapshotTaken(OffsetAndEpoch(2, 1)))
    response = one.answer_to(said.FetchRequest(2, KEYS[3], OffsetAndEpoch(1, 1), 0))
    assert isinstance(response, said.FetchResponse)
    assert response.snapshot == OffsetAndEpoch(2, 1)


def test_log_starts_at_a_later_snapshot_only() -> None:
    """A snapshot of the same or an earlier offset has nothing to remove from the log."""
    one = established()
    taken = OffsetAndEpoch(2, 1)
    assert one.step(happened.SnapshotTaken(taken)) == [todo.TruncatePrefix(taken)]
    assert one.step(happened.SnapshotTaken(taken)) == []
    assert one.step(happened.SnapshotTaken(OffsetAndEpoch(1, 1))) == []
