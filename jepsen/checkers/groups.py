"""Promises to members of groups, and to groups as a whole."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import inf
from operator import attrgetter
from typing import Final

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.checkers.committed_offsets import NOTHING, CommittedOffsets, Place, completion_time
from jepsen.checkers.ownership import find_ownerships
from jepsen.checkers.records import TopicPartition, excerpt, final_reads, first_between, known_offsets, name_of
from jepsen.history import History, Operation, Outcome


class CommittedOffsetsNeverRegress:
    """A response with a committed offset has the last committed offset or a later one. It never has an offset that was
    overwritten before the request, or that was not committed.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        committed = CommittedOffsets(history)
        for operation in history.of("fetch-committed", outcome=Outcome.OK):
            for topic, index, offset in operation.result:
                place = operation.value.group, (topic, index), operation.incarnation
                why = committed.at(*place).why_overwritten(offset, operation.invoked_at, completion_time(operation))
                if why is not None:
                    what = f"{place[0]} is at {offset} of {name_of(place[1])}, {why.what}"
                    yield Anomaly(type(self).__name__, what, (*why.proof, operation))


class OneOwnerPerGeneration:
    """In a generation, a partition has one owner. A static member counts as one member across its restarts."""

    def check(self, history: History) -> Iterator[Anomaly]:
        owners: dict[tuple[str, int, TopicPartition, int], Operation] = {}
        for operation in history.of("assign", outcome=Outcome.OK):
            own = operation.value
            for partition in own.partitions if own.generation >= 0 else ():
                first = owners.setdefault((own.group, own.generation, partition, operation.incarnation), operation)
                if _identity(first) != _identity(operation):
                    what = f"{name_of(partition)} belongs to two members of generation {own.generation} of {own.group}"
                    yield Anomaly(type(self).__name__, what, (first, operation))


class OldGenerationsCommitNothing:
    """After an offset was committed in a generation, no commit of an earlier generation succeeds."""

    def check(self, history: History) -> Iterator[Anomaly]:
        commits: dict[Place, list[Operation]] = defaultdict(list)
        for operation in history.of("commit", outcome=Outcome.OK):
            for topic, index, _ in operation.value.offsets if operation.value.generation >= 0 else ():
                commits[operation.value.group, (topic, index), operation.incarnation].append(operation)
        for (group, partition, _), its_commits in commits.items():
            for later, earlier in _overtaken(its_commits):
                what = f"{group} commits {name_of(partition)} in generation {earlier.value.generation} after"
                yield Anomaly(type(self).__name__, f"{what} {later.value.generation}", (later, earlier))


class ReplacedMembersCommitNothing:
    """After a static member was assigned partitions under a new member id, no commit under its former id succeeds. This
    does not hold if the end of the group's log was lost, and the new member id with it.
    """

    def check(self, history: History) -> Iterator[Anomaly]:
        assignments: dict[tuple[str, str], list[Operation]] = defaultdict(list)
        instances: dict[tuple[str, str], str] = {}
        for operation in history.of("assign", outcome=Outcome.OK):
            own = operation.value
            if own.instance:
                assignments[own.group, own.instance].append(operation)
                instances[own.group, own.member] = own.instance
        for operation in history.of("commit", outcome=Outcome.OK):
            group, member = operation.value.group, operation.value.member
            known = assignments.get((group, instances.get((group, member), "")), [])
            before = [each for each in known if completion_time(each) < operation.invoked_at]
            # It may have returned with the same member id.
            own_at = max((completion_time(each) for each in before if each.value.member == member), default=inf)
            others = [
                each for each in before if each.value.member != member and each.incarnation == operation.incarnation
            ]
            by = next((each for each in others if each.invoked_at > own_at), None)
            if by is not None:
                what = f"{member} commits for {group}, although {by.value.member} is now {by.value.instance}"
                yield Anomaly(type(self).__name__, what, (by, operation))


class NoPollSkips:
    """From poll to poll, a member that owns a partition skips no records of it."""

    def check(self, history: History) -> Iterator[Anomaly]:
        known = known_offsets(history)
        for owned in find_ownerships(history):
            for before, after in owned.successive_polls():
                behind, following = before.result[-1][0] + 1, after.result[0][0]
                skipped = first_between(known[owned.partition, after.incarnation], behind, following)
                if skipped is not None:
                    what = f"{owned.member} gets {following} of {name_of(owned.partition)}, but never {skipped}"
                    proof = owned.assignment, excerpt(before, behind), excerpt(after, following)
                    yield Anomaly(type(self).__name__, what, proof)


class NoNonmonotonicPolls:
    """From poll to poll, a member that owns a partition receives no record a second time."""

    def check(self, history: History) -> Iterator[Anomaly]:
        for owned in find_ownerships(history):
            for before, after in owned.successive_polls():
                last, following = before.result[-1][0], after.result[0][0]
                if following <= last:
                    what = f"{owned.member} gets {following} of {name_of(owned.partition)} after {last}"
                    proof = owned.assignment, excerpt(before, last), excerpt(after, following)
                    yield Anomaly(type(self).__name__, what, proof)


class OnlyOwnersPoll:
    """A member gets records only of partitions that it was assigned and has not given up."""

    def check(self, history: History) -> Iterator[Anomaly]:
        owned = {id(poll) for each in find_ownerships(history) for poll in each.polls}
        for operation in history.of("poll-group", outcome=Outcome.OK):
            if operation.result and id(operation) not in owned:
                poll = operation.value
                what = f"{poll.member} gets {name_of((poll.topic, poll.partition))}, which it does not own"
                yield Anomaly(type(self).__name__, what, (excerpt(operation, operation.result[0][0]),))


class ResumesWhereCommitted:
    """A member starts a newly assigned partition at the committed offset, not at one that was overwritten before."""

    def check(self, history: History) -> Iterator[Anomaly]:
        known, committed = known_offsets(history), CommittedOffsets(history)
        for owned in find_ownerships(history):
            first = owned.first_poll
            if first is None or first.incarnation:
                continue  # nothing is promised about a truncated log, which may have lost committed offsets too
            start = first.result[0][0]
            # No offset need be committed if the member begins with the first existing record.
            is_first = first_between(known[owned.partition, first.incarnation], 0, start) is None
            last_commit = committed.at(owned.group, owned.partition, owned.incarnation)
            wrong = [
                last_commit.why_overwritten(each, owned.began_at, completion_time(first))
                for each in (start, *[NOTHING] * is_first)
            ]
            if all(wrong):
                why = wrong[0]
                assert why is not None, "every start has a reason"
                what = f"{owned.member} begins {name_of(owned.partition)} at {start}, {why.what}"
                yield Anomaly(type(self).__name__, what, (*why.proof, owned.assignment, excerpt(first, start)))


class EverythingIsPolled:
    """Every acknowledged record of a topic that a group consumes is received by a member after recovery."""

    def check(self, history: History) -> Iterator[Anomaly]:
        finals = final_reads(history)
        topics: dict[str, dict[str, None]] = defaultdict(dict)
        for operation in history.of("assign"):
            for topic, _ in operation.value.partitions:
                topics[operation.value.group][topic] = None
        got: dict[str, set[str]] = {group: set() for group in topics}
        for operation in history.of("poll-group", outcome=Outcome.OK):
            got[operation.value.group].update(value for _, value in operation.result)
        for operation in history.of("send", outcome=Outcome.OK):
            partition = operation.value.topic, operation.value.partition
            if partition in finals and finals[partition].incarnation > 0:
                continue  # a group that was ahead of a truncated log does not know about the truncation
            for group in (group for group, its_topics in topics.items() if partition[0] in its_topics):
                missing = next((value for value in operation.value.values if value not in got[group]), None)
                if missing is not None:
                    what = f"{missing} of {name_of(partition)} reached no member of {group}"
                    yield Anomaly(type(self).__name__, what, (operation,))


def _identity(assignment: Operation) -> str:
    own = assignment.value
    return f"instance {own.instance}" if own.instance else f"member {own.member}"


def _overtaken(commits: Sequence[Operation]) -> Iterator[tuple[Operation, Operation]]:
    """Pairs of a commit and an earlier acknowledged commit of a later generation."""
    acknowledged = sorted(commits, key=completion_time)
    at = 0
    highest: Operation | None = None
    for commit in sorted(commits, key=attrgetter("invoked_at")):
        while at < len(acknowledged) and completion_time(acknowledged[at]) < commit.invoked_at:
            if highest is None or acknowledged[at].value.generation > highest.value.generation:
                highest = acknowledged[at]
            at += 1
        if highest is not None and commit.value.generation < highest.value.generation:
            yield highest, commit


GROUP_CHECKERS: Final[tuple[Checker, ...]] = (
    CommittedOffsetsNeverRegress(),
    OneOwnerPerGeneration(),
    OldGenerationsCommitNothing(),
    ReplacedMembersCommitNothing(),
    OnlyOwnersPoll(),
    NoPollSkips(),
    NoNonmonotonicPolls(),
    ResumesWhereCommitted(),
    EverythingIsPolled(),
)
