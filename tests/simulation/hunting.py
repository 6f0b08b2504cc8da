"""How often planted bugs are found: `python -m tests.simulation.hunting quorum-3,quorum-5 100` tells for each.

With names behind that, only for those: see `tests.support.planted_bugs` and `replication_bugs`.
"""

import sys
from collections import Counter
from collections.abc import Sequence

from jepsen.simulation.command import parse_shape
from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario
from jepsen.simulation.shapes import Shape
from tests.support.planted_bugs import QUORUM_BUGS, PlantedBug
from tests.support.replication_bugs import REPLICATION_BUGS

SECONDS = 30.0
ALL_BUGS = {**QUORUM_BUGS, **REPLICATION_BUGS}


def found_by(
    bug: PlantedBug, seed: int, shape: Shape, seconds: float = SECONDS, faults: Sequence[str] = tuple(FAULTS)
) -> str | None:
    """The name of what notices the bug in a run; None where nothing does."""
    with bug.planted():
        violation = Scenario(seed, seconds, faults, shape).run().violation
    return violation.partition(":")[0] if violation is not None else None


def main(shape: str, seeds: str, *names: str) -> None:
    for name in names or ALL_BUGS:
        finds = Counter(found_by(ALL_BUGS[name], seed, parse_shape(shape)) for seed in range(1, int(seeds) + 1))
        missed = finds.pop(None, 0)
        print(f"{name}: in {int(seeds) - missed} of {seeds} seeds; {dict(finds.most_common())}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
