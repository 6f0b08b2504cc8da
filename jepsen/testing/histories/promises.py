"""The promises of applications about their records, and the checkers that decide them."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeAlias

import attrs

from jepsen.checkers.applications import (
    AcknowledgedRecordsAreStored,
    CommitsNeverGoBack,
    EachNameOnce,
    KeysAreInOrder,
    MembersResumeAfterCommits,
    NothingAbortedIsReceived,
    NothingIsUnrecorded,
    OutputIsDecided,
    PartitionsAreReadToTheEnd,
    ProcessingEnds,
    ReadersNeverGoBack,
    ReceivedRecordsAreProcessed,
    RecordsAreProcessedOnce,
    RecordsAreReached,
    RecordsReachGroups,
    SendsAreWrittenOnce,
)
from jepsen.checkers.applications import ExactlyOnce as CheckedCopies
from jepsen.checkers.checker import Checker
from jepsen.checkers.groups import NoNonmonotonicPolls
from jepsen.checkers.order import AcknowledgedOffsetsGrow
from jepsen.checkers.reads import OffsetsNeverChange

_EXACTLY_ONCE: Final = re.compile(r"exactly once from (?P<source>[\w.-]+) to (?P<target>[\w.-]+)(?: by (?P<group>.+))?")


class Promise(Enum):
    """A promise about all topics and groups of a history.

    `NOTHING_LOST`: each acknowledged record stays at its offset, reaches the groups that consume it before they commit
    past it, and is processed if the application records that. `NOTHING_TWICE`: a send writes one record, and a group
    processes a record once. `EACH_IDENTITY_ONCE`: a topic has one record of each identity, however often it was sent.
    `ORDER_PER_KEY`: acknowledged records of a key are in the order in which a thread or task sent them.
    `OFFSETS_NEVER_BACK`: neither committed offsets nor the positions of consumers go back. `NOTHING_ABORTED`: no
    consumer receives a record of a transaction that was aborted.
    """

    NOTHING_LOST = "nothing lost"
    NOTHING_TWICE = "nothing twice"
    EACH_IDENTITY_ONCE = "each identity once"
    ORDER_PER_KEY = "order per key"
    OFFSETS_NEVER_BACK = "offsets never back"
    NOTHING_ABORTED = "nothing aborted"


@attrs.frozen
class ExactlyOnce:
    """The promise that each record of `source` has one record of the same identity in `target`.

    `group` is the application's, by default the only one that has committed offsets of `source`. The promise's text is
    "exactly once from orders to invoices", or "... by group".
    """

    source: str
    target: str
    group: str | None = None

    @property
    def value(self) -> str:
        return f"exactly once from {self.source} to {self.target}" + (f" by {self.group}" if self.group else "")


AnyPromise: TypeAlias = Promise | ExactlyOnce


@attrs.frozen
class PromiseCheckers:
    """An anomaly of `breaks` breaks the promise; one of `doubts` leaves it undecided.

    So does a history that has none of the operations `needs`, by function and outcome as `History.counts` has them.
    """

    promise: AnyPromise
    meaning: str
    breaks: tuple[Checker, ...]
    doubts: tuple[Checker, ...]
    needs: tuple[str, ...]


_SENDS: Final = ("send ok",)
_POSITIONS: Final = ("commit ok", "poll-group ok", "poll ok")
_CHECKERS: Final[Mapping[AnyPromise, PromiseCheckers]] = {
    each.promise: each
    for each in (
        PromiseCheckers(
            Promise.NOTHING_LOST,
            "Acknowledged records stay, reach their groups, and are processed.",
            (AcknowledgedRecordsAreStored(), OffsetsNeverChange(), RecordsReachGroups(), ReceivedRecordsAreProcessed()),
            (RecordsAreReached(), ProcessingEnds(), NothingIsUnrecorded()),
            _SENDS,
        ),
        PromiseCheckers(
            Promise.NOTHING_TWICE,
            "A send writes one record, and a group processes a record once.",
            (SendsAreWrittenOnce(), RecordsAreProcessedOnce()),
            (PartitionsAreReadToTheEnd(), ProcessingEnds(), NothingIsUnrecorded()),
            _SENDS,
        ),
        PromiseCheckers(
            Promise.EACH_IDENTITY_ONCE,
            "A topic has one record of each identity.",
            (EachNameOnce(),),
            (PartitionsAreReadToTheEnd(), NothingIsUnrecorded()),
            _SENDS,
        ),
        PromiseCheckers(
            Promise.ORDER_PER_KEY,
            "Acknowledged records of a key are in the order in which they were sent.",
            (KeysAreInOrder(), AcknowledgedOffsetsGrow()),
            (NothingIsUnrecorded(),),
            _SENDS,
        ),
        PromiseCheckers(
            Promise.OFFSETS_NEVER_BACK,
            "Neither committed offsets nor positions go back.",
            (CommitsNeverGoBack(), MembersResumeAfterCommits(), NoNonmonotonicPolls(), ReadersNeverGoBack()),
            (NothingIsUnrecorded(),),
            _POSITIONS,
        ),
        PromiseCheckers(
            Promise.NOTHING_ABORTED,
            "No consumer receives a record of an aborted transaction.",
            (NothingAbortedIsReceived(),),
            (PartitionsAreReadToTheEnd(), NothingIsUnrecorded()),
            _SENDS,
        ),
    )
}


def checkers_of(promise: AnyPromise) -> PromiseCheckers:
    """The checkers of a promise."""
    if isinstance(promise, Promise):
        return _CHECKERS[promise]
    checked = CheckedCopies(promise.source, promise.target, promise.group)
    meaning = f"Each record of {promise.source} has one record in {promise.target}."
    doubts = OutputIsDecided(checked), NothingIsUnrecorded()
    return PromiseCheckers(promise, meaning, (checked,), doubts, ("send ok", "scan ok"))


def promise_named(promise: AnyPromise | str) -> AnyPromise:
    """The promise with this text. Raises ValueError, TypeError."""
    if isinstance(promise, Promise | ExactlyOnce):
        return promise
    if not isinstance(promise, str):
        raise TypeError(f"{promise!r} is no promise")
    copies = _EXACTLY_ONCE.fullmatch(promise)
    if copies is not None:
        return ExactlyOnce(**copies.groupdict())
    try:
        return Promise(promise)
    except ValueError:
        names = ", ".join(each.value for each in Promise)
        raise ValueError(f"{promise!r} is no promise: {names}, exactly once from TOPIC to TOPIC") from None


def promises_named(promises: Iterable[AnyPromise | str]) -> list[AnyPromise]:
    """The promises with these texts, each once. Raises ValueError."""
    if isinstance(promises, str):
        raise TypeError(f"promises are a list, not {promises!r}")
    found = list(dict.fromkeys(promise_named(each) for each in promises))
    if not found:
        raise ValueError("no promise is given")
    return found
