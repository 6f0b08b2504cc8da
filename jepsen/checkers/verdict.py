"""The verdict of all checkers on a history."""

import inspect
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import attrs

from jepsen.checkers.checker import Anomaly, Checker
from jepsen.collection import no_collection
from jepsen.history import History

# The number of anomalies that a verdict keeps for each promise. A broken promise is often broken for every record.
ANOMALIES_MAX: Final = 50


@attrs.frozen
class Promise:
    """`name` and `meaning` are those of the checker. `broken` counts all anomalies, of which only some are kept.

    `doubts` are sentences about what the history cannot decide. With a doubt, the promise is not known to be kept.
    """

    name: str
    meaning: str
    broken: int
    anomalies: tuple[Anomaly, ...]
    doubts: tuple[str, ...] = ()


@attrs.frozen
class Verdict:
    """`counts` are operations by function and outcome. `notes` are figures that break no promise, by their names."""

    promises: tuple[Promise, ...]
    counts: Mapping[str, int]
    notes: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_valid(self) -> bool:
        return all(each.broken == 0 for each in self.promises)

    @property
    def is_decided(self) -> bool:
        """True if each promise is known to be kept, or broken."""
        return all(each.broken or not each.doubts for each in self.promises)

    def anomalies(self) -> Iterable[Anomaly]:
        return (anomaly for promise in self.promises for anomaly in promise.anomalies)


def judge(history: History, checkers: Iterable[Checker], notes: Mapping[str, str] | None = None) -> Verdict:
    """Apply all checkers to a complete history."""
    with no_collection():
        return Verdict(tuple(_check(history, each) for each in checkers), history.counts(), notes or {})


def promise_text(checker: Checker) -> str:
    """The checker's promise in one line."""
    return " ".join((inspect.getdoc(checker) or "").split("\n\n")[0].split())


def checker_name(checker: Checker) -> str:
    """The name of a checker's promise: that of its class, or `name` of a checker with arguments."""
    return str(getattr(checker, "name", type(checker).__name__))


def _check(history: History, checker: Checker) -> Promise:
    anomalies = checker.check(history)
    kept = tuple(islice(anomalies, ANOMALIES_MAX))
    return Promise(checker_name(checker), promise_text(checker), len(kept) + sum(1 for _ in anomalies), kept)
