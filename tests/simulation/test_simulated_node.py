"""The node keeps its promises while everything breaks: a handful of seeds; `python -m jepsen sim` runs any number."""

import pytest

from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario


@pytest.mark.parametrize("seed", range(1, 7))
def test_no_promise_is_broken(seed: int) -> None:
    verdict = Scenario(seed, seconds=20).run()
    assert verdict.violation is None
    assert verdict.operations["send ok"] > 0


def test_without_faults_everything_succeeds() -> None:
    verdict = Scenario(1, seconds=10, faults=()).run()
    assert verdict.violation is None
    assert verdict.strikes == {}
    assert verdict.operations.get("create-topic info", 0) <= 1  # what was under way at the end


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_strikes_and_is_survived(fault: str) -> None:
    verdict = Scenario(3, seconds=8, faults=[fault]).run()
    assert verdict.violation is None
