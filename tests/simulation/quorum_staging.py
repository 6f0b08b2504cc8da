"""A quorum on a stage."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects import QuorumSubject
from jepsen.simulation.subjects.quorum import NO_SNAPSHOTS
from tests.simulation.staging import Stage


@attrs.define(kw_only=True)
class QuorumStage(Stage):
    """`subject` is the quorum under its dictionary."""

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
        """The node is cut off from the others, though not from clients."""
        self.part(name, *(each for each in self.cluster.nodes if each != name))

    async def write(self, *values: str) -> None:
        """Have the leader of the time commit values, each under its own name; one is given up after a second."""
        for value in values:
            with trio.move_on_after(1):
                await self.subject.ask(self.leader, "write", value, value)

    async def leads_another(self, than: str) -> None:
        """Wait until a node was elected that is not that one."""
        with trio.fail_after(30):
            while self.leader == than:
                await trio.sleep(0.05)


def play(script: Callable[[QuorumStage], Awaitable[None]], voters: int = 3, seed: int = 1) -> QuorumStage:
    """Have a quorum of `voters` start, with Kafka's default timeouts and without snapshots, and the script go on."""
    simulation = Simulation(str(seed))
    subject = QuorumSubject(simulation, voters, voters, {}, NO_SNAPSHOTS)
    stage = QuorumStage(simulation=simulation, cluster=subject.cluster, subject=subject)

    async def prepared() -> None:
        await subject.prepare()
        await script(stage)

    stage.perform(subject.invariants(), prepared)
    return stage
