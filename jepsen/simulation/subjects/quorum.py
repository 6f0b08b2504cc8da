"""The quorum alone: a dictionary on a replicated log. Voters are added and removed, and lose their disks."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

import attrs
import trio

from jepsen.checkers import REGISTER_CHECKERS, Anomaly
from jepsen.history import History
from jepsen.simulation.cluster import Cluster, NodeFactory
from jepsen.simulation.faults.lies import QuorumMembers
from jepsen.simulation.invariants import Invariant, Replicas, process_invariants, raft_invariants
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.administrator import METADATA_ENDINGS, VoterAdministrator
from jepsen.simulation.subjects.register_node import (
    CHANGE_TIMEOUT_MS,
    CLIENT_PORT,
    DIRECTORY,
    RAFT_PORT,
    RegisterNode,
    RegisterNodeConfig,
)
from jepsen.simulation.trace import Event
from jepsen.workloads.registers import Keys, RegisterClient
from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.env import Env
from kraft.raft_node import RaftNodeConfig

CLUSTER_ID: Final = "simulated"
# Kafka's defaults, and timeouts that make elections ten times as frequent.
_TIMEOUTS_MS: Final[Sequence[Mapping[str, int]]] = (
    {},
    {"election_timeout_ms": 150, "fetch_timeout_ms": 300, "fetch_max_wait_ms": 75},
)
NO_SNAPSHOTS: Final = 1e9
_SNAPSHOT_SECONDS: Final = (1.0, 5.0, 30.0, NO_SNAPSHOTS)
# How often replicas add themselves to the voters.
_AUTO_JOIN_SHARE: Final = 0.4
# The time without faults at the end of a run, in which the quorum must not elect.
PEACE_SECONDS: Final = 10.0


@attrs.define
class _Member:
    """A replica. Each of its successive disks has a different directory id."""

    node_id: int
    name: str
    disks: int = 1

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, f"{self.name}-{self.disks}-".ljust(22, "A"))

    @property
    def voter(self) -> Voter:
        return Voter(self.key, f"{self.name}:{RAFT_PORT}")


class QuorumSubject:
    """`voters` of the `replicas` are the first voters, and the others may be added.

    The timeouts, the mean time between two snapshots of a node, and whether replicas add themselves to the voters
    (KIP-1186), are drawn by the seed unless they are given.
    """

    def __init__(
        self,
        simulation: Simulation,
        voters: int,
        replicas: int,
        timeouts_ms: Mapping[str, int] | None = None,
        snapshot_seconds: float | None = None,
        auto_join: bool | None = None,
    ) -> None:
        self.simulation, self.replicas = simulation, Replicas()
        rng = simulation.rng("subject")
        self._auto_join = simulation.rng("auto-join").random() < _AUTO_JOIN_SHARE if auto_join is None else auto_join
        self._members = {f"n{node_id}": _Member(node_id, f"n{node_id}") for node_id in range(1, replicas + 1)}
        self._founders = VoterSet(tuple(member.voter for member in list(self._members.values())[:voters]))
        timeouts_ms = rng.choice(_TIMEOUTS_MS) if timeouts_ms is None else timeouts_ms
        snapshot_seconds = rng.choice(_SNAPSHOT_SECONDS) if snapshot_seconds is None else snapshot_seconds
        self.cluster = Cluster(
            simulation,
            {name: self._factory(member, timeouts_ms, snapshot_seconds) for name, member in self._members.items()},
        )
        self.history = History(simulation.clock.current_time, simulation.trace.operation)
        self._keys = Keys()
        self._admin = self._client("admin")
        names = {member.node_id: member.name for member in self._members.values()}
        self.members = QuorumMembers(
            lambda: CLUSTER_ID, names, list(self._members), RAFT_PORT, self.replicas, self.key_of, True
        )
        self.administrator = self._make_administrator(names, voters)
        self.topic_administrator = None
        simulation.trace.listeners.append(self._replace_disk)

    def _make_administrator(self, names: Mapping[int, str], voters: int) -> VoterAdministrator:
        joining = list(self._members) if self._auto_join else []
        return VoterAdministrator(self.replicas, names, list(self._members)[:voters], [], self, joining)

    def invariants(self) -> Sequence[Invariant]:
        removals = self.administrator.removals if self._auto_join else None
        return [*process_invariants(self.simulation.hosts), *raft_invariants(self.replicas, removals)]

    async def prepare(self) -> None:
        await self.cluster.wait_serving()
        await self._until_done("write", "start", "up")

    async def use(self) -> None:
        rng = self.simulation.rng("workload")
        async with trio.open_nursery() as nursery:
            for number in range(rng.randint(2, 5)):
                client = self._client(f"c{number}")
                host = self.cluster.clients[client.name]
                nursery.start_soon(self.simulation.on, host, client.run, rng.choice((0.5, 3, 10)))

    async def verify(self) -> None:
        """Replace voters without a disk, wait until all replicas have the same state, and check that no election
        follows.
        """
        await self.cluster.wait_serving()
        await self.administrator.repair()
        await self._until_done("write", "healed", "up")
        await self._converge()
        self.simulation.trace.event("admin", "peace", {})
        await trio.sleep(PEACE_SECONDS)

    def counts(self) -> Mapping[str, int]:
        return self.history.counts()

    def anomalies(self) -> Iterator[Anomaly]:
        for checker in REGISTER_CHECKERS:
            yield from checker.check(self.history)

    # The administrator's access to the nodes

    def key_of(self, name: str) -> ReplicaKey:
        return self._members[name].key

    def lose_disk(self, name: str) -> None:
        member = self._members[name]
        lost = member.key
        member.disks += 1
        host = self.cluster.nodes[name]
        self.cluster.lose_disk(host, "/", node=lost.node_id, directory_id=lost.directory_id)

    def damage_disk(self, name: str, rng: Random) -> None:
        self.cluster.damage_disk(self.cluster.nodes[name], DIRECTORY, METADATA_ENDINGS, rng)

    def is_serving(self, name: str) -> bool:
        return self.cluster.nodes[name].is_serving

    def _replace_disk(self, event: Event) -> None:
        name = self.administrator.replaces(event)
        if name is not None:
            self.simulation.clock.after(0, self.lose_disk, name)

    async def change(self, function: str, name: str, key: ReplicaKey, give_up: float) -> None:
        address = self._members[name].voter.address
        await self._until_done(function, "", key.node_id, key.directory_id, address, give_up)

    async def wait_settled(self) -> None:
        await trio.sleep(CHANGE_TIMEOUT_MS / 1000)

    async def _converge(self) -> None:
        while True:
            states = [await self.ask(name, "status", "") for name in self._members]
            if all(state == states[0] for state in states):
                return
            await trio.sleep(0.1)

    async def ask(self, name: str, *question: object) -> object:
        """Send one node a request until it succeeds."""
        client = attrs.evolve(self._admin, servers=[(name, CLIENT_PORT)])
        return await self.simulation.on(self.cluster.clients["admin"], client.until_done, *question)

    async def _until_done(self, *question: object) -> object:
        return await self.simulation.on(self.cluster.clients["admin"], self._admin.until_done, *question)

    def _client(self, name: str) -> RegisterClient:
        self.cluster.add_client(name)
        servers = [(each, CLIENT_PORT) for each in self._members]
        return RegisterClient(name, servers, self.history, self.simulation.rng(f"client/{name}"), self._keys)

    def _factory(self, member: _Member, timeouts_ms: Mapping[str, int], snapshot_seconds: float) -> NodeFactory:
        def make(env: Env) -> RegisterNode:
            is_founder = member.voter in self._founders.voters
            others = tuple(each.voter.address for each in self._members.values() if each is not member)
            config = QuorumConfig(member.key, member.voter.address, others, auto_join=self._auto_join, **timeouts_ms)
            driver = RaftNodeConfig(config, CLUSTER_ID, self._founders if is_founder else VoterSet())
            return RegisterNode(env, RegisterNodeConfig(driver, member.name, snapshot_seconds))

        return make
