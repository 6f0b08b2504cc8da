"""A quorum on a stage: a script in the place of chance, with all invariants looking on."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from jepsen.simulation.invariants import Watch
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects import QuorumSubject
from jepsen.simulation.subjects.quorum import NO_SNAPSHOTS
from jepsen.simulation.trace import Event

# No script takes longer.
PLAY_SECONDS = 600.0


@attrs.define
class Stage:
    """`events` are all that were traced; `violation` is the first that an invariant saw, which ends the play."""

    simulation: Simulation
    subject: QuorumSubject
    events: list[Event] = attrs.field(factory=list)
    violation: str | None = None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def leader(self) -> str:
        assert self.subject.cluster.leader is not None, "somebody was elected"
        return self.subject.cluster.leader.name

    @property
    def epoch(self) -> int:
        return max(replica.epoch for replica in self.subject.replicas.by_host.values())

    def followers(self) -> list[str]:
        return [name for name in self.subject.cluster.nodes if name != self.leader]

    def isolate(self, *names: str) -> None:
        """These nodes are cut off from the others, though not from clients."""
        others = [each for each in self.subject.cluster.nodes if each not in names]
        for name in names:
            self.cut(name, *others)
        for other in others:
            self.cut(other, *names)

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

    def cut(self, source: str, *targets: str) -> None:
        """Nothing gets from one node to the others."""
        for target in targets:
            self.simulation.network.links.link(source, target).is_blocked = True

    def fail(self, violation: str) -> None:
        self.violation = self.violation or violation
        self.scope.cancel()


def play(script: Callable[[Stage], Awaitable[None]], voters: int = 3, seed: int = 1) -> Stage:
    """Have a quorum of `voters` start, with Kafka's default timeouts and without snapshots, and the script go on."""
    simulation = Simulation(str(seed))
    stage = Stage(simulation, QuorumSubject(simulation, voters, voters, {}, NO_SNAPSHOTS))
    simulation.trace.listeners.append(stage.events.append)
    Watch(simulation.trace, stage.subject.invariants(), stage.fail)

    async def main() -> None:
        with stage.scope, trio.move_on_after(PLAY_SECONDS) as time:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stage.subject.cluster.run)
                await stage.subject.prepare()
                await script(stage)
                nursery.cancel_scope.cancel()
        if time.cancelled_caught:
            stage.fail("Liveness: the play does not end")

    simulation.run(main)
    return stage
