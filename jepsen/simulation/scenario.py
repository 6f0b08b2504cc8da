"""A complete run: nodes and clients with a nemesis for some time, then recovery without faults, then the verdict.

    verdict = Scenario(seed=7, seconds=60).run()

After the faults, everything is healed, and within bounded time everything has to work again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import attrs
import trio

from jepsen.simulation.clock import Deadlock
from jepsen.simulation.faults import FAULTS, Nemesis
from jepsen.simulation.invariants import Watch
from jepsen.simulation.scheduling import Livelock
from jepsen.simulation.shapes import ANY, Shape, subject_of
from jepsen.simulation.simulation import Simulation

# The time limits for a cluster to start without faults, and to recover fully after the faults.
START_SECONDS = 30.0
HEALING_SECONDS = 60.0


@attrs.frozen
class Verdict:
    """The result of a run. `digest` is the same for every run of the same seed and options."""

    seed: int
    shape: str
    digest: str
    violation: str | None
    virtual_seconds: float
    operations: Mapping[str, int]
    strikes: Mapping[str, int]
    steps: int
    segments: int
    tail: Sequence[str]


class Scenario:
    """One run of one seed. `faults` and `shape` are what the seed chooses from."""

    def __init__(
        self, seed: int, seconds: float = 60.0, faults: Sequence[str] = tuple(FAULTS), shape: Shape = ANY
    ) -> None:
        self.seed = seed
        self._seconds = seconds
        self.simulation = Simulation(str(seed))
        self.shape, self.subject = subject_of(self.simulation, shape)
        subject, chance = self.subject, self.simulation.rng("nemesis")
        self.nemesis = Nemesis(
            subject.cluster, subject.members, subject.administrator, subject.topic_administrator, faults, chance
        )
        self._scope = trio.CancelScope()
        self._violation: str | None = None
        Watch(self.simulation.trace, self.subject.invariants(), self._fail)

    def run(self) -> Verdict:
        """Run the scenario. Exceptions mean bugs in the simulator or a workload; all other failures are in
        the verdict.
        """
        try:
            self.simulation.run(self._main)
        except (Deadlock, Livelock) as error:
            self._fail(f"Liveness: {error}")
        trace = self.simulation.trace
        return Verdict(
            seed=self.seed,
            shape=self.shape,
            digest=trace.digest,
            violation=self._violation,
            virtual_seconds=self.simulation.clock.now,
            operations=self.subject.counts(),
            strikes=dict(self.nemesis.strikes),
            steps=trace.steps,
            segments=self.simulation.network.segments_sent,
            tail=[str(event) for event in trace.tail],
        )

    async def _main(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.subject.cluster.run)
                await self._in_time("start", START_SECONDS, self.subject.prepare)
                with trio.move_on_after(self._seconds):
                    await self._trouble()
                self.subject.cluster.heal()
                self.simulation.trace.event("nemesis", "healed", {})
                await self._in_time("healing", HEALING_SECONDS, self.subject.verify)
                nursery.cancel_scope.cancel()
        if self._violation is None:
            self._judge()

    async def _in_time(self, phase: str, seconds: float, task: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(seconds) as scope:
            await task()
        if scope.cancelled_caught:
            self._fail(f"Liveness: the {phase} takes more than {seconds} s")
            await trio.lowlevel.checkpoint()

    async def _trouble(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.nemesis.run)
            nursery.start_soon(self.subject.use)

    def _judge(self) -> None:
        for anomaly in self.subject.anomalies():
            self._fail(str(anomaly))
            return

    def _fail(self, violation: str) -> None:
        """End the run. Only the first violation is kept, because later ones may be consequences of it."""
        self._violation = self._violation or violation
        self._scope.cancel()
