"""Scripts that show a rule of replication: they pass, unless a planted bug removes the rule."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext

import attrs
import pytest

from jepsen.simulation.subjects.node_plan import LOG_DIRECTORIES
from tests.simulation.scripted_replicas import ScriptedReplicas, play
from tests.support.replication_bugs import REPLICATION_BUGS


@attrs.frozen
class Breach:
    """The consequences of a missing rule: `harm` to a client, and the invariants that detect it earlier.

    With several invariants, the timing decides which of them detects it first.
    """

    harm: str
    seen_by: Sequence[str] = ()


@attrs.frozen
class Scenario:
    """A script, and the expected violation for each bug that removes a rule; bugs are named as in `REPLICATION_BUGS`.

    Without `is_watched`, the invariants do not apply to the script and are not checked. `log_directories` are those of
    each node.
    """

    script: Callable[[ScriptedReplicas], Awaitable[None]]
    bugs: Mapping[str, Breach]
    is_watched: bool = True
    log_directories: Sequence[str] = LOG_DIRECTORIES[:1]


@attrs.frozen
class ScenarioRun:
    """One run of a scenario, with or without a bug."""

    scenario: Scenario
    bug: str | None = None
    is_watched: bool = True

    @property
    def name(self) -> str:
        name = self.scenario.script.__name__.replace("_", "-")
        return name if self.bug is None else f"{name}: {self.bug}, {'watched' if self.is_watched else 'unwatched'}"

    def violation(self, seed: int = 1) -> str | None:
        """The name of the violated promise or invariant; None if the run passes."""
        script, directories = self.scenario.script, self.scenario.log_directories
        with nullcontext() if self.bug is None else REPLICATION_BUGS[self.bug].planted():
            violation = play(script, seed=seed, is_watched=self.is_watched, log_directories=directories).violation
        return None if violation is None else violation.partition(":")[0]

    @property
    def expected(self) -> Sequence[str | None]:
        """The permitted values of `violation`."""
        if self.bug is None:
            return (None,)
        breach = self.scenario.bugs[self.bug]
        return breach.seen_by if self.is_watched else (breach.harm,)


def scenario_runs(*scenarios: Scenario) -> pytest.MarkDecorator:
    """Each scenario without a bug, and with each of its bugs: once until a client is harmed, and once with
    invariants.
    """
    runs = []
    for scenario in scenarios:
        runs.append(ScenarioRun(scenario, is_watched=scenario.is_watched))
        for bug, breach in scenario.bugs.items():
            runs.append(ScenarioRun(scenario, bug, is_watched=False))
            if breach.seen_by:
                runs.append(ScenarioRun(scenario, bug))
    return pytest.mark.parametrize("scenario_run", [pytest.param(each, id=each.name) for each in runs])
