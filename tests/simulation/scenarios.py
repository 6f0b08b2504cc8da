"""Scripts that show a rule of replication: nothing breaks where they are played, unless the rule is taken out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext

import attrs
import pytest

from tests.simulation.replication_staging import ReplicaStage, play
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
    """A script, and what breaks once which rule is taken out; the bugs are named as in `REPLICATION_BUGS`.

    `is_watched` says that the invariants may look on.
    """

    script: Callable[[ReplicaStage], Awaitable[None]]
    bugs: Mapping[str, Breach]
    is_watched: bool = True


@attrs.frozen
class Showing:
    """One play of a scenario: as the product is, or with a bug."""

    scenario: Scenario
    bug: str | None = None
    is_watched: bool = True

    @property
    def name(self) -> str:
        name = self.scenario.script.__name__.replace("_", "-")
        return name if self.bug is None else f"{name}: {self.bug}, {'watched' if self.is_watched else 'unwatched'}"

    def violation(self, seed: int = 1) -> str | None:
        """The name of what was broken."""
        with nullcontext() if self.bug is None else REPLICATION_BUGS[self.bug].planted():
            violation = play(self.scenario.script, seed=seed, is_watched=self.is_watched).violation
        return None if violation is None else violation.partition(":")[0]

    @property
    def expected(self) -> Sequence[str | None]:
        """The permitted values of `violation`."""
        if self.bug is None:
            return (None,)
        breach = self.scenario.bugs[self.bug]
        return breach.seen_by if self.is_watched else (breach.harm,)


def showings(*scenarios: Scenario) -> pytest.MarkDecorator:
    """Every scenario as the product plays it, and again with each of its bugs: until it comes to harm, and watched."""
    plays = []
    for scenario in scenarios:
        plays.append(Showing(scenario, is_watched=scenario.is_watched))
        for bug, breach in scenario.bugs.items():
            plays.append(Showing(scenario, bug, is_watched=False))
            if breach.seen_by:
                plays.append(Showing(scenario, bug))
    return pytest.mark.parametrize("showing", [pytest.param(each, id=each.name) for each in plays])
