"""The nodes that an application is simulated with. They have no clients of their own, besides those of faults."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, overload

import attrs
import trio

from broker.client import Admin, ClientError, KafkaError, NewTopic
from broker.node import Node
from broker.storage.offline_directories import NoLogDirOnline
from broker.wire.errors import ErrorCode
from jepsen.history import History
from jepsen.simulation.applications.committed_records import CommittedRecords
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.faults import Nemesis
from jepsen.simulation.faults.lies import QuorumMembers
from jepsen.simulation.invariants import (
    Committed,
    Invariant,
    Replicas,
    process_invariants,
    raft_invariants,
    replication_invariants,
)
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.data import node_on, observe_replicas
from jepsen.simulation.subjects.flipped_bits import FlippedBits
from jepsen.simulation.subjects.node_plan import CONTROLLER_PORT, KAFKA_PORT, LOG_DIRECTORIES, NodePlan, meta_property
from jepsen.simulation.subjects.topic_administrator import TopicMover
from jepsen.workloads.client import Client
from kraft.core import ReplicaKey

_ADMIN: Final = "admin"
_REPLICAS_MAX: Final = 3
_TIMEOUT_MS: Final = 5_000


def default_configs(nodes: int) -> dict[str, str]:
    """The configs in which the nodes differ from those of other simulations: topics are replicated, files not read."""
    replicas = str(min(nodes, _REPLICAS_MAX))
    in_sync = "2" if nodes >= _REPLICAS_MAX else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "3",
        "log.scrub.interval.ms": "604800000",
    }


class Nodes:
    """`count` nodes, each of them controller and broker. `configs` are configs of Kafka for all of them."""

    def __init__(self, simulation: Simulation, count: int, configs: Mapping[str, str]) -> None:
        self.simulation = simulation
        chance = simulation.rng("nodes")
        self._plan = NodePlan(count, 0, 0, chance, overrides={**default_configs(count), **configs})
        no_losses = {each.name: 0 for each in self._plan.nodes}
        self.cluster = Cluster(
            simulation, {each.name: self._plan.factory(each, no_losses) for each in self._plan.nodes}
        )
        self.committed = Committed({each.name: each.node_id for each in self._plan.brokers})
        self.records = CommittedRecords(self.committed, self._running)
        self._topics = _AllTopics(self.committed)
        self._replicas = Replicas()
        observe_replicas(simulation, self.committed, self._topics)
        self.cluster.add_client(_ADMIN)

    @property
    def bootstrap_servers(self) -> list[str]:
        return [f"{each.name}:{KAFKA_PORT}" for each in self._plan.brokers]

    def invariants(self) -> Sequence[Invariant]:
        """The promises of the nodes to any application."""
        return [
            *process_invariants(self.cluster.nodes, (OSError, NoLogDirOnline)),
            *raft_invariants(self._replicas),
            *replication_invariants(self.committed),
        ]

    def nemesis(self, faults: Sequence[str]) -> Nemesis:
        """A nemesis that injects a subset of the faults, which the seed chooses."""
        members = QuorumMembers(
            cluster_id=lambda: self._plan.cluster_id,
            names={each.node_id: each.name for each in self._plan.nodes},
            serving=[each.name for each in self._plan.controllers],
            port=CONTROLLER_PORT,
            replicas=self._replicas,
            key_of=self._key_of,
            founders_have_disks=not self._plan.is_static,
        )
        return Nemesis(self.cluster, members, _NoChanges(), self._mover(), faults, self.simulation.rng("nemesis"))

    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create topics, and wait until all brokers know them. Raises KafkaError if a topic cannot be created."""
        await self._as_admin(self._create_topics, topics)
        while topics and not self._know(topics):
            await trio.sleep(0.05)

    async def _create_topics(self, topics: Sequence[NewTopic]) -> None:
        client = self._client()
        async with _open_admin(client) as admin:
            for topic in topics:
                while True:
                    try:
                        (await admin.create_topics([topic])).raise_first()
                        break
                    except (KafkaError, ClientError) as error:
                        if isinstance(error, KafkaError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                            break
                        if not error.retriable:
                            raise
                        await client.back_off()

    def _know(self, topics: Sequence[NewTopic]) -> bool:
        running = self._running().values()
        return all(
            node.broker is not None and all(node.broker.partitions.topic(topic.name) is not None for topic in topics)
            for node in running
        )

    def _mover(self) -> TopicMover:
        flipped = FlippedBits(self.simulation, self.committed, self.cluster)
        access = _BrokerAccess(self._as_admin, self._client())
        return TopicMover(self.committed, self._topics, LOG_DIRECTORIES[:1], flipped, access)

    def _running(self) -> Mapping[int, Node]:
        found = {each.node_id: node_on(self.cluster.nodes[each.name]) for each in self._plan.nodes}
        return {node_id: node for node_id, node in found.items() if node is not None}

    def _key_of(self, name: str) -> ReplicaKey | None:
        directory_id = meta_property(self.cluster.nodes[name], "directory.id")
        node_id = next(each.node_id for each in self._plan.nodes if each.name == name)
        return None if directory_id is None else ReplicaKey(node_id, directory_id)

    def _client(self) -> Client:
        servers = [(each.name, KAFKA_PORT) for each in self._plan.brokers]
        history = History(self.simulation.clock.current_time, self.simulation.trace.operation)
        rng = self.simulation.rng(f"client/{_ADMIN}")
        return Client(_ADMIN, servers, history, rng, self.cluster.clients[_ADMIN].wall, lambda host: 0)

    async def _as_admin(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
        await self.simulation.on(self.cluster.clients[_ADMIN], task, *args)


def _open_admin(client: Client) -> Admin:
    return Admin(
        client.bootstrap_servers,
        client_id=client.name,
        environment=client.environment,
        default_api_timeout_ms=_TIMEOUT_MS,
    )


class _AllTopics(Sequence[str]):
    """The names of all topics in the latest metadata, sorted."""

    def __init__(self, committed: Committed) -> None:
        self._committed = committed
        self._of: object = None
        self._names: list[str] = []

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._latest()[index]

    def __len__(self) -> int:
        return len(self._latest())

    def _latest(self) -> list[str]:
        topics = self._committed.image.topics
        if topics is not self._of:
            self._of, self._names = topics, sorted(topics.by_name)
        return self._names


@attrs.frozen
class _BrokerAccess:
    """The access of `TopicMover` to brokers. None of the faults of applications takes a log directory away."""

    _as_admin: Callable[..., Awaitable[None]]
    _client: Client

    async def ask(self, task: Any, *args: Any) -> None:
        await self._as_admin(task, self._client, *args)

    def lose_logs(self, name: str, directory: str) -> None: ...

    def break_logs(self, name: str, directory: str) -> None: ...


class _NoChanges:
    """An administrator of the quorum that never finds a voter or a disk that can be spared."""

    async def change_voters(self, rng: Random) -> None: ...

    async def lose_disk(self, rng: Random) -> None: ...

    async def damage_disk(self, rng: Random) -> None: ...
