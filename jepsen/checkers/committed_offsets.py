"""The possible values of a group's committed offset over time.

The committed offset is a register. A commit with an unknown outcome may take effect at any later time. A commit
therefore explains a response unless it was certainly overwritten before; a higher offset alone does not rule it out.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from math import inf
from typing import Final, TypeAlias

import attrs

from jepsen.checkers.records import TopicPartition
from jepsen.history import History, Operation, Outcome

# A group's offset of a partition, in one incarnation of the log that stores it.
Place: TypeAlias = tuple[str, TopicPartition, int]
# The response if no offset was ever committed.
NOTHING: Final = -1


@attrs.frozen
class OverwriteReason:
    """The reason why an offset was not the committed one, and the operations that prove it."""

    what: str
    proof: tuple[Operation, ...] = ()


@attrs.frozen
class _Observation:
    """Evidence that an offset was committed: known at `known_at`, and true since `since` or later."""

    known_at: float
    since: float
    offset: int
    operation: Operation


class CommittedOffset:
    """The operations on one register in one incarnation. `commits` includes the commits that may have survived from
    earlier incarnations.
    """

    def __init__(
        self, incarnation: int, commits: Iterable[tuple[int, Operation]], reads: Iterable[tuple[int, Operation]]
    ) -> None:
        self._commits: dict[int, list[Operation]] = defaultdict(list)
        for offset, operation in commits:
            self._commits[offset].append(operation)
        observations = [
            _Observation(completion_time(each), each.invoked_at, offset, each)
            for offset, its_commits in self._commits.items()
            for each in its_commits
            if each.outcome is Outcome.OK and each.incarnation == incarnation
        ]
        for offset, read in reads:
            begun = [each.invoked_at for each in self._commits.get(offset, ())]
            observations += [_Observation(completion_time(read), min(begun), offset, read)] if begun else []
        observations.sort(key=lambda observation: observation.known_at)
        self._times = [observation.known_at for observation in observations]
        # For each time: of all evidence until then, the latest for two different offsets.
        self._latest: list[tuple[_Observation, ...]] = []
        latest: tuple[_Observation, ...] = ()
        for observation in observations:
            latest = _two_latest((*latest, observation))
            self._latest.append(latest)

    def why_overwritten(self, offset: int, since: float, until: float) -> OverwriteReason | None:
        """Why the offset was not the committed one at any time from `since` to `until`; None if it may have been."""
        begun = [each for each in self._commits.get(offset, ()) if each.invoked_at <= until]
        if offset != NOTHING and not begun:
            return OverwriteReason("which no member had committed")
        last = max((completion_time(each) for each in begun), default=-inf)
        at = bisect_left(self._times, since)
        for observation in self._latest[at - 1] if at else ():
            if observation.offset != offset and observation.since > last:
                return OverwriteReason(
                    f"and had been at {observation.offset} since", (*begun[-1:], observation.operation)
                )
        return None


class CommittedOffsets:
    """The committed offsets of all groups in a history."""

    def __init__(self, history: History) -> None:
        self._commits: dict[tuple[str, TopicPartition], list[tuple[int, Operation]]] = defaultdict(list)
        self._reads: dict[Place, list[tuple[int, Operation]]] = defaultdict(list)
        self._known: dict[Place, CommittedOffset] = {}
        for operation in history.of("commit"):
            for topic, index, offset in operation.value.offsets if operation.outcome is not Outcome.FAIL else ():
                self._commits[operation.value.group, (topic, index)].append((offset, operation))
        for operation in history.of("fetch-committed", outcome=Outcome.OK):
            for topic, index, offset in operation.result:
                self._reads[operation.value.group, (topic, index), operation.incarnation].append((offset, operation))

    def at(self, group: str, partition: TopicPartition, incarnation: int) -> CommittedOffset:
        place = group, partition, incarnation
        if place not in self._known:
            commits = (each for each in self._commits[group, partition] if each[1].incarnation <= incarnation)
            self._known[place] = CommittedOffset(incarnation, commits, self._reads[place])
        return self._known[place]


def completion_time(operation: Operation) -> float:
    """The time at which the client learned that the operation had succeeded; infinity if it never did."""
    is_known = operation.outcome is Outcome.OK and operation.completed_at is not None
    return operation.completed_at if is_known and operation.completed_at is not None else inf


def _two_latest(observations: Iterable[_Observation]) -> tuple[_Observation, ...]:
    """The latest evidence for two different offsets, so that one remains for a caller that excludes the other."""
    by_offset: dict[int, _Observation] = {}
    for observation in observations:
        if observation.offset not in by_offset or observation.since > by_offset[observation.offset].since:
            by_offset[observation.offset] = observation
    return tuple(sorted(by_offset.values(), key=lambda observation: -observation.since)[:2])
