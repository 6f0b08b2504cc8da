"""Promises that the offsets of groups and consumers do not go back."""

from collections import defaultdict
from collections.abc import Iterator

from jepsen.checkers.checker import Anomaly
from jepsen.checkers.committed_offsets import completion_time
from jepsen.checkers.order import backwards
from jepsen.checkers.ownership import OwnershipPeriod, find_ownerships
from jepsen.checkers.records import TopicPartition, excerpt, name_of
from jepsen.history import History, Operation, Outcome


class CommitsNeverGoBack:
    """A group commits no lower offset after a higher one was committed."""

    def check(self, history: History) -> Iterator[Anomaly]:
        commits: dict[tuple[str, TopicPartition], dict[int, tuple[Operation, int]]] = defaultdict(dict)
        for operation in history.of("commit", outcome=Outcome.OK):
            for topic, index, offset in operation.value.offsets:
                commits[operation.value.group, (topic, index)][id(operation)] = operation, offset
        for (group, partition), by_id in commits.items():
            operations = [operation for operation, _ in by_id.values()]
            for earlier, later in backwards(operations, lambda each, known=by_id: known[id(each)][1]):  # type: ignore[misc]
                before, after = by_id[id(earlier)][1], by_id[id(later)][1]
                what = f"{group} commits {after} of {name_of(partition)} after {before} was committed"
                yield Anomaly(type(self).__name__, what, (earlier, later))


class ReadersNeverGoBack:
    """A consumer that chooses its partitions itself gets no record a second time."""

    def check(self, history: History) -> Iterator[Anomaly]:
        last: dict[tuple[str, TopicPartition], Operation] = {}
        for operation in sorted(history.of("poll", outcome=Outcome.OK), key=lambda each: each.serial):
            if operation.result:
                partition = operation.value.topic, operation.value.partition
                before = last.get((operation.client, partition))
                last[operation.client, partition] = operation
                if before is not None and operation.result[0][0] <= before.result[-1][0]:
                    first, end = operation.result[0][0], before.result[-1][0]
                    what = f"{operation.client} gets {first} of {name_of(partition)} after {end}"
                    yield Anomaly(type(self).__name__, what, (excerpt(before, end), excerpt(operation, first)))


class MembersResumeAfterCommits:
    """A member begins a partition that it is assigned at the committed offset or after it."""

    def check(self, history: History) -> Iterator[Anomaly]:
        commits: dict[tuple[str, TopicPartition], list[tuple[int, Operation]]] = defaultdict(list)
        for operation in history.of("commit"):
            for topic, index, offset in operation.value.offsets if operation.outcome is not Outcome.FAIL else ():
                commits[operation.value.group, (topic, index)].append((offset, operation))
        for owned in find_ownerships(history):
            found = _overlooked(owned, commits[owned.group, owned.partition])
            if found is not None and owned.first_poll is not None:
                start = owned.first_poll.result[0][0]
                what = (
                    f"{owned.member} begins {name_of(owned.partition)} at {start}, after {owned.group} had committed "
                    f"{found[0]}"
                )
                yield Anomaly(type(self).__name__, what, (found[1], owned.assignment, excerpt(owned.first_poll, start)))


def _overlooked(owned: OwnershipPeriod, commits: list[tuple[int, Operation]]) -> tuple[int, Operation] | None:
    """The highest commit that was acknowledged before the assignment, if the member began before it.

    None if a commit of a lower offset may have come after it.
    """
    if owned.first_poll is None:
        return None
    start = owned.first_poll.result[0][0]
    known = [each for each in commits if completion_time(each[1]) < owned.began_at and each[0] > start]
    if not known:
        return None
    highest = max(known, key=lambda each: (each[0], -each[1].invoked_at))
    may_follow = any(
        offset <= start and completion_time(operation) > highest[1].invoked_at for offset, operation in commits
    )
    return None if may_follow else highest
