"""A quorum that a script controls."""

from collections.abc import Awaitable, Callable

import attrs
import trio

from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects import QuorumSubject
from jepsen.simulation.subjects.quorum import NO_SNAPSHOTS
from kraft.core import ReplicaKey
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

    def voters(self) -> list[ReplicaKey]:
        """The voters that the leader knows, committed or not."""
        return [ReplicaKey(*each) for each in self.subject.replicas.by_host[self.leader].voters]

    async def all_vote(self) -> None:
        """Wait until all replicas are voters with their present disks, and their set is committed. Fail after 60 s."""
        wanted = [self.subject.key_of(name) for name in self.cluster.nodes]
        with trio.move_on_after(60) as time:
            while self.voters() != wanted or not self._are_voters_committed():
                await trio.sleep(0.05)
        if time.cancelled_caught:
            self.fail(f"Liveness: the voters are {self.voters()}, not {wanted}")

    def _are_voters_committed(self) -> bool:
        leader = self.subject.replicas.by_host[self.leader]
        return leader.voters_offset < leader.committed_end_offset

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
    script: Callable[[ScriptedQuorum], Awaitable[None]],
    voters: int = 3,
    seed: int = 1,
    spares: int = 0,
    *,
    auto_join: bool = False,
) -> ScriptedQuorum:
    """Start a quorum of `voters`, with Kafka's default timeouts and without snapshots, and run the script.

    `spares` are replicas that do not vote at first. With `auto_join`, replicas add themselves to the voters.
    """
    simulation = Simulation(str(seed))
    subject = QuorumSubject(simulation, voters, voters + spares, {}, NO_SNAPSHOTS, auto_join)
    stage = ScriptedQuorum(simulation=simulation, cluster=subject.cluster, subject=subject)

    async def prepared() -> None:
        await subject.prepare()
        await script(stage)

    stage.perform(subject.invariants(), prepared)
    return stage
