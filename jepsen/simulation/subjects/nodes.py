"""Complete nodes, unmodified `broker.node.Node` objects, with clients that use Kafka's protocol."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

import attrs
import trio

from broker.coordinator.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from broker.node.metadata_directory import METADATA_DIRECTORY as METADATA_LOG
from broker.storage.offline_directories import NoLogDirOnline
from broker.wire.api.metadata import MetadataRequest
from jepsen.checkers import ACKS_ONE_CHECKERS, GROUP_CHECKERS, QUEUE_CHECKERS, TOPIC_CHECKERS, Anomaly
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
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
from jepsen.simulation.subjects.administrator import METADATA_ENDINGS, VoterAdministrator
from jepsen.simulation.subjects.data import (
    DescribedPartition,
    are_all_in_sync,
    described_partitions,
    observe_replicas,
    replica_log,
    wait_in_place,
)
from jepsen.simulation.subjects.flipped_bits import FlippedBits
from jepsen.simulation.subjects.groups import Groups, groups_of, offsets_topic
from jepsen.simulation.subjects.load import SPECIAL_LOAD, SpecialLoad, default_load
from jepsen.simulation.subjects.node_plan import (
    CONTROLLER_PORT,
    KAFKA_PORT,
    LOG_DIRECTORIES,
    METADATA_DIRECTORY,
    NodePlan,
    meta_property,
)
from jepsen.simulation.subjects.shares import SHARE_CONFIGS
from jepsen.simulation.subjects.special_clients import special_clients
from jepsen.simulation.subjects.subject import SpecialClients
from jepsen.simulation.subjects.topic_administrator import TopicMover
from jepsen.simulation.trace import Event
from jepsen.values import ReplicaRead, WantedTopic
from jepsen.workloads.acks_one_producer import produce_with_acks_one
from jepsen.workloads.administration import add_voter, is_anything_moving, remove_voter
from jepsen.workloads.client import METADATA_VERSION, Client
from jepsen.workloads.consumer import consume, read_all
from jepsen.workloads.group_churn import audit, churn_members, stay
from jepsen.workloads.group_member import TopicPartition
from jepsen.workloads.library_producer import produce_with_library
from jepsen.workloads.producer import Producer, produce_to_all
from jepsen.workloads.shared_topics import Generations, contend
from jepsen.workloads.topics import churn_topics, create_topic, seen_topics
from kraft.core import ReplicaKey

T = TypeVar("T")

# The time without faults at the end of a run, in which the quorum must not elect.
PEACE_SECONDS: Final = 10.0
# The longest time for which the network, or retrying brokers, may delay a request whose client has given up.
SETTLED_SECONDS: Final = 35.0
# Configs of nodes under special clients.
_CONFIGS: Final[Mapping[SpecialLoad | None, Mapping[str, str]]] = {SpecialLoad.SHARES: SHARE_CONFIGS}


class NodesSubject:
    """Clients create and delete topics, produce and consume records, and join groups; `verify` reads all records.

    With a `special` load, most of them are of that kind instead.
    """

    def __init__(
        self,
        simulation: Simulation,
        combined: int,
        controllers: int = 0,
        brokers: int = 0,
        *,
        special: SpecialLoad | None = None,
    ) -> None:
        self.simulation, self.replicas = simulation, Replicas()
        chance = simulation.rng("subject")
        disks = LOG_DIRECTORIES[: 1 if combined == 1 else chance.choice((1, 2))]
        is_secured, configs = special is SpecialLoad.SECURITY, _CONFIGS.get(special)
        self._plan = plan = NodePlan(combined, controllers, brokers, chance, disks, configs, is_secured=is_secured)
        self._disks_lost = {each.name: 0 for each in plan.nodes}
        self.cluster = Cluster(simulation, {each.name: plan.factory(each, self._disks_lost) for each in plan.nodes})
        self.history = History(simulation.clock.current_time, simulation.trace.operation)
        names = {each.node_id: each.name for each in plan.controllers}
        self.administrator = VoterAdministrator(self.replicas, names, [*names.values()], plan.configured_voters, self)
        simulation.trace.listeners.append(self._replace_disk)
        self._host_names: dict[str, str] = {}
        self._load = SPECIAL_LOAD if special is not None else default_load(len(plan.nodes), len(plan.brokers))
        self.committed = Committed({each.name: each.node_id for each in plan.brokers})
        self._special = None if special is None else self._special_clients(special)
        self._flipped = FlippedBits(simulation, self.committed, self.cluster)
        self.topic_administrator = self._show_data() if len(plan.brokers) > 1 else None
        self._groups = Groups([], {})
        # The history of sends with acks=1, which may be lost.
        self._acks_one_history = History(simulation.clock.current_time, simulation.trace.operation)
        self._admin, self._mover, self._mover_is_busy = self._client("admin"), self._client("mover"), trio.Lock()

    def _special_clients(self, special: SpecialLoad) -> SpecialClients:
        brokers = [each.name for each in self._plan.brokers]
        return special_clients(special, self.simulation, brokers, self._client, self._address_of)

    def _show_data(self) -> TopicMover:
        """Trace the replicas of all topics. Returns the administrator of those that exist from the start."""
        topics = [topic.name for topic in self._load.topics]
        if self._special is None:
            topics.append(CONSUMER_OFFSETS)
        else:
            topics += [topic.name for topic in self._special.topics]
        observe_replicas(self.simulation, self.committed, [*topics, self._load.late.name])
        # Passes do not read what was deleted from the front of a log, and no reader does.
        kept = [topic for topic in topics if topic != SHARE_GROUP_STATE]
        self._flipped.watch(kept, self._plan.log_directories)
        return TopicMover(self.committed, topics, self._plan.log_directories, self._flipped, self)

    @property
    def members(self) -> QuorumMembers:
        return QuorumMembers(
            self._cluster_id,
            {each.node_id: each.name for each in self._plan.nodes},
            [each.name for each in self._plan.controllers],
            CONTROLLER_PORT,
            self.replicas,
            self.key_of,
            not self._plan.is_static,
        )

    def invariants(self) -> Sequence[Invariant]:
        return [
            *process_invariants(self.simulation.hosts, (OSError, NoLogDirOnline)),
            *raft_invariants(self.replicas),
            *replication_invariants(self.committed),
            *self._flipped.invariants(),
        ]

    async def prepare(self) -> None:
        await self.cluster.wait_serving()
        client = self._client("setup")
        topics, rng = list(self._load.topics), self.simulation.rng("groups")
        if self._special is not None:
            topics += self._special.topics
        if self._load.grouped:
            topics.append(offsets_topic(len(self._plan.brokers), rng))
        for topic in topics:
            while not await self._as(client, create_topic, client, topic):
                await client.back_off()
        if self._load.grouped:
            self._groups = groups_of(self._load, self.committed, rng)
        if self._special is not None:
            await self._special.prepare(self._as, self.committed)

    async def use(self) -> None:
        rng, load = self.simulation.rng("workload"), self._load
        async with trio.open_nursery() as nursery:
            for number in range(rng.randint(*load.producers)):
                per_second = rng.choice(load.produced_per_second)
                self._start(nursery, self._client(f"p{number}"), produce_to_all, list(load.partitions()), per_second)
                for topic, index in load.partitions(acks_one=True):
                    client = self._acks_one_client(self._client(f"h{number}-{topic}-{index}", f"p{number}"))
                    self._start(nursery, client, produce_with_acks_one, topic, index, per_second)
            self._start_library_clients(nursery)
            if self._special is not None:
                self._special.start(self._start, nursery)
            for topic, index in (*load.partitions(), *load.partitions(acks_one=True)):
                if rng.random() < load.readers:
                    client = self._client(f"r-{topic}-{index}", "readers")
                    client = self._acks_one_client(client) if topic in load.acks_one_topics else client
                    self._start(nursery, client, consume, topic, index)
            generations, per_second = Generations(), rng.choice(load.contended_per_second)
            for number in range(rng.randint(*load.contenders)):
                self._start(nursery, self._client(f"s{number}", port=CONTROLLER_PORT), contend, generations, per_second)
            per_second = rng.choice(load.churned_per_second)
            self._start(nursery, self._client("churn"), churn_topics, per_second, load.churned_partitions, load.deleted)
            self._start(nursery, self._client("late"), self._begin_late, rng.uniform(0, 60))
            for name, place in self._groups.places.items():
                self._start(nursery, self._client(name, place.group.name), churn_members, place)
            for group in self._groups.groups:
                self._start(nursery, self._client(f"{group.name}.audit", group.name), audit, group)

    def _start_library_clients(self, nursery: trio.Nursery) -> None:
        rng, load = self.simulation.rng("library"), self._load
        for number in range(rng.randint(*load.library_producers)):
            per_second = rng.choice(load.produced_per_second)
            self._start(nursery, self._client(f"l{number}"), produce_with_library, list(load.partitions()), per_second)
        for name, place in self._groups.library_places(rng).items():
            self._start(nursery, self._client(name, place.group.name), churn_members, place)

    async def _begin_late(self, client: Client, after_seconds: float) -> None:
        """Create a topic while faults occur, and produce to it as soon as its creation is acknowledged."""
        await trio.sleep(after_seconds)
        while not await create_topic(client, self._load.late):
            await client.back_off()
        await produce_to_all(client, [(self._load.late.name, 0)], self._load.late_per_second)

    async def verify(self) -> None:
        """Check that everything works again, and read all records."""
        await self.cluster.wait_serving()
        async with trio.open_nursery() as members:
            self._groups.forget()
            for name, place in self._groups.places.items():
                self._start(members, self._client(f"{name}.last", place.group.name), stay, place)
            ends = await self._verify_topics()
            if self._special is not None:
                await self._special.verify(self._start, self._as, self.committed)
            await self._groups.wait_reached(ends)
            members.cancel_scope.cancel()
        await self._wait_all_caught_up()
        self.simulation.trace.event("admin", "peace", {})
        await trio.sleep(PEACE_SECONDS)

    async def _verify_topics(self) -> dict[TopicPartition, int]:
        """Wait until all topics are in order, and read them. Returns the end offset of each partition."""
        await self.administrator.repair()
        client = self._client("final")
        serial = 0
        while not await self._as(client, create_topic, client, WantedTopic(f"healed-{serial}", 3, is_flushed=True)):
            serial += 1
            await client.back_off()
        await self._converge(f"healed-{serial}")
        while len(self._plan.brokers) > 1 and await self._as(client, is_anything_moving, client):
            await client.back_off()
        await wait_in_place([self.cluster.nodes[each.name] for each in self._plan.brokers], self._plan.log_directories)
        await self._flipped.wait_repaired()
        seen = await self._as(client, seen_topics, client)
        ends = {}
        for topic in (*self._load.topics, self._load.late):
            for index in range(topic.partitions if topic.name in seen else 0):
                reader = self._acks_one_client(client) if topic.name in self._load.acks_one_topics else client
                records = await self._as(client, self._write_and_read, reader, topic.name, index)
                ends[topic.name, index] = records[-1][0] + 1 if records else 0
                await self._read_replicas(topic.name, index)
        return ends

    async def _wait_all_caught_up(self) -> None:
        """Wait until every node has all committed metadata. A controller may take long to detect a dead connection."""
        committed = self.replicas.committed_end_offset
        while any(self.replicas.by_host[node.name].committed_end_offset < committed for node in self._plan.nodes):
            await trio.sleep(0.1)

    async def _converge(self, name: str) -> None:
        """Wait until all brokers report all brokers and the same topics, including `name`.

        Then all partitions also have leaders, and all their replicas are in sync.
        """
        while True:
            told = [await self._describe_topics(node.name) for node in self._plan.brokers]
            topics, brokers = told[0]
            is_whole = (
                name in topics
                and brokers == len(self._plan.brokers)
                and all(are_all_in_sync(partitions) for _, partitions in topics.values())
            )
            if is_whole and all(each == told[0] for each in told):
                return
            await trio.sleep(0.1)

    async def _describe_topics(
        self, broker: str
    ) -> tuple[dict[str | None, tuple[bytes, Sequence[DescribedPartition]]], int]:
        """The partitions of each topic, and the number of brokers, according to `broker`."""
        client = attrs.evolve(self._admin, servers=[(broker, KAFKA_PORT)])
        request = MetadataRequest(topics=None)
        response, _ = await self._as(self._admin, client.call_until_answered, request, METADATA_VERSION)
        await client.aclose()
        return {topic.name: (topic.topic_id, described_partitions(topic)) for topic in response.topics}, len(
            response.brokers
        )

    async def _write_and_read(self, client: Client, topic: str, index: int) -> list[tuple[int, str]]:
        producer = Producer(attrs.evolve(client, name=f"{client.name}.{topic}-{index}"), topic, index, 100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(producer.run)
            await producer.acknowledged.wait()
            nursery.cancel_scope.cancel()
        return await read_all(client, topic, index)

    async def _read_replicas(self, topic: str, index: int) -> None:
        """Record every broker's replica of a partition, once all replicas have the same high watermark."""
        names = [node.name for node in self._plan.brokers] if len(self._plan.brokers) > 1 else []
        while True:
            logs = {name: replica_log(self.cluster.nodes[name], topic, index) for name in names}
            there = {name: log for name, log in logs.items() if log is not None}
            if len({log.high_watermark for log in there.values()}) <= 1:
                break
            await trio.sleep(0.1)
        for name, log in there.items():
            read = self.history.invoke(self._admin.name, "read-replica", ReplicaRead(topic, index, name))
            self.history.ok(read, log)

    def counts(self) -> Mapping[str, int]:
        histories = [self.history, self._acks_one_history]
        if self._special is not None:
            histories.append(self._special.history)
        return sum((Counter(history.counts()) for history in histories), Counter())

    def anomalies(self) -> Iterator[Anomaly]:
        for checker in (*TOPIC_CHECKERS, *QUEUE_CHECKERS, *GROUP_CHECKERS):
            yield from filter(self._flipped.is_unexpected, checker.check(self.history))
        for checker in ACKS_ONE_CHECKERS:
            yield from filter(self._flipped.is_unexpected, checker.check(self._acks_one_history))
        if self._special is not None:
            yield from filter(self._flipped.is_unexpected, self._special.anomalies(self.committed))
        yield from self._flipped.anomalies()

    # Access for the administrators

    def key_of(self, name: str) -> ReplicaKey | None:
        directory_id = meta_property(self.cluster.nodes[name], "directory.id")
        return (
            None
            if directory_id is None
            else ReplicaKey(next(each.node_id for each in self._plan.nodes if each.name == name), directory_id)
        )

    def _cluster_id(self) -> str:
        """The cluster id. A single node generates its own, which is read from its disk."""
        return meta_property(self.cluster.nodes[self._plan.nodes[0].name], "cluster.id") or self._plan.cluster_id

    def lose_disk(self, name: str) -> None:
        key = self.key_of(name)
        assert key is not None, "a disk that is there"
        self._disks_lost[name] += 1
        host = self.cluster.nodes[name]
        self.cluster.lose_disk(host, METADATA_DIRECTORY, node=key.node_id, directory_id=key.directory_id)

    def damage_disk(self, name: str, rng: Random) -> None:
        self.cluster.damage_disk(
            self.cluster.nodes[name], f"{METADATA_DIRECTORY}/{METADATA_LOG}", METADATA_ENDINGS, rng
        )

    def lose_logs(self, name: str, directory: str) -> None:
        host = self.cluster.nodes[name]
        if not host.volume.is_damaged:
            self.cluster.lose_logs(host, directory)

    def break_logs(self, name: str, directory: str) -> None:
        self.cluster.nodes[name].volume.broken = (directory,)

    async def ask(self, task: Callable[..., Awaitable[None]], *args: Any) -> None:
        async with self._mover_is_busy:
            await self._as(self._mover, task, self._mover, *args)

    def is_serving(self, name: str) -> bool:
        return self.cluster.nodes[name].is_serving

    def _replace_disk(self, event: Event) -> None:
        name = self.administrator.replaces(event)
        if name is not None:
            self.simulation.clock.after(0, self.lose_disk, name)

    async def change(self, function: str, name: str, key: ReplicaKey, give_up: float) -> None:
        if function == "add-voter":
            address = (name, CONTROLLER_PORT)
            await self._as(self._admin, add_voter, self._admin, key.node_id, key.directory_id, address)
        else:
            await self._as(self._admin, remove_voter, self._admin, key.node_id, key.directory_id)

    async def wait_settled(self) -> None:
        await trio.sleep(SETTLED_SECONDS)

    def _client(self, name: str, host: str | None = None, port: int = KAFKA_PORT) -> Client:
        host = self._host_names[name] = host or name
        if host not in self.cluster.clients:
            self.cluster.add_client(host)
        nodes = self._plan.controllers if port == CONTROLLER_PORT else self._plan.brokers
        servers = [(node.name, port) for node in nodes]
        rng = self.simulation.rng(f"client/{name}")
        wall = self.cluster.clients[host].wall
        incarnations = self.cluster.power_cuts.__getitem__
        return Client(name, servers, self.history, rng, wall, incarnations, self.committed.incarnation)

    def _address_of(self, client: Client) -> str:
        return self.cluster.clients[self._host_names[client.name]].address

    def _acks_one_client(self, client: Client) -> Client:
        """The same client with the history of acks=1, which is checked separately."""
        return attrs.evolve(client, history=self._acks_one_history)

    async def _as(self, client: Client, task: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a client's task on the client's machine."""
        return await self.simulation.on(self.cluster.clients[self._host_names[client.name]], task, *args)

    def _start(self, nursery: trio.Nursery, client: Client, task: Callable[..., Awaitable[object]], *args: Any) -> None:
        nursery.start_soon(self._as, client, task, client, *args, name=f"client {client.name}")
