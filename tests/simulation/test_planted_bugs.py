"""A tester that finds nothing proves nothing: every planted bug must be found, within a few seeds."""

from collections.abc import Sequence

import attrs
import pytest

from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario
from tests.support.planted_bugs import BUGS

SEEDS_MAX = 6
SECONDS = 30


@attrs.frozen
class Hunt:
    """Who may notice a bug. The first seed that finds one is known, or the test would take minutes."""

    by: Sequence[str]
    first_seed: int = 1
    faults: Sequence[str] = tuple(FAULTS)


HUNTS = {
    "the metadata log is not synced": Hunt(["CommittedEntriesStay", "DiesOfFaultsOnly"], 7),
    "what the metadata log recovers is not written again": Hunt(
        ["CommittedEntriesStay", "DiesOfFaultsOnly", "NothingIsCorrupt"]
    ),
    "a single batch is acknowledged and not written": Hunt(
        ["AcknowledgedRecordsStay", "OffsetsNeverChange", "PollsSkipNothing", "Liveness"]
    ),
    "flush.messages is acknowledged without a flush": Hunt(["AcknowledgedRecordsStay"]),
    "what a segment recovers is not written again": Hunt(["AcknowledgedRecordsStay"]),
    "recovery keeps segments behind a gap": Hunt(["PollsSkipNothing", "LossesAreOfTheEnd", "SessionsAreInOrder"], 7),
    "a new log directory is not made durable": Hunt(["CommittedEntriesStay"], 6),
    "producers are forgotten by recovery": Hunt(["NothingTwice", "SessionsAreInOrder"]),
    "sequence numbers are not checked": Hunt(["NothingTwice", "SessionsAreInOrder"]),
    "checkpoints are written by two at once": Hunt(["DiesOfFaultsOnly"], 9, ["disk-stalled", "disk-slow"]),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    hunt = HUNTS[bug]
    for seed in range(hunt.first_seed, hunt.first_seed + SEEDS_MAX):
        with BUGS[bug].planted():
            violation = Scenario(seed, SECONDS, hunt.faults).run().violation
        if violation is not None:
            assert violation.partition(":")[0] in hunt.by, violation
            return
    pytest.fail(f"{SEEDS_MAX} seeds found nothing")
