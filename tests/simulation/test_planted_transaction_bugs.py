"""Bugs in the coordination of transactions must be found within a few seeds. Those of storage have their own tests."""

from collections.abc import Sequence

import attrs
import pytest

from jepsen.simulation.shapes import Shape
from tests.simulation.bug_search import found_by
from tests.support.transaction_bugs import COORDINATION_BUGS

SEEDS_MAX = 6
TRANSACTIONS = Shape(["transactions-3"])
# Random faults seldom stop replication and let markers through: `test_marker_scenarios`.
SCRIPTED = ("markers are sent before the outcome is committed",)


@attrs.frozen
class BugSearch:
    """The checkers that may detect a bug, and the first seed that does, to keep the test short."""

    by: Sequence[str]
    first_seed: int = 1
    faults: Sequence[str] = ()
    seconds: float = 20.0


SEARCHES = {
    # From transaction version 2 on, partitions refuse a marker with the epoch of the transaction: it stays open.
    "fencing leaves the epoch as it is": BugSearch(["Liveness"]),
    # A member pauses in a transaction until another one has its partitions.
    "offsets of members that were replaced are accepted": BugSearch(["OffsetsAreAtomicWithOutput"], seconds=30.0),
    "a new leader does not detect duplicates": BugSearch(
        ["OffsetsAreAtomicWithOutput", "NothingTwice"], faults=["kill", "storm", "aimed-kill", "elect-leaders"]
    ),
}


@pytest.mark.parametrize("bug", SEARCHES)
def test_planted_transaction_bug_is_found(bug: str) -> None:
    search = SEARCHES[bug]
    for seed in range(search.first_seed, search.first_seed + SEEDS_MAX):
        finder = found_by(COORDINATION_BUGS[bug], seed, TRANSACTIONS, search.seconds, search.faults)
        if finder is not None:
            assert finder in search.by
            return
    pytest.fail(f"{SEEDS_MAX} seeds found nothing")


def test_every_bug_of_coordination_is_searched_for() -> None:
    assert [bug for bug in COORDINATION_BUGS if bug not in (*SEARCHES, *SCRIPTED)] == []
