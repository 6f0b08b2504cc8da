"""The promises to consumers in groups, each kept and broken."""

from collections.abc import Sequence
from io import BytesIO

from jepsen.checkers.groups import (
    GROUP_CHECKERS,
    CommittedOffsetsNeverRegress,
    EverythingIsPolled,
    NoNonmonotonicPolls,
    NoPollSkips,
    OldGenerationsCommitNothing,
    OneOwnerPerGeneration,
    OnlyOwnersPoll,
    ReplacedMembersCommitNothing,
    ResumesWhereCommitted,
)
from jepsen.history import Operation
from jepsen.journal import read_history, write_history
from jepsen.values import Commit, CommittedRead, GroupPoll, Ownership
from tests.support.sample_history import SampleHistory, broken, records


class SampleGroupHistory(SampleHistory):
    """The group "g" consumes "t"; each of its members is a client. Operations are a second apart."""

    def assigned(
        self, member: str, generation: int = 1, *, index: int = 0, instance: str = "", incarnation: int = 0
    ) -> None:
        own = Ownership("g", member, generation, (("t", index),), instance)
        self._by(member, "assign", own, None, incarnation)

    def revoked(self, member: str, generation: int = 1, function: str = "revoke") -> None:
        self._by(member, function, Ownership("g", member, generation, (("t", 0),)), None)

    def got(self, member: str, *offsets: int, incarnation: int = 0) -> None:
        result = tuple((offset, f"s/t-0/{offset}") for offset in offsets)
        self._by(member, "poll-group", GroupPoll("g", member, "t", 0), result, incarnation)

    def commits(self, member: str, offset: int, generation: int = 1) -> Operation:
        """A commit with an unknown outcome."""
        self.time += 1
        return self.invoke(member, "commit", Commit("g", member, generation, (("t", 0, offset),)))

    def committed(self, member: str, offset: int, generation: int = 1, incarnation: int = 0) -> None:
        operation = self.commits(member, offset, generation)
        self.ends_well(operation, incarnation=incarnation)

    def ends_well(self, operation: Operation, incarnation: int = 0) -> None:
        self.time += 1
        self.ok(operation, None, incarnation=incarnation)

    def answers(self, offset: int, incarnation: int = 0, member: str = "") -> None:
        self._by(
            member or "admin",
            "fetch-committed",
            CommittedRead("g", member, (("t", 0),)),
            (("t", 0, offset),),
            incarnation,
        )

    def _by(self, client: str, function: str, value: object, result: object, incarnation: int = 0) -> Operation:
        self.time += 1
        operation = self.invoke(client, function, value)
        self.time += 1
        self.ok(operation, result, incarnation=incarnation)
        return operation


def consuming() -> SampleGroupHistory:
    """Two members consume one after the other, without an anomaly."""
    history = SampleGroupHistory()
    history.sent(0, 1, 2, 3, 4, 5, at=0)
    history.assigned("a")
    history.answers(-1, member="a")
    history.got("a", 0, 1)
    history.got("a", 2)
    history.committed("a", 2)
    history.revoked("a")
    history.assigned("b", 2)
    history.answers(2, member="b")
    history.got("b", 2, 3)
    history.got("b", 4, 5)
    history.committed("b", 6, 2)
    return history


def anomalies(history: SampleGroupHistory) -> Sequence[str]:
    return broken(history, GROUP_CHECKERS)


def test_nothing_is_wrong_with_members_that_go_on_where_others_committed() -> None:
    assert not anomalies(consuming())


def test_a_history_of_groups_is_the_same_after_it_was_written_down() -> None:
    history, file = consuming(), BytesIO()
    write_history(history, file)
    again = read_history(file.getvalue().splitlines(keepends=True))
    assert [(each.value, each.result) for each in again.of("assign", "poll-group", "commit", "fetch-committed")] == [
        (each.value, each.result) for each in history.of("assign", "poll-group", "commit", "fetch-committed")
    ]


def test_an_offset_that_was_overwritten_is_noticed() -> None:
    history = SampleGroupHistory()
    history.committed("a", 2)
    history.committed("a", 4)
    history.answers(2)
    assert broken(history, [CommittedOffsetsNeverRegress()])


def test_an_offset_that_is_forgotten_is_noticed() -> None:
    history = SampleGroupHistory()
    history.committed("a", 2)
    history.answers(-1)
    assert broken(history, [CommittedOffsetsNeverRegress()])


def test_committed_offset_without_a_commit_is_an_anomaly() -> None:
    history = SampleGroupHistory()
    history.committed("a", 2)
    history.answers(3)
    assert broken(history, [CommittedOffsetsNeverRegress()])


def test_a_commit_that_may_be_under_way_may_come_late() -> None:
    history = SampleGroupHistory()
    late = history.commits("a", 2)
    history.committed("a", 4)
    history.answers(4)
    history.answers(2)
    assert not broken(history, [CommittedOffsetsNeverRegress()])
    history.info(late, "no answer")
    assert not broken(history, [CommittedOffsetsNeverRegress()])


def test_returned_offset_of_an_unacknowledged_commit_stays_committed() -> None:
    history = SampleGroupHistory()
    history.committed("a", 2)
    history.info(history.commits("a", 4), "no answer")
    history.answers(2)
    history.answers(4)
    assert not broken(history, [CommittedOffsetsNeverRegress()])
    history.answers(2)
    assert broken(history, [CommittedOffsetsNeverRegress()])


def test_any_offset_may_be_returned_during_a_commit() -> None:
    history = SampleGroupHistory()
    history.committed("a", 2)
    operation = history.commits("a", 4)
    history.answers(4)
    history.answers(4)
    history.ends_well(operation)
    assert not anomalies(history)


def test_an_earlier_offset_may_be_back_after_a_loss_and_not_before() -> None:
    history = SampleGroupHistory()
    history.committed("a", 2)
    history.committed("a", 4)
    history.answers(2, incarnation=1)
    assert not broken(history, [CommittedOffsetsNeverRegress()])
    history.committed("a", 6, incarnation=1)
    history.answers(2, incarnation=1)
    assert broken(history, [CommittedOffsetsNeverRegress()])


def test_two_owners_in_a_generation_are_noticed() -> None:
    history = SampleGroupHistory()
    history.assigned("a", 3)
    history.assigned("a", 4)
    history.assigned("b", 5)
    history.assigned("b", 3, index=1)
    assert not broken(history, [OneOwnerPerGeneration()])
    history.assigned("b", 4)
    assert broken(history, [OneOwnerPerGeneration()])


def test_a_static_member_is_the_same_owner_when_it_comes_back() -> None:
    history = SampleGroupHistory()
    history.assigned("a", 3, instance="i")
    history.assigned("b", 3, instance="i")
    assert not broken(history, [OneOwnerPerGeneration()])
    history.assigned("c", 3, instance="j")
    assert broken(history, [OneOwnerPerGeneration()])


def test_a_commit_in_a_generation_that_is_over_is_noticed() -> None:
    history = SampleGroupHistory()
    late = history.commits("a", 2, 1)
    history.committed("b", 4, 2)
    history.ends_well(late)
    assert not broken(history, [OldGenerationsCommitNothing()])
    history.committed("a", 3, 1)
    assert broken(history, [OldGenerationsCommitNothing()])


def test_a_commit_by_a_static_member_that_was_replaced_is_noticed() -> None:
    history = SampleGroupHistory()
    history.assigned("a", instance="i")
    history.committed("a", 1)
    late = history.commits("a", 2)
    history.assigned("b", instance="i")
    history.ends_well(late)
    history.committed("b", 2)
    assert not broken(history, [ReplacedMembersCommitNothing()])
    assert not broken(history, [ReplacedMembersCommitNothing()])
    history.committed("a", 3)
    assert broken(history, [ReplacedMembersCommitNothing()])


def test_a_static_member_whose_replacement_was_lost_with_the_end_of_the_log_is_itself_again() -> None:
    history = SampleGroupHistory()
    history.assigned("a", instance="i")
    history.assigned("b", instance="i")
    history.committed("a", 3, incarnation=1)
    assert not broken(history, [ReplacedMembersCommitNothing()])
    history.assigned("b", instance="i", incarnation=1)
    history.committed("a", 4, incarnation=1)
    assert broken(history, [ReplacedMembersCommitNothing()])


def test_a_static_member_may_come_back_under_an_earlier_member_id() -> None:
    history = SampleGroupHistory()
    history.assigned("a", instance="i")
    history.assigned("b", instance="i")
    history.assigned("a", 2, instance="i")
    history.committed("a", 3)
    assert not broken(history, [ReplacedMembersCommitNothing()])


def test_a_record_between_two_polls_is_missed() -> None:
    history = SampleGroupHistory()
    history.sent(0, 1, 2, 3, at=0)
    history.assigned("a")
    history.got("a", 0)
    history.got("a", 2)
    assert broken(history, [NoPollSkips()])


def test_unseen_record_is_not_missed() -> None:
    history = SampleGroupHistory()
    history.assigned("a")
    history.got("a", 0)
    history.got("a", 2)
    assert not broken(history, [NoPollSkips()])


def test_a_record_that_comes_twice_is_noticed_until_its_partition_was_given_up() -> None:
    history = SampleGroupHistory()
    history.assigned("a")
    history.got("a", 0, 1)
    history.revoked("a", function="lose")
    history.assigned("a", 2)
    history.got("a", 0, 1)
    history.assigned("a", 3)
    assert not broken(history, [NoNonmonotonicPolls()])
    history.got("a", 1, 2)
    assert broken(history, [NoNonmonotonicPolls()])


def test_poll_without_an_assignment_is_an_anomaly() -> None:
    history = SampleGroupHistory()
    history.assigned("a")
    history.got("a", 0)
    history.revoked("a")
    assert not broken(history, [OnlyOwnersPoll()])
    history.got("a", 1)
    history.assigned("a", 2, index=1)
    history.got("a", 2)
    assert len(broken(history, [OnlyOwnersPoll()])) == 2


def begins(start: int, *, incarnation: int = 0) -> Sequence[str]:
    """Let "b" begin at `start`, after "a" has committed 2 and then 4. Returns the broken promises."""
    history = SampleGroupHistory()
    history.sent(0, 1, 2, 3, 4, 5, 6, at=0)
    history.assigned("a")
    history.committed("a", 2)
    history.committed("a", 4)
    history.assigned("b", 2, incarnation=incarnation)
    history.got("b", start, start + 1)
    return broken(history, [ResumesWhereCommitted()])


def test_a_member_begins_where_was_committed_last() -> None:
    assert not begins(4)
    assert begins(2)
    assert begins(0)
    assert begins(5)
    assert begins(3)


def test_a_member_may_begin_at_an_earlier_commit_after_a_loss() -> None:
    assert not begins(2, incarnation=1)
    assert begins(3, incarnation=1)


def test_a_member_may_begin_anywhere_in_a_log_that_lost_its_end() -> None:
    history = SampleGroupHistory()
    history.assigned("a")
    history.committed("a", 4)
    history.assigned("b", 2)
    history.got("b", 0, 1, incarnation=1)
    assert not broken(history, [ResumesWhereCommitted()])


def test_a_member_begins_at_the_first_record_where_nothing_was_committed() -> None:
    history = SampleGroupHistory()
    history.sent(0, 1, 2, at=0)
    history.assigned("a")
    history.got("a", 0, 1)
    assert not broken(history, [ResumesWhereCommitted()])
    history.assigned("b", 2)
    history.got("b", 1)
    assert broken(history, [ResumesWhereCommitted()])


def test_acknowledged_record_that_no_member_received_is_an_anomaly() -> None:
    history = SampleGroupHistory()
    history.sent(0, 1, at=0)
    history.sent(2, at=2)
    history.sent(0, at=0, topic="f")
    history.assigned("a")
    history.got("a", 0, 1)
    history.got("a", 2)
    assert not broken(history, [EverythingIsPolled()])
    history.sent(3, at=3)
    assert broken(history, [EverythingIsPolled()])


def test_of_a_log_that_lost_its_end_not_everything_need_be_polled() -> None:
    history = SampleGroupHistory()
    history.sent(0, 1, at=0)
    history.assigned("a")
    history.did("final-read", ("t", 0), records((0,), 0, "t"), incarnation=1)
    assert not broken(history, [EverythingIsPolled()])
