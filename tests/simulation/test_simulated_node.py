"""Promises hold under all faults, for a few seeds; `make soak` runs any number."""

import pytest

from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario
from jepsen.simulation.shapes import SHAPES, Shape

# Do nothing to a quorum without brokers.
FAULTS_OF_BROKERS = (
    *("isolate-partition-leader", "elect-leaders", "reassign", "configure", "lose-log-dir", "break-log-dir"),
    *("isolate-coordinator", "kill-coordinator", "data-bit-flip", "move-log-dir", "break-moving-log-dir"),
)
# Many seeds choose no fault if only one is allowed. This one lets any fault strike within 3 seconds.
FAULTY_SEED = 9


@pytest.mark.seeds(1, first=1)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_promise_is_broken(shape: str, seed: int) -> None:
    verdict = Scenario(seed, seconds=12, shape=Shape([shape])).run()
    assert verdict.violation is None
    assert sum(count for name, count in verdict.operations.items() if name.endswith(" ok")) > 0


@pytest.mark.parametrize("shape", ["quorum-3", "nodes-3"])
def test_without_faults_nothing_is_uncertain(shape: str) -> None:
    verdict = Scenario(1, seconds=8, faults=(), shape=Shape([shape])).run()
    assert verdict.violation is None
    assert verdict.strikes == {}
    assert verdict.operations.get("create-topic info", 0) <= 1  # the one in flight at the end


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_strikes_and_is_survived(fault: str) -> None:
    shape = "nodes-3" if fault in FAULTS_OF_BROKERS else "quorum-3"
    verdict = Scenario(FAULTY_SEED, seconds=3, faults=[fault], shape=Shape([shape])).run()
    assert verdict.violation is None
    assert verdict.strikes[fault] > 0
