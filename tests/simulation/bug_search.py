"""Counts how often planted bugs are found: `python -m tests.simulation.bug_search quorum-3,quorum-5 100` prints a line
for each.

With names of bugs after the number of seeds, only for those bugs: see `tests.support.storage_bugs`, `quorum_bugs`,
`replication_bugs`, `group_bugs`, `transaction_bugs`, `quota_bugs`, `security_bugs` and `share_bugs`.
"""

import argparse
from collections import Counter
from collections.abc import Sequence

from jepsen.simulation.command import parse_faults, parse_shape
from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario
from jepsen.simulation.shapes import Shape
from tests.support.group_bugs import GROUP_BUGS
from tests.support.planted_bugs import Bug
from tests.support.quorum_bugs import QUORUM_BUGS
from tests.support.quota_bugs import QUOTA_BUGS
from tests.support.replication_bugs import REPLICATION_BUGS
from tests.support.scrub_bugs import SCRUB_BUGS
from tests.support.security_bugs import SECURITY_BUGS
from tests.support.share_bugs import SHARE_BUGS
from tests.support.storage_bugs import STORAGE_BUGS
from tests.support.transaction_bugs import COORDINATION_BUGS, TRANSACTION_BUGS

SECONDS = 30.0
ALL_BUGS: dict[str, Bug] = {**STORAGE_BUGS, **SCRUB_BUGS, **QUORUM_BUGS, **REPLICATION_BUGS, **GROUP_BUGS}
ALL_BUGS |= {**TRANSACTION_BUGS, **COORDINATION_BUGS, **QUOTA_BUGS, **SECURITY_BUGS, **SHARE_BUGS}


def found_by(
    bug: Bug,
    seed: int,
    shape: Shape,
    seconds: float = SECONDS,
    faults: Sequence[str] = tuple(FAULTS),
) -> str | None:
    """The name of the checker that detects the bug in a run; None if the run passes."""
    with bug.planted():
        violation = Scenario(seed, seconds, faults, shape).run().violation
    return violation.partition(":")[0] if violation is not None else None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape")
    parser.add_argument("seeds", type=int, help="how many, from 1 on")
    parser.add_argument("names", nargs="*", help="of bugs; all of them without any")
    parser.add_argument("--faults", default="all")
    parser.add_argument("--time", type=float, default=SECONDS)
    options = parser.parse_args(arguments)
    shape, faults = parse_shape(options.shape), parse_faults(options.faults)
    for name in options.names or ALL_BUGS:
        seeds = range(1, options.seeds + 1)
        finds = Counter(found_by(ALL_BUGS[name], seed, shape, options.time, faults) for seed in seeds)
        missed = finds.pop(None, 0)
        print(f"{name}: in {options.seeds - missed} of {options.seeds} seeds; {dict(finds.most_common())}", flush=True)


if __name__ == "__main__":
    main()
