"""A run of the whole: nodes, clients and a nemesis for a while, then peace, and the judgement.

    verdict = Scenario(seed=7, seconds=60, faults=tuple(FAULTS)).run()

The nodes are `broker.node.Node`, unmodified. After the troubles everything is healed, and within bounded time every
node has to serve, to create topics, and to take and return records.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import trio

from broker.config import read_config
from broker.node import Node
from jepsen.checkers import QUEUE_CHECKERS, TOPIC_CHECKERS
from jepsen.history import History
from jepsen.simulation.clock import Stuck
from jepsen.simulation.cluster import Cluster, NodeFactory
from jepsen.simulation.faults import FAULTS, Nemesis
from jepsen.simulation.invariants import Watch, node_invariants
from jepsen.simulation.simulation import Simulation
from jepsen.workloads.client import Client
from jepsen.workloads.consumer import consume, read_all
from jepsen.workloads.producer import produce_to_all
from jepsen.workloads.topics import WantedTopic, churn_topics, create_topic, seen_topics

T = TypeVar("T")

KAFKA_PORT = 9092
CONTROLLER_PORT = 9093
# Until a cluster serves that nothing troubles; and until it does all it should, after the troubles.
START_SECONDS = 30.0
HEALING_SECONDS = 60.0
# Periodic work is done so often that it meets the troubles.
_CONFIG: Mapping[str, str] = {
    "log.dirs": "/var/kafka",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "3000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
}


@attrs.frozen
class Verdict:
    """How a run went. `digest` is the same for every run of the same seed and options."""

    seed: int
    digest: str
    violation: str | None
    virtual_seconds: float
    operations: Mapping[str, int]
    strikes: Mapping[str, int]
    steps: int
    segments: int
    tail: Sequence[str]


def node_factory(name: str, node_id: int) -> NodeFactory:
    """A combined controller and broker."""
    settings = {
        **_CONFIG,
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{name}:{KAFKA_PORT},CONTROLLER://{name}:{CONTROLLER_PORT}",
    }
    config = read_config(None, [f"{key}={value}" for key, value in settings.items()])
    return lambda env: Node(env, config)


class Scenario:
    """One run of one seed. `faults` are those that may occur; the seed chooses among them."""

    def __init__(self, seed: int, seconds: float = 60.0, faults: Sequence[str] = tuple(FAULTS)) -> None:
        self.seed = seed
        self._seconds = seconds
        self.simulation = Simulation(str(seed))
        self.cluster = Cluster(self.simulation, {"n1": node_factory("n1", 1)})
        self.history = History(self.simulation.clock.current_time, self.simulation.trace.note)
        self.nemesis = Nemesis(self.cluster, faults, self.simulation.rng("nemesis"))
        self._scope = trio.CancelScope()
        self._violation: str | None = None
        self._host_names: dict[str, str] = {}
        Watch(self.simulation.trace, node_invariants(self.simulation.hosts), self._fail)
        self._topics = [
            WantedTopic("plain", 2, is_flushed=False),
            WantedTopic("flushed", 2, is_flushed=True),
            WantedTopic("rolled", 2, is_flushed=False, configs=(("segment.ms", "700"), ("flush.ms", "3000"))),
        ]
        self._late = WantedTopic("late", 1, is_flushed=True)

    def run(self) -> Verdict:
        """Raises what is a fault of the simulator or of a workload: everything else is in the verdict."""
        try:
            self.simulation.run(self._main)
        except Stuck as error:
            self._fail(f"Liveness: {error}")
        trace = self.simulation.trace
        return Verdict(
            seed=self.seed,
            digest=trace.digest,
            violation=self._violation,
            virtual_seconds=self.simulation.clock.now,
            operations=self.history.counts(),
            strikes=dict(self.nemesis.strikes),
            steps=trace.steps,
            segments=self.simulation.network.segments_sent,
            tail=[str(event) for event in trace.tail],
        )

    async def _main(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.cluster.run)
                await self._in_time("start", START_SECONDS, self._prepare)
                with trio.move_on_after(self._seconds):
                    await self._trouble()
                self.cluster.heal()
                self.simulation.trace.event("nemesis", "healed", {})
                await self._in_time("healing", HEALING_SECONDS, self._verify)
                nursery.cancel_scope.cancel()
        if self._violation is None:
            self._judge()

    async def _in_time(self, phase: str, seconds: float, task: Callable[[], Awaitable[None]]) -> None:
        with trio.move_on_after(seconds) as scope:
            await task()
        if scope.cancelled_caught:
            self._fail(f"Liveness: the {phase} takes more than {seconds} s")
            await trio.lowlevel.checkpoint()

    async def _prepare(self) -> None:
        await self.cluster.wait_serving()
        client = self._client("setup")
        for topic in self._topics:
            while not await self._as(client, create_topic, client, topic):
                await client.back_off()

    async def _trouble(self) -> None:
        rng = self.simulation.rng("workload")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.nemesis.run)
            partitions = [(topic.name, index) for topic in self._topics for index in range(topic.partitions)]
            for number in range(rng.randint(1, 3)):
                self._start(nursery, self._client(f"p{number}"), produce_to_all, partitions, rng.choice((0.5, 2, 8)))
            for topic, index in partitions:
                if rng.random() < 0.7:
                    self._start(nursery, self._client(f"r-{topic}-{index}", "readers"), consume, topic, index)
            self._start(nursery, self._client("churn"), churn_topics, rng.choice((0.3, 1, 5)))
            self._start(nursery, self._client("late"), self._begin_late, rng.uniform(0, self._seconds))

    async def _begin_late(self, client: Client, after_seconds: float) -> None:
        """Create a topic in the middle of the troubles, and use it as soon as its creation is acknowledged."""
        await trio.sleep(after_seconds)
        while not await create_topic(client, self._late):
            await client.back_off()
        await produce_to_all(client, [(self._late.name, 0)], 8)

    async def _verify(self) -> None:
        """Everything works again; and read all there is."""
        await self.cluster.wait_serving()
        client = self._client("final")
        serial = 0
        while not await self._as(client, create_topic, client, WantedTopic(f"healed-{serial}", 3, is_flushed=True)):
            serial += 1
            await client.back_off()
        seen = await self._as(client, seen_topics, client)
        for topic in (*self._topics, self._late):
            if topic.name in seen:
                for index in range(topic.partitions):
                    await self._as(client, self._write_and_read, client, topic.name, index)

    async def _write_and_read(self, client: Client, topic: str, index: int) -> None:
        acknowledged = len(self._acknowledged(topic, index))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce_to_all, client, [(topic, index)], 100)
            while len(self._acknowledged(topic, index)) == acknowledged:
                await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        await read_all(client, topic, index)

    def _acknowledged(self, topic: str, index: int) -> list[object]:
        return [
            each
            for each in self.history.of("send")
            if each.result is not None and (each.value.topic, each.value.partition) == (topic, index)
        ]

    def _judge(self) -> None:
        for checker in (*TOPIC_CHECKERS, *QUEUE_CHECKERS):
            for anomaly in checker.check(self.history):
                self._fail(str(anomaly))
                return

    def _fail(self, violation: str) -> None:
        """End the run. The first violation counts, what follows may follow from it."""
        self._violation = self._violation or violation
        self._scope.cancel()

    def _client(self, name: str, host: str | None = None) -> Client:
        host = self._host_names[name] = host or name
        if host not in self.cluster.clients:
            self.cluster.add_client(host)
        servers = [(node, KAFKA_PORT) for node in self.cluster.nodes]
        rng = self.simulation.rng(f"client/{name}")
        wall = self.cluster.clients[host].wall
        return Client(name, servers, self.history, rng, wall, lambda: self.cluster.power_cuts)

    async def _as(self, client: Client, task: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run what a client does on the client's machine."""
        return await self.simulation.on(self.cluster.clients[self._host_names[client.name]], task, *args)

    def _start(self, nursery: trio.Nursery, client: Client, task: Callable[..., Awaitable[object]], *args: Any) -> None:
        nursery.start_soon(self._as, client, task, client, *args, name=f"client {client.name}")
