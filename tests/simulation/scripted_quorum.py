"""A quorum that a script controls."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects import QuorumSubject
from jepsen.simulation.subjects.quorum import NO_SNAPSHOTS
from tests.simulation.scripted_run import ScriptedRun


@attrs.define(kw_only=True)
class ScriptedQuorum(ScriptedRun):
    """`subject` is the quorum with its dictionary."""

    subject: QuorumSubject

    @property
    def leader(self) -> str:
        assert self.cluster.leader is not None, "somebody was elected"
        return self.cluster.leader.name

    @property
    def epoch(self) -> int:
        return max(replica.epoch for replica in self.subject.replicas.by_host.values())

    def followers(self) -> list[str]:
        return [name for name in self.cluster.nodes if name != self.leader]

    def isolate(self, name: str) -> None:
        """Cut the node off from the others, but not from clients."""
        self.part(name, *(each for each in self.cluster.nodes if each != name))

    async def write(self, *values: str) -> None:
        """Write values to the present leader, each to its own key. Each write is given up after a second."""
        for value in values:
            with trio.move_on_after(1):
                await self.subject.ask(self.leader, "write", value, value)

    async def leads_another(self, than: str) -> None:
        """Wait until a node other than `than` is elected."""
        with trio.fail_after(30):
            while self.leader == than:
                await trio.sleep(0.05)


def play(
    script: Callable[[ScriptedQuorum], Awaitable[None]], voters: int = 3, seed: int = 1, spares: int = 0
) -> ScriptedQuorum:
    """Start a quorum of `voters`, with Kafka's default timeouts and without snapshots, and run the script.

    `spares` are replicas that do not vote at first.
    """
    simulation = Simulation(str(seed))
    subject = QuorumSubject(simulation, voters, voters + spares, {}, NO_SNAPSHOTS)
    stage = ScriptedQuorum(simulation=simulation, cluster=subject.cluster, subject=subject)

    async def prepared() -> None:
        await subject.prepare()
        await script(stage)

    stage.perform(subject.invariants(), prepared)
    return stage
