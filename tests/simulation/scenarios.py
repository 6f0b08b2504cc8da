"""Scripts that show a rule of replication: nothing breaks where they are played, unless the rule is taken out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest

from tests.simulation.replication_staging import ReplicaStage, play
from tests.support.replication_bugs import REPLICATION_BUGS


@attrs.frozen
class Scenario:
    """A script, and what must break once which rule is taken out; the bugs are named as in `REPLICATION_BUGS`."""

    script: Callable[[ReplicaStage], Awaitable[None]]
    bugs: Mapping[str, Sequence[str]]


def showings(*scenarios: Scenario) -> Any:
    """Every scenario as the product plays it, and again with each of its bugs: a test takes script, bug and `by`."""
    cases = []
    for scenario in scenarios:
        name = scenario.script.__name__.replace("_", "-")
        cases.append(pytest.param(scenario.script, None, (), id=name))
        cases += [pytest.param(scenario.script, bug, by, id=f"{name}-{bug}") for bug, by in scenario.bugs.items()]
    return pytest.mark.parametrize(("script", "bug", "by"), cases)


def show(script: Callable[[ReplicaStage], Awaitable[None]], bug: str | None, by: Sequence[str]) -> None:
    """Nothing breaks without a bug, and one of what `by` names with it."""
    if bug is None:
        assert play(script).violation is None
        return
    with REPLICATION_BUGS[bug].planted():
        violation = play(script).violation
    assert violation is not None
    assert violation.partition(":")[0] in by
