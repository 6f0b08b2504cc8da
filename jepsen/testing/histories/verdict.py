"""The verdict on an application's history: each promise is kept, broken, or not known to be kept."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

import attrs

from broker.printable import printable
from jepsen import checkers
from jepsen.checkers import Anomaly
from jepsen.checkers.verdict import ANOMALIES_MAX, checker_name
from jepsen.history import History, Operation
from jepsen.testing.histories.operation_text import operation_text
from jepsen.testing.histories.promises import AnyPromise, PromiseCheckers

# The findings of a promise that a text shows, and the operations before and after each that it shows.
_SHOWN_MAX: Final = 3
_AROUND: Final = 3


class Status(Enum):
    """The state of a promise. With UNKNOWN, the history does not break the promise, and cannot show that it is kept."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@attrs.frozen
class Finding:
    """A sentence about what happened, the operations that prove it, and the operations around them.

    The operations around are empty where Spark has judged the history.
    """

    sentence: str
    operations: tuple[Operation, ...] = ()
    around: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        lines = [printable(self.sentence)]
        proof = {(each.client, each.serial) for each in self.operations}
        shown = [*self.operations, *(each for each in self.around if (each.client, each.serial) not in proof)]
        for each in sorted(shown, key=lambda operation: (operation.invoked_at, operation.client, operation.serial)):
            mark = ">" if (each.client, each.serial) in proof else " "
            end = "" if each.completed_at is None else f"{each.completed_at:.3f}"
            lines.append(f"  {mark} [{each.invoked_at:.3f}..{end}] {operation_text(each)}")
        return "\n".join(lines)


@attrs.frozen
class PromiseVerdict:
    """The verdict on one promise.

    `broken` counts all findings that break it, of which `findings` are some. `doubts` are what could not be decided.
    """

    promise: AnyPromise
    meaning: str
    broken: int
    findings: tuple[Finding, ...]
    doubts: tuple[Finding, ...]

    @property
    def status(self) -> Status:
        if self.broken:
            return Status.BROKEN
        return Status.UNKNOWN if self.doubts else Status.KEPT

    def __str__(self) -> str:
        count = f", {self.broken} times" if self.broken > 1 else ""
        lines = [f"{self.promise.value}: {self.status.value}{count}"]
        for finding in self.findings[:_SHOWN_MAX] if self.broken else self.doubts[:_SHOWN_MAX]:
            lines += [f"  {line}" for line in str(finding).splitlines()]
        return "\n".join(lines)


class PromiseBroken(AssertionError):
    """A promise is broken. The message has what happened."""


@attrs.frozen(repr=False)
class HistoryVerdict:
    """The verdicts on all promises. It is true if all are known to be kept. `counts` are operations by outcome."""

    promises: tuple[PromiseVerdict, ...]
    counts: Mapping[str, int]

    def __bool__(self) -> bool:
        return all(each.status is Status.KEPT for each in self.promises)

    def __getitem__(self, promise: AnyPromise | str) -> PromiseVerdict:
        """The verdict on a promise. Raises KeyError if it was not checked."""
        for each in self.promises:
            if promise in (each.promise, each.promise.value):
                return each
        raise KeyError(promise)

    @property
    def is_broken(self) -> bool:
        """True if a promise is broken."""
        return any(each.status is Status.BROKEN for each in self.promises)

    def raise_if_broken(self) -> None:
        """Raises PromiseBroken if a promise is broken. One that is unknown raises nothing: test the truth value."""
        if self.is_broken:
            raise PromiseBroken(str(self))

    def __str__(self) -> str:
        return "\n".join(map(str, self.promises))

    # pytest shows it for a failed `assert verdict`.
    __repr__ = __str__

    def checked(self) -> checkers.Verdict:
        """This verdict in the form of the fault suites, for the report."""
        promises = [
            checkers.Promise(
                each.promise.value,
                each.meaning,
                each.broken,
                tuple(Anomaly(each.promise.value, one.sentence, one.operations) for one in each.findings),
                tuple(one.sentence for one in each.doubts),
            )
            for each in self.promises
        ]
        return checkers.Verdict(tuple(promises), dict(self.counts))


def compose_verdict(
    wanted: Sequence[PromiseCheckers], judged: checkers.Verdict, history: History | None = None
) -> HistoryVerdict:
    """The verdict on promises from the anomalies that their checkers found. `history` has the operations around."""
    by_name = {each.name: each for each in judged.promises}
    around = _Around(history)
    promises = []
    for each in wanted:
        breaks = [by_name[checker_name(checker)] for checker in each.breaks]
        doubts = [by_name[checker_name(checker)] for checker in each.doubts]
        found = [around.finding(anomaly) for promise in breaks for anomaly in promise.anomalies]
        doubted = [around.finding(anomaly) for promise in doubts for anomaly in promise.anomalies]
        if not any(judged.counts.get(name) for name in each.needs):
            needed = " or ".join(name.removesuffix(" ok") for name in each.needs)
            doubted.append(Finding(f"the history has no {needed} that succeeded"))
        broken = sum(promise.broken for promise in breaks)
        kept = tuple(found[:ANOMALIES_MAX])
        promises.append(PromiseVerdict(each.promise, each.meaning, broken, kept, tuple(doubted[:ANOMALIES_MAX])))
    return HistoryVerdict(tuple(promises), judged.counts)


class _Around:
    """Finds the operations of the same clients around those of a finding."""

    def __init__(self, history: History | None) -> None:
        self._by_client: dict[str, list[Operation]] = {}
        for operation in [] if history is None else history.operations:
            self._by_client.setdefault(operation.client, []).append(operation)
        self._places = {
            (each.client, each.serial): place for each_ in self._by_client.values() for place, each in enumerate(each_)
        }

    def finding(self, anomaly: Anomaly) -> Finding:
        near: dict[tuple[str, int], Operation] = {}
        for operation in anomaly.proof:
            place = self._places.get((operation.client, operation.serial))
            its_client = self._by_client.get(operation.client, [])
            for each in () if place is None else its_client[max(place - _AROUND, 0) : place + _AROUND + 1]:
                near[each.client, each.serial] = each
        return Finding(anomaly.what, anomaly.proof, tuple(near.values()))
