"""Runs of thousands of operations: the checkers find nothing in a valid run, and a single planted anomaly."""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

import pytest

from jepsen.checkers import IDEMPOTENT_CHECKERS, judge
from jepsen.history import History, Operation, Outcome
from tests.support.synthetic_runs import SyntheticRun

Harm: TypeAlias = Callable[[History, Random], None]


def run() -> History:
    return SyntheticRun(seconds=30.0, rate=30.0, period=6.0).history


def broken(history: History) -> set[str]:
    return {promise.name for promise in judge(history, IDEMPOTENT_CHECKERS).promises if promise.broken}


def some(history: History, rng: Random, function: str) -> Operation:
    return rng.choice([each for each in history.of(function, outcome=Outcome.OK) if each.result != ()])


def lose_from_all(history: History, rng: Random) -> None:
    """No read contains an acknowledged record."""
    sent = some(history, rng, "send")
    for read in history.of("poll", "final-read"):
        read.result = tuple(record for record in read.result if record[1] != sent.value.values[0])


def lose_the_end(history: History, rng: Random) -> None:
    final = some(history, rng, "final-read")
    final.result = final.result[:-1]


def skip_in_a_poll(history: History, rng: Random) -> None:
    poll = rng.choice([each for each in history.of("poll") if len(each.result) > 2])
    poll.result = (poll.result[0], *poll.result[2:])


def go_back_in_a_poll(history: History, rng: Random) -> None:
    poll = rng.choice([each for each in history.of("poll") if len(each.result) > 2])
    poll.result = (*poll.result, poll.result[0])


def read_another(history: History, rng: Random) -> None:
    """For one reader, two adjacent records are swapped."""
    poll = rng.choice([each for each in history.of("poll") if len(each.result) > 2])
    (first, one), (second, other), *rest = poll.result
    poll.result = ((first, other), (second, one), *rest)


def repeat(history: History, rng: Random) -> None:
    final = some(history, rng, "final-read")
    final.result = (*final.result, (len(final.result), rng.choice(final.result)[1]))


def refuse(history: History, rng: Random) -> None:
    sent = some(history, rng, "send")
    sent.outcome = Outcome.FAIL


def forget(history: History, rng: Random) -> None:
    history.operations.remove(some(history, rng, "send"))


def leave_behind(history: History, rng: Random) -> None:
    """The last sent record is stored first. All readers agree, and it was acknowledged after all others."""
    sent = max(
        (each for each in history.of("send", outcome=Outcome.OK) if each.value.partition == 0),
        key=lambda each: each.invoked_at,
    )
    (value,) = sent.value.values

    def moved(record: tuple[int, str]) -> tuple[int, str]:
        offset, content = record
        return (0, value) if content == value else (offset + 1 if offset < sent.result else offset, content)

    for operation in history.operations:
        if operation.function == "send" and operation.outcome is Outcome.OK and operation.value.partition == 0:
            operation.result = moved((operation.result, operation.value.values[0]))[0]
        elif operation.function == "final-read" and operation.value[1] == 0:
            operation.result = tuple(sorted(map(moved, operation.result)))
    history.operations = [
        each for each in history.operations if not (each.function == "poll" and each.value.partition == 0)
    ]


HARMS: Final[dict[str, tuple[Harm, set[str]]]] = {
    "lost": (lose_from_all, {"AcknowledgedRecordsAreRead", "AcknowledgedRecordsStay", "LogsHaveNoGaps"}),
    "the end is lost": (lose_the_end, {"AcknowledgedRecordsAreRead"}),
    "skipped": (skip_in_a_poll, {"PollsSkipNothing"}),
    "back": (go_back_in_a_poll, {"PollsGoForward"}),
    "changed": (read_another, {"NothingTwice", "OffsetsNeverChange"}),
    "twice": (repeat, {"NothingTwice"}),
    "refused": (refuse, {"NothingRefusedIsRead"}),
    "from nowhere": (forget, {"NothingFromNowhere"}),
    "behind": (leave_behind, {"AcknowledgedOffsetsGrow", "SendsAreInOrder"}),
}


def test_a_run_that_went_well() -> None:
    assert broken(run()) == set()


@pytest.mark.seeds(3)
@pytest.mark.parametrize("harm", HARMS)
def test_one_thing_wrong_is_found(harm: str, seed: int) -> None:
    history = run()
    wrong, promises = HARMS[harm]
    wrong(history, Random(seed))
    found = broken(history)
    assert promises <= found
    # A duplicated or moved record may break several promises, but not unrelated ones.
    assert not found & {"NothingIsCorrupt", "ReplicasAreIdentical", "RecoveryIsBounded"}
