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
from tests.support.stories import Story, broken, records


class GroupStory(Story):
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

    def told(self, offset: int, incarnation: int = 0, member: str = "") -> None:
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


def consuming() -> GroupStory:
    """Two members consume one after the other, without an anomaly."""
    story = GroupStory()
    story.sent(0, 1, 2, 3, 4, 5, at=0)
    story.assigned("a")
    story.told(-1, member="a")
    story.got("a", 0, 1)
    story.got("a", 2)
    story.committed("a", 2)
    story.revoked("a")
    story.assigned("b", 2)
    story.told(2, member="b")
    story.got("b", 2, 3)
    story.got("b", 4, 5)
    story.committed("b", 6, 2)
    return story


def anomalies(story: GroupStory) -> Sequence[str]:
    return broken(story, GROUP_CHECKERS)


def test_nothing_is_wrong_with_members_that_go_on_where_others_committed() -> None:
    assert not anomalies(consuming())


def test_a_history_of_groups_is_the_same_after_it_was_written_down() -> None:
    story, file = consuming(), BytesIO()
    write_history(story, file)
    again = read_history(file.getvalue().splitlines(keepends=True))
    assert [(each.value, each.result) for each in again.of("assign", "poll-group", "commit", "fetch-committed")] == [
        (each.value, each.result) for each in story.of("assign", "poll-group", "commit", "fetch-committed")
    ]


def test_an_offset_that_was_overwritten_is_noticed() -> None:
    story = GroupStory()
    story.committed("a", 2)
    story.committed("a", 4)
    story.told(2)
    assert broken(story, [CommittedOffsetsNeverRegress()])


def test_an_offset_that_is_forgotten_is_noticed() -> None:
    story = GroupStory()
    story.committed("a", 2)
    story.told(-1)
    assert broken(story, [CommittedOffsetsNeverRegress()])


def test_committed_offset_without_a_commit_is_an_anomaly() -> None:
    story = GroupStory()
    story.committed("a", 2)
    story.told(3)
    assert broken(story, [CommittedOffsetsNeverRegress()])


def test_a_commit_that_may_be_under_way_may_come_late() -> None:
    story = GroupStory()
    late = story.commits("a", 2)
    story.committed("a", 4)
    story.told(4)
    story.told(2)
    assert not broken(story, [CommittedOffsetsNeverRegress()])
    story.info(late, "no answer")
    assert not broken(story, [CommittedOffsetsNeverRegress()])


def test_returned_offset_of_an_unacknowledged_commit_stays_committed() -> None:
    story = GroupStory()
    story.committed("a", 2)
    story.info(story.commits("a", 4), "no answer")
    story.told(2)
    story.told(4)
    assert not broken(story, [CommittedOffsetsNeverRegress()])
    story.told(2)
    assert broken(story, [CommittedOffsetsNeverRegress()])


def test_any_offset_may_be_returned_during_a_commit() -> None:
    story = GroupStory()
    story.committed("a", 2)
    operation = story.commits("a", 4)
    story.told(4)
    story.told(4)
    story.ends_well(operation)
    assert not anomalies(story)


def test_an_earlier_offset_may_be_back_after_a_loss_and_not_before() -> None:
    story = GroupStory()
    story.committed("a", 2)
    story.committed("a", 4)
    story.told(2, incarnation=1)
    assert not broken(story, [CommittedOffsetsNeverRegress()])
    story.committed("a", 6, incarnation=1)
    story.told(2, incarnation=1)
    assert broken(story, [CommittedOffsetsNeverRegress()])


def test_two_owners_in_a_generation_are_noticed() -> None:
    story = GroupStory()
    story.assigned("a", 3)
    story.assigned("a", 4)
    story.assigned("b", 5)
    story.assigned("b", 3, index=1)
    assert not broken(story, [OneOwnerPerGeneration()])
    story.assigned("b", 4)
    assert broken(story, [OneOwnerPerGeneration()])


def test_a_static_member_is_the_same_owner_when_it_comes_back() -> None:
    story = GroupStory()
    story.assigned("a", 3, instance="i")
    story.assigned("b", 3, instance="i")
    assert not broken(story, [OneOwnerPerGeneration()])
    story.assigned("c", 3, instance="j")
    assert broken(story, [OneOwnerPerGeneration()])


def test_a_commit_in_a_generation_that_is_over_is_noticed() -> None:
    story = GroupStory()
    late = story.commits("a", 2, 1)
    story.committed("b", 4, 2)
    story.ends_well(late)
    assert not broken(story, [OldGenerationsCommitNothing()])
    story.committed("a", 3, 1)
    assert broken(story, [OldGenerationsCommitNothing()])


def test_a_commit_by_a_static_member_that_was_replaced_is_noticed() -> None:
    story = GroupStory()
    story.assigned("a", instance="i")
    story.committed("a", 1)
    late = story.commits("a", 2)
    story.assigned("b", instance="i")
    story.ends_well(late)
    story.committed("b", 2)
    assert not broken(story, [ReplacedMembersCommitNothing()])
    assert not broken(story, [ReplacedMembersCommitNothing()])
    story.committed("a", 3)
    assert broken(story, [ReplacedMembersCommitNothing()])


def test_a_static_member_whose_replacement_was_lost_with_the_end_of_the_log_is_itself_again() -> None:
    story = GroupStory()
    story.assigned("a", instance="i")
    story.assigned("b", instance="i")
    story.committed("a", 3, incarnation=1)
    assert not broken(story, [ReplacedMembersCommitNothing()])
    story.assigned("b", instance="i", incarnation=1)
    story.committed("a", 4, incarnation=1)
    assert broken(story, [ReplacedMembersCommitNothing()])


def test_a_static_member_may_come_back_under_an_earlier_member_id() -> None:
    story = GroupStory()
    story.assigned("a", instance="i")
    story.assigned("b", instance="i")
    story.assigned("a", 2, instance="i")
    story.committed("a", 3)
    assert not broken(story, [ReplacedMembersCommitNothing()])


def test_a_record_between_two_polls_is_missed() -> None:
    story = GroupStory()
    story.sent(0, 1, 2, 3, at=0)
    story.assigned("a")
    story.got("a", 0)
    story.got("a", 2)
    assert broken(story, [NoPollSkips()])


def test_unseen_record_is_not_missed() -> None:
    story = GroupStory()
    story.assigned("a")
    story.got("a", 0)
    story.got("a", 2)
    assert not broken(story, [NoPollSkips()])


def test_a_record_that_comes_twice_is_noticed_until_its_partition_was_given_up() -> None:
    story = GroupStory()
    story.assigned("a")
    story.got("a", 0, 1)
    story.revoked("a", function="lose")
    story.assigned("a", 2)
    story.got("a", 0, 1)
    story.assigned("a", 3)
    assert not broken(story, [NoNonmonotonicPolls()])
    story.got("a", 1, 2)
    assert broken(story, [NoNonmonotonicPolls()])


def test_poll_without_an_assignment_is_an_anomaly() -> None:
    story = GroupStory()
    story.assigned("a")
    story.got("a", 0)
    story.revoked("a")
    assert not broken(story, [OnlyOwnersPoll()])
    story.got("a", 1)
    story.assigned("a", 2, index=1)
    story.got("a", 2)
    assert len(broken(story, [OnlyOwnersPoll()])) == 2


def begins(start: int, *, incarnation: int = 0) -> Sequence[str]:
    """Let "b" begin at `start`, after "a" has committed 2 and then 4. Returns the broken promises."""
    story = GroupStory()
    story.sent(0, 1, 2, 3, 4, 5, 6, at=0)
    story.assigned("a")
    story.committed("a", 2)
    story.committed("a", 4)
    story.assigned("b", 2, incarnation=incarnation)
    story.got("b", start, start + 1)
    return broken(story, [ResumesWhereCommitted()])


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
    story = GroupStory()
    story.assigned("a")
    story.committed("a", 4)
    story.assigned("b", 2)
    story.got("b", 0, 1, incarnation=1)
    assert not broken(story, [ResumesWhereCommitted()])


def test_a_member_begins_at_the_first_record_where_nothing_was_committed() -> None:
    story = GroupStory()
    story.sent(0, 1, 2, at=0)
    story.assigned("a")
    story.got("a", 0, 1)
    assert not broken(story, [ResumesWhereCommitted()])
    story.assigned("b", 2)
    story.got("b", 1)
    assert broken(story, [ResumesWhereCommitted()])


def test_acknowledged_record_that_no_member_received_is_an_anomaly() -> None:
    story = GroupStory()
    story.sent(0, 1, at=0)
    story.sent(2, at=2)
    story.sent(0, at=0, topic="f")
    story.assigned("a")
    story.got("a", 0, 1)
    story.got("a", 2)
    assert not broken(story, [EverythingIsPolled()])
    story.sent(3, at=3)
    assert broken(story, [EverythingIsPolled()])


def test_of_a_log_that_lost_its_end_not_everything_need_be_polled() -> None:
    story = GroupStory()
    story.sent(0, 1, at=0)
    story.assigned("a")
    story.did("final-read", ("t", 0), records((0,), 0, "t"), incarnation=1)
    assert not broken(story, [EverythingIsPolled()])
