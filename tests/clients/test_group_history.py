"""The history of a group detects every violation."""

from kafka import TopicPartition

from tests.support.group_history import Event, GroupHistory, Partition
from tests.support.group_members import KafkaPythonListener

P: Partition = ("topic", 0)


class Told(GroupHistory):
    """A history whose events are a second apart."""

    def add(self, name: str, kind: str, offset: int = -1) -> "Told":
        self.tell(Event(float(len(self.events)), name, kind, () if kind == "gone" else (P,), offset))
        return self

    def read_up_to(self, name: str, first: int, end: int) -> "Told":
        for offset in range(first, end):
            self.add(name, "read", offset)
        return self


def problem(told: Told) -> str:
    (only,) = told.problems()
    return only.partition(": ")[2]


def handed_over(first: int, committed: int, *, by: str = "revoked") -> Told:
    """Member a has read five records when b takes over."""
    told = Told().add("a", "gained").read_up_to("a", 0, 5).add("a", "committed", committed)
    return told.add("a", by).add("b", "gained").read_up_to("b", first, 6)


def test_a_group_that_does_as_it_should_has_no_problems() -> None:
    assert handed_over(5, 5).problems() == []
    assert handed_over(3, 3, by="gone").problems() == []
    assert handed_over(3, 3).twice == 2


def test_two_owners_at_once_are_noticed() -> None:
    told = Told().add("a", "gained").add("b", "gained").add("a", "revoked")
    assert problem(told) == f"b was given {P}, which a had"


def test_member_may_learn_late_that_its_session_has_expired() -> None:
    told = Told().add("a", "gained").add("b", "gained").add("a", "read", 0).add("a", "lost").add("b", "read", 0)
    assert (told.problems(), told.losers) == ([], ["a"])


def test_owners_count_by_their_times_and_not_by_when_they_were_heard_of() -> None:
    told = Told()
    told.tell(Event(2.0, "b", "gained", (P,)))
    told.tell(Event(0.0, "a", "gained", (P,)))
    told.tell(Event(1.0, "a", "revoked", (P,)))
    assert told.problems() == []


def test_records_that_are_skipped_or_read_by_others_are_noticed() -> None:
    assert problem(handed_over(6, 5).read_up_to("b", 6, 7)) == f"b began {P} at 6, which was read up to 5 only"
    assert problem(Told().add("a", "gained").add("a", "read", 0).add("a", "read", 2)) == (
        f"a went on with {P} at 2, not at 1"
    )
    assert problem(Told().add("a", "gained").add("a", "revoked").add("a", "read", 0)) == (
        f"a read {P} at 0, and does not have it"
    )


def test_commits_that_are_lost_or_made_up_are_noticed() -> None:
    assert problem(handed_over(3, 4)) == f"b began {P} at 3, 4 was committed"
    assert problem(Told().add("a", "gained").add("a", "committed", 1)) == (
        f"a committed 1 of {P}, which nobody has read"
    )


def test_double_assignment_and_revocation_without_ownership_are_violations() -> None:
    assert problem(Told().add("a", "gained").add("a", "gained")) == f"a was given {P}, which it has already"
    assert problem(Told().add("a", "revoked")) == f"a gave up {P}, which it does not have"


def test_repeated_revocation_of_kafka_python_is_recorded_once() -> None:
    """kafka-python does this when it is closed while it joins the next generation."""
    history, both = GroupHistory(), {TopicPartition("topic", 0), TopicPartition("topic", 1)}
    listener = KafkaPythonListener("a", history)
    for _ in range(2):
        listener.on_partitions_assigned(both)
        listener.on_partitions_revoked(both)
        listener.on_partitions_revoked(both)
    assert history.problems() == []
    listener.on_partitions_revoked({TopicPartition("topic", 2)})
    assert len(history.problems()) == 1
