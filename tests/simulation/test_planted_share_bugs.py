"""Bugs in share groups must be found within few seeds."""

from collections.abc import Sequence
from typing import Final

import pytest

from jepsen.simulation.faults import FAULTS
from jepsen.simulation.shapes import Shape
from tests.simulation.bug_search import found_by
from tests.support.share_bugs import SHARE_BUGS

SHARES = Shape(["shares-3"])
# A search ends with the first find.
SEEDS_MAX = 4

# The checker that detects each bug, the first seed, the time in seconds, and the faults.
SEARCHES: Final[dict[str, tuple[str, int, float, Sequence[str]]]] = {
    "records that were delivered too often are no dead letters": ("FailedRecordsAreDeadLetters", 1, 10.0, ()),
    "acquired records are not locked": ("LocksAreExclusive", 2, 6.0, ()),
    "groups without members expire": ("EmptyGroupsStay", 1, 6.0, ()),
    "delivery counts are lost with the leader": ("DeliveriesAreCounted", 2, 20.0, tuple(FAULTS)),
    "released records are skipped": ("FinalStatesHaveReasons", 1, 6.0, ()),
    "the start offset passes records in flight": ("EveryRecordIsFinished", 2, 15.0, ("reassign",)),
}


@pytest.mark.parametrize("bug", SHARE_BUGS)
def test_planted_share_bug_is_found(bug: str) -> None:
    finder, first, seconds, faults = SEARCHES[bug]
    seeds = range(first, first + SEEDS_MAX)
    finders = (found_by(SHARE_BUGS[bug], seed, SHARES, seconds, faults) for seed in seeds)
    assert next(filter(None, finders), None) == finder
