"""A coordinator must not send markers before the outcome of the transaction is committed."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Final

import attrs
import pytest
import trio

from broker.client import Producer
from broker.coordinator.internal_topics import TRANSACTION_STATE
from jepsen.checkers import TRANSACTION_CHECKERS
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import process_invariants
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.data import node_on
from jepsen.simulation.subjects.node_plan import KAFKA_PORT, NodePlan
from jepsen.values import Decision, Sending, Transaction, WantedTopic
from jepsen.workloads.client import Client
from jepsen.workloads.committed_reader import read_all_committed
from jepsen.workloads.topics import create_topic
from jepsen.workloads.transactional_producer import open_producer
from tests.simulation.scripted_run import ScriptedRun
from tests.support.transaction_bugs import COORDINATION_BUGS

BUG: Final = "markers are sent before the outcome is committed"
TOPIC: Final = "topic"
PARTITIONS: Final = 3
TRANSACTIONAL_ID: Final = "id"
# After this time the coordinator has answered the follower's last fetch (replica.fetch.wait.max.ms).
FETCH_SECONDS: Final = 0.6
# Long enough for the markers to arrive, and shorter than the time after which the coordinator's ISR shrinks.
MARKERS_SECONDS: Final = 0.2


@attrs.define(kw_only=True)
class ScriptedMarkers(ScriptedRun):
    """A controller, three brokers and a machine for clients. Each broker leads a partition of the topic."""

    brokers: list[str]
    client_host: Host
    history: History

    def leader(self, topic: str, index: int) -> str | None:
        """The broker that leads a partition, by its own knowledge."""
        for name in self.brokers:
            node = node_on(self.cluster.nodes[name])
            local = None if node is None or node.broker is None else node.broker.partitions.topic(topic)
            partition = None if local is None else local.partitions.get(index)
            if partition is not None and partition.leads:
                return name
        return None

    async def lay_out(self) -> None:
        client = self.client("setup")
        safe = (("min.insync.replicas", "2"),)
        for name, partitions in ((TRANSACTION_STATE, 1), (TOPIC, PARTITIONS)):
            topic = WantedTopic(name, partitions, configs=safe, replication_factor=len(self.brokers))
            while not await self.on(create_topic, client, topic):
                await client.back_off()
        while not all(self.leader(TOPIC, index) for index in range(PARTITIONS)):
            await trio.sleep(0.1)

    async def write(self, producer: Producer, name: str, *indexes: int) -> None:
        """Begin a transaction, and write "<name>/<index>" to each of the partitions."""
        records = tuple((TOPIC, index, (f"{name}/{index}",)) for index in indexes)
        begun = self.history.invoke("p", "transact", Transaction(TRANSACTIONAL_ID, name, records))
        await producer.begin_transaction()
        for topic, index, (value,) in records:
            self.history.invoke("p", "send", Sending(topic, index, "", 0, (value,)))
            await producer.send(topic, value.encode(), partition=index)
        self.history.ok(begun, None)

    async def commit(self, producer: Producer, name: str) -> None:
        decision = self.history.invoke("p", "end-transaction", Decision(name, is_commit=True))
        await producer.commit_transaction()
        self.history.ok(decision, None)

    async def judge(self) -> None:
        """Read all committed records, and check the history."""
        for index in range(PARTITIONS):
            await self.on(read_all_committed, self.client(f"final-{index}"), TOPIC, index)
        for checker in TRANSACTION_CHECKERS:
            for anomaly in checker.check(self.history):
                self.fail(str(anomaly))

    def client(self, name: str) -> Client:
        servers = [(broker, KAFKA_PORT) for broker in self.brokers]
        rng, wall = self.simulation.rng(name), self.client_host.wall
        return Client(name, servers, self.history, rng, wall, lambda host: 0, lambda *at: 0)

    async def on(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        return await self.simulation.on(self.client_host, function, *args)


async def coordinator_is_killed_before_its_decision_is_replicated(stage: ScriptedMarkers) -> None:
    """The coordinator decides to commit, and no follower fetches the decision. One leader could get a marker, the other
    one is out of reach. Then the producer ends, the coordinator is killed, and another instance of the producer aborts.
    """
    with trio.CancelScope() as scope:
        async with open_producer(stage.client("p1"), TRANSACTIONAL_ID) as producer:
            await producer.init_transactions()
            await stage.write(producer, "t1", *range(PARTITIONS))
            await stage.commit(producer, "t1")  # all connections are open from here on
            coordinator = stage.leader(TRANSACTION_STATE, 0)
            leaders = {index: stage.leader(TOPIC, index) for index in range(PARTITIONS)}
            (near, near_leader), (far, far_leader) = (each for each in leaders.items() if each[1] != coordinator)
            assert coordinator is not None
            assert near_leader is not None
            assert far_leader is not None
            await stage.write(producer, "t2", near, far)
            stage.cut(near_leader, coordinator)
            stage.part(far_leader, coordinator)
            await trio.sleep(FETCH_SECONDS)
            scope.deadline = trio.current_time() + MARKERS_SECONDS
            await stage.commit(producer, "t2")
    stage.cluster.crash(stage.cluster.nodes[coordinator], power=False, down_seconds=float("inf"))
    for broker in (near_leader, far_leader):
        stage.simulation.network.mend(broker, coordinator)
        stage.simulation.network.mend(coordinator, broker)
    async with open_producer(stage.client("p2"), TRANSACTIONAL_ID) as successor:
        await successor.init_transactions()
    stage.cluster.heal()


def play(script: Callable[[ScriptedMarkers], Awaitable[None]]) -> ScriptedMarkers:
    """Start the cluster, run the script, and judge its history."""
    simulation = Simulation("1")
    plan = NodePlan(0, 1, 3, simulation.rng("subject"))
    lost = {each.name: 0 for each in plan.nodes}
    cluster = Cluster(simulation, {each.name: plan.factory(each, lost) for each in plan.nodes})
    stage = ScriptedMarkers(
        simulation=simulation,
        cluster=cluster,
        brokers=[each.name for each in plan.brokers],
        client_host=cluster.add_client("client"),
        history=History(simulation.clock.current_time, simulation.trace.operation),
    )

    async def whole() -> None:
        await cluster.wait_serving()
        await stage.lay_out()
        await stage.on(script, stage)
        await stage.judge()

    stage.perform(process_invariants(simulation.hosts), whole)
    return stage


@pytest.mark.parametrize("is_planted", [False, True])
def test_markers_before_the_committed_outcome_tear_a_transaction(is_planted: bool) -> None:
    with COORDINATION_BUGS[BUG].planted() if is_planted else nullcontext():
        violation = play(coordinator_is_killed_before_its_decision_is_replicated).violation
    found = None if violation is None else violation.partition(":")[0]
    assert found == ("TransactionsAreAtomic" if is_planted else None)
