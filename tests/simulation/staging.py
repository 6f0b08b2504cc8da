"""A quorum on a stage: a script in the place of chance, with all invariants looking on."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from jepsen.simulation.invariants import Watch
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects import QuorumSubject
from jepsen.simulation.trace import Event


@attrs.define
class Stage:
    """`events` are all that were traced; `violation` is the first that an invariant saw."""

    simulation: Simulation
    subject: QuorumSubject
    events: list[Event] = attrs.field(factory=list)
    violation: str | None = None

    @property
    def leader(self) -> str:
        assert self.subject.cluster.leader is not None, "somebody was elected"
        return self.subject.cluster.leader.name

    @property
    def epoch(self) -> int:
        return max(replica.epoch for replica in self.subject.replicas.by_host.values())

    def followers(self) -> list[str]:
        return [name for name in self.subject.cluster.nodes if name != self.leader]

    def cut(self, source: str, *targets: str) -> None:
        """Nothing gets from one node to the others."""
        for target in targets:
            self.simulation.network.links.link(source, target).is_blocked = True

    def _fail(self, violation: str) -> None:
        self.violation = self.violation or violation


def play(script: Callable[[Stage], Awaitable[None]], voters: int = 3, seed: int = 1) -> Stage:
    """Have a quorum of `voters` start, with Kafka's default timeouts, and the script go on."""
    simulation = Simulation(str(seed))
    stage = Stage(simulation, QuorumSubject(simulation, voters, voters, timeouts_ms={}))
    simulation.trace.listeners.append(stage.events.append)
    Watch(simulation.trace, stage.subject.invariants(), stage._fail)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.subject.cluster.run)
            await stage.subject.prepare()
            await script(stage)
            nursery.cancel_scope.cancel()

    simulation.run(main)
    return stage
