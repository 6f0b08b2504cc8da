"""The values that access control entries and credentials may have had at a node, as far as the history tells.

A change takes effect between its invocation and its acknowledgement. Without one it may take effect for some time
longer, or never. A broker learns of changes later, in the order of their commits. When a read shows a mark, the broker
knows all that was committed before the administrator set it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import inf
from typing import Generic, TypeVar

import attrs

from jepsen.history import History, Operation, Outcome
from jepsen.values import SETTLED_SECONDS, CredentialChange
from metadata.image import AccessControlEntry
from metadata.protocol import ScramMechanism

T = TypeVar("T", bound=Hashable)


@attrs.frozen
class _Change(Generic[T]):
    """A change that takes effect between `began` and `ended`; a certain one does, and others may."""

    value: T
    began: float
    ended: float
    is_certain: bool


class Values(Generic[T]):
    """The values that one item may have had over time. Changes are added in the order of their invocations."""

    def __init__(self, initial: T) -> None:
        self._changes = [_Change(initial, -inf, -inf, is_certain=True)]

    def add(self, value: T, operation: Operation) -> None:
        is_certain = operation.outcome is Outcome.OK
        ended = _end(operation) if is_certain else operation.invoked_at + SETTLED_SECONDS
        self._changes.append(_Change(value, operation.invoked_at, ended, is_certain))

    def between(self, since: float, until: float) -> set[T]:
        """The values that the item may have had at some time from `since` to `until`."""
        last = next(each for each in reversed(self._changes) if each.is_certain and each.ended <= since)
        later = (each for each in self._changes if each.ended > last.began and each.began <= until)
        return {last.value, *(each.value for each in later)}


@attrs.frozen
class Credential:
    """A password with its iterations."""

    password: str
    iterations: int


class KnownMetadata:
    """`entries` and `credentials` are the committed values over time."""

    def __init__(self, history: History) -> None:
        self.entries: defaultdict[AccessControlEntry, Values[bool]] = defaultdict(lambda: Values(initial=False))
        self.credentials: defaultdict[tuple[str, ScramMechanism], Values[Credential | None]] = defaultdict(
            lambda: Values(None)
        )
        for operation in history.of("change-acl"):
            if operation.outcome is not Outcome.FAIL:
                self.entries[operation.value.entry].add(operation.value.is_added, operation)
        for operation in history.of("change-credential"):
            change: CredentialChange = operation.value
            if operation.outcome is not Outcome.FAIL:
                credential = None if change.password is None else Credential(change.password, change.iterations)
                self.credentials[change.user, change.mechanism].add(credential, operation)
        self._marks = _known_marks(history)

    def since(self, broker: str, at: float) -> float:
        """The latest time for which the broker certainly knows, at `at`, all that was committed before."""
        completed, known = self._marks.get(broker, ([], []))
        number = bisect_right(completed, at)
        return known[number - 1] if number else -inf


def _known_marks(history: History) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
    """For each broker the times at which reads of marks completed, and up to which time it then knew all."""
    invoked = {operation.value: operation.invoked_at for operation in history.of("mark")}
    reads = defaultdict[str, list[tuple[float, float]]](list)
    for operation in history.of("see-credentials", outcome=Outcome.OK):
        reads[operation.value].append((_end(operation), invoked.get(operation.result.mark, -inf)))
    return {broker: _rising(sorted(each)) for broker, each in reads.items()}


def _rising(reads: Iterable[tuple[float, float]]) -> tuple[Sequence[float], Sequence[float]]:
    completed, known, latest = [], [], -inf
    for at, mark in reads:
        latest = max(latest, mark)
        completed.append(at)
        known.append(latest)
    return completed, known


def window(metadata: KnownMetadata, operation: Operation, broker: str) -> tuple[float, float]:
    """The times of the committed metadata that a broker may have used for an operation."""
    return metadata.since(broker, operation.invoked_at), _end(operation)


def completed(history: History, function: str) -> Iterator[Operation]:
    """The operations with a definite result."""
    return (each for each in history.of(function) if each.outcome is not Outcome.INFO)


def _end(operation: Operation) -> float:
    assert operation.completed_at is not None, "it has a result"
    return operation.completed_at
