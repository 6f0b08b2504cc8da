"""Bugs in client quotas must be found by the first seed, and the right node must pass with and without faults."""

import pytest

from jepsen.simulation.scenario import Scenario
from jepsen.simulation.shapes import Shape
from tests.simulation.bug_search import found_by
from tests.support.quota_bugs import QUOTA_BUGS

QUOTAS = Shape(["quotas-3"])
SECONDS = 2.0

FOUND_BY = {
    "quota on the wrong principal": ["OtherClientsAreNotAffected", "LimitedClientsGetTheirQuotas"],
    "throttle answer sent late": ["ThrottledClientsAreAnsweredAtOnce"],
    "unmuted too early": ["ThrottleTimesAreKept", "LimitedClientsStayWithinTheirQuotas"],
    "window never resets": ["LimitedClientsStayWithinTheirQuotas"],
}


@pytest.mark.parametrize("bug", QUOTA_BUGS)
def test_planted_quota_bug_is_found(bug: str) -> None:
    assert found_by(QUOTA_BUGS[bug], 1, QUOTAS, SECONDS, faults=()) in FOUND_BY[bug]


def test_limited_clients_get_their_quotas_after_faults_while_other_quotas_change() -> None:
    verdict = Scenario(2, 8.0, shape=QUOTAS).run()
    assert verdict.violation is None
    assert verdict.strikes
