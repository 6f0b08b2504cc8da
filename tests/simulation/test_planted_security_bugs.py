"""Bugs in authentication and authorization must be found within few seeds."""

from typing import Final

import pytest

from jepsen.simulation.shapes import Shape
from tests.simulation.bug_search import found_by
from tests.support.security_bugs import SECURITY_BUGS

SECURITY = Shape(["security-3"])
SECONDS = 6.0
SEEDS_MAX = 3

_DECISIONS: Final = ["DeniedRequestsAreRefused", "AllowedRequestsAreServed"]
FOUND_BY: Final = {
    "deny ignored for prefixed patterns": ["DeniedRequestsAreRefused"],
    "decisions kept after ACLs change": _DECISIONS,
    "reused connection keeps its principal": [*_DECISIONS, "ConnectionsKeepTheirUsers"],
    "forwarded as the broker's principal": ["DeniedRequestsAreRefused", "TokensAreOfTheirOwners"],
    "SCRAM iterations lowered": ["CredentialsKeepTheirIterations"],
    "expired session served": ["OnlySessionsAreServed"],
}


@pytest.mark.parametrize("bug", SECURITY_BUGS)
def test_planted_security_bug_is_found(bug: str) -> None:
    finders = (found_by(SECURITY_BUGS[bug], seed, SECURITY, SECONDS, faults=()) for seed in range(1, SEEDS_MAX + 1))
    assert next(filter(None, finders), None) in FOUND_BY[bug]
