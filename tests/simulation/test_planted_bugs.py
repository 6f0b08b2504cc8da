"""Every planted bug must be found within a few seeds, which shows that the simulator can find bugs."""

from collections.abc import Sequence
from typing import Final

import attrs
import pytest

from jepsen.simulation.faults import FAULTS
from jepsen.simulation.shapes import Shape
from tests.simulation.bug_search import ALL_BUGS, found_by
from tests.support.scrub_bugs import SCRUB_BUGS
from tests.support.storage_bugs import STORAGE_BUGS

SEEDS_MAX = 6
SECONDS = 20.0
# One node is enough for losses of its own disk.
NODE = Shape(["node"])
QUORUM = Shape(["quorum-3"])
REPLICAS = Shape(["nodes-3"])
POWER = ("power", "storm", "fsync-then-power", "aimed-power")


@attrs.frozen
class BugSearch:
    """The checkers that may detect a bug, and the first seed that does, which keeps the test short."""

    by: Sequence[str]
    first_seed: int = 1
    faults: Sequence[str] = POWER
    shape: Shape = NODE


# Seeds from which on a search finds its bug soon, where the first ones do not.
_FIRST_SEEDS: Final = {"the scrubber trusts the index": 12}

SEARCHES = {
    "a single batch is acknowledged and not written": BugSearch(
        [
            *("AcknowledgedRecordsStay", "AcknowledgedRecordsAreRead", "OffsetsNeverChange", "PollsSkipNothing"),
            *("OnlyFlipsAreDamage", "Liveness"),
        ]
    ),
    "flush.messages is acknowledged without a flush": BugSearch(
        ["AcknowledgedRecordsStay", "AcknowledgedRecordsAreRead"]
    ),
    "a recovered segment is not written again": BugSearch(
        ["AcknowledgedRecordsStay", "AcknowledgedRecordsAreRead", "OnlyFlipsAreDamage"], 13
    ),
    # Rolled segments are flushed at once, so a power cut can leave a gap only if that takes long. The scrubber may be
    # the first to find the gap.
    "recovery keeps segments after a gap": BugSearch(
        ["LogsHaveNoGaps", "OnlySuffixesAreLost", "SessionsAreInOrder", "OnlyFlipsAreDamage"],
        11,
        ["power", "storm", "aimed-power", "disk-slow", "disk-stalled"],
    ),
    "a new log directory is not made durable": BugSearch(
        ["EpochsNeverGoBack", "OnlyFaultsEndProcesses", "Liveness", "AcknowledgedRecordsStay"], 6, ["power"]
    ),
    "recovery forgets producers": BugSearch(["NothingTwice", "SessionsAreInOrder"], 6, ["storm", "aimed-kill"]),
    "sequence numbers are not checked": BugSearch(["NothingTwice", "SessionsAreInOrder"], 2, tuple(FAULTS)),
    "checkpoints are written concurrently": BugSearch(["OnlyFaultsEndProcesses"], 3, ["disk-stalled", "disk-slow"]),
    "every epoch is plausible": BugSearch(["Liveness"], faults=["lying-peer"], shape=QUORUM),
    "unknown peers are trusted": BugSearch(["EpochsBeginWithCandidates"], faults=["lying-stranger"], shape=QUORUM),
    **{
        bug: BugSearch(
            ["PassesFindFlips", "FlippedBitsAreRepaired"],
            _FIRST_SEEDS.get(bug, 1),
            ["data-bit-flip"],
            shape=REPLICAS,
        )
        for bug in SCRUB_BUGS
    },
    "a voter counts before it has caught up": BugSearch(
        ["LeadersAreComplete"], 9, ["bit-flip", "power", "kill"], shape=QUORUM
    ),
    "leaders commit alone": BugSearch(["InSyncReplicasHoldWhatIsCommitted"], faults=["kill"], shape=REPLICAS),
}


@pytest.mark.parametrize("bug", SEARCHES)
def test_a_planted_bug_is_found(bug: str) -> None:
    search = SEARCHES[bug]
    for seed in range(search.first_seed, search.first_seed + SEEDS_MAX):
        finder = found_by(ALL_BUGS[bug], seed, search.shape, SECONDS, search.faults)
        if finder is not None:
            assert finder in search.by
            return
    pytest.fail(f"{SEEDS_MAX} seeds found nothing")


def test_every_bug_of_storage_is_searched_for() -> None:
    assert [bug for bug in STORAGE_BUGS if bug not in SEARCHES] == []
