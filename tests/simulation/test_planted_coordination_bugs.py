"""Bugs in the coordination of transactions, each of which one schedule reveals. Without the bug it does no harm."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
import pytest
import trio

from broker.client import ClientError, Consumer, ConsumerRecord, KafkaError, Producer, ProducerFenced
from broker.client.consumer.group.identity import GroupMetadata
from broker.coordinator.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from jepsen.checkers import TRANSACTION_CHECKERS
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import process_invariants
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.data import node_on
from jepsen.simulation.subjects.node_plan import KAFKA_PORT, NodePlan
from jepsen.values import Decision, Sending, Transaction, WantedTopic, transformed
from jepsen.workloads.client import Client
from jepsen.workloads.committed_reader import ends_of, read_all_committed
from jepsen.workloads.topics import create_topic
from jepsen.workloads.transactional_producer import offsets_of, open_producer
from jepsen.workloads.transformer import wait_transformed
from tests.simulation.scripted_run import ScriptedRun
from tests.support.transaction_bugs import COORDINATION_BUGS

TOPIC: Final = "topic"
OUTPUT: Final = "output"
GROUP: Final = "group"
PARTITIONS: Final = 3
TRANSACTIONAL_ID: Final = "id"
FENCING_SECONDS: Final = 30.0
REPLICATION_SECONDS: Final = 0.3
# After this time the coordinator has answered the follower's last fetch (replica.fetch.wait.max.ms).
FETCH_SECONDS: Final = 0.6
# Long enough for the markers to arrive, and shorter than the time after which the coordinator's ISR shrinks.
MARKERS_SECONDS: Final = 0.2


@attrs.define(kw_only=True)
class ScriptedCoordination(ScriptedRun):
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

    def known_leader(self, topic: str, index: int) -> str:
        leader = self.leader(topic, index)
        assert leader is not None, f"{topic}-{index} has no leader"
        return leader

    async def lay_out(self) -> None:
        client = self.client("setup")
        safe = (("min.insync.replicas", "2"),)
        for name, partitions in ((TRANSACTION_STATE, 1), (CONSUMER_OFFSETS, 1), (TOPIC, PARTITIONS), (OUTPUT, 1)):
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

    async def transform(
        self, producer: Producer, name: str, records: Sequence[ConsumerRecord], place: GroupMetadata
    ) -> None:
        """Write an output for each record and commit the group's offsets, in one transaction. Abort it on an error."""
        outputs = tuple(transformed(name, GROUP, (each.value or b"").decode()) for each in records)
        offsets = tuple((each.topic, each.partition, each.offset + 1) for each in records)
        value = Transaction(name, name, ((OUTPUT, 0, outputs),), GROUP, offsets)
        begun = self.history.invoke(name, "transact", value)
        await producer.begin_transaction()
        try:
            for output in outputs:
                self.history.invoke(name, "send", Sending(OUTPUT, 0, "", 0, (output,)))
                await producer.send(OUTPUT, output.encode(), partition=0)
            await producer.send_offsets_to_transaction(offsets_of(value), place)
            await self.commit(producer, name)
        except (KafkaError, ClientError):
            decision = self.history.invoke(name, "end-transaction", Decision(name, is_commit=False))
            await producer.abort_transaction()
            self.history.ok(decision, None)
        self.history.ok(begun, None)

    async def judge(self) -> None:
        """Read all committed records and offsets, and check the history."""
        client = self.client("final")
        reads = [
            ((TOPIC, index), await self.on(read_all_committed, client, TOPIC, index)) for index in range(PARTITIONS)
        ]
        await self.on(read_all_committed, client, OUTPUT, 0)
        if any(operation.value.group for operation in self.history.of("transact")):
            await self.on(wait_transformed, client, GROUP, ends_of(reads))
        for checker in TRANSACTION_CHECKERS:
            for anomaly in checker.check(self.history):
                self.fail(str(anomaly))

    def client(self, name: str) -> Client:
        servers = [(broker, KAFKA_PORT) for broker in self.brokers]
        rng, wall = self.simulation.rng(name), self.client_host.wall
        return Client(name, servers, self.history, rng, wall, lambda host: 0, lambda *at: 0)

    async def on(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        return await self.simulation.on(self.client_host, function, *args)


Script: TypeAlias = Callable[[ScriptedCoordination], Awaitable[None]]


async def coordinator_is_killed_before_its_decision_is_replicated(stage: ScriptedCoordination) -> None:
    """The coordinator decides to commit, and no follower fetches the decision. One leader could get a marker, the other
    one is out of reach. Then the producer ends, the coordinator is killed, and another instance of the producer aborts.
    """
    with trio.CancelScope() as scope:
        async with open_producer(stage.client("p1"), TRANSACTIONAL_ID) as producer:
            await producer.init_transactions()
            await stage.write(producer, "t1", *range(PARTITIONS))
            await stage.commit(producer, "t1")  # all connections are open from here on
            coordinator = stage.known_leader(TRANSACTION_STATE, 0)
            leaders = {index: stage.known_leader(TOPIC, index) for index in range(PARTITIONS)}
            (near, near_leader), (far, far_leader) = (each for each in leaders.items() if each[1] != coordinator)
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


async def leader_is_killed_before_its_response_arrives(stage: ScriptedCoordination) -> None:
    """A leader appends a batch, and its followers do. Its response is lost, and it is killed. The producer sends the
    batch again to the next leader, which must detect the duplicate.
    """
    async with open_producer(stage.client("p1"), TRANSACTIONAL_ID) as producer:
        await producer.init_transactions()
        await stage.write(producer, "t1", *range(PARTITIONS))
        await stage.commit(producer, "t1")
        coordinator = stage.known_leader(TRANSACTION_STATE, 0)
        leaders = [stage.known_leader(TOPIC, index) for index in range(PARTITIONS)]
        index, leader = next((index, leader) for index, leader in enumerate(leaders) if leader != coordinator)
        stage.cut(leader, stage.client_host.name)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.write, producer, "t2", index)
            await trio.sleep(REPLICATION_SECONDS)
            stage.cluster.crash(stage.cluster.nodes[leader], power=False, down_seconds=float("inf"))
        await stage.commit(producer, "t2")
    stage.cluster.heal()


async def member_commits_after_another_one_has_its_partitions(stage: ScriptedCoordination) -> None:
    """A member consumes all records and stops polling, so that it leaves. Another member consumes and transforms them.
    Then the first one transforms them too, with its former place in the group (KIP-447).
    """
    async with (
        open_producer(stage.client("p1"), TRANSACTIONAL_ID) as source,
        open_producer(stage.client("first"), "first") as first_producer,
        open_producer(stage.client("second"), "second") as second_producer,
    ):
        for producer in (source, first_producer, second_producer):
            await producer.init_transactions()
        await stage.write(source, "t1", *range(PARTITIONS))
        await stage.commit(source, "t1")
        async with _member(stage, "first") as first:
            consumed = await _all_records(first)
            place = first.group_metadata()
            async with _member(stage, "second") as second:
                await stage.transform(second_producer, "second", await _all_records(second), second.group_metadata())
            await stage.transform(first_producer, "first", consumed, place)


async def second_instance_fences_a_first_one_with_an_open_transaction(stage: ScriptedCoordination) -> None:
    """A second instance of a producer begins while the first has an open transaction, which is aborted.

    From transaction version 2 on, partitions refuse a marker with the epoch of the transaction: it would stay open.
    """
    async with (
        open_producer(stage.client("p1"), TRANSACTIONAL_ID) as first,
        open_producer(stage.client("p2"), TRANSACTIONAL_ID) as second,
    ):
        await first.init_transactions()
        await stage.write(first, "t1", *range(PARTITIONS))
        with trio.move_on_after(FENCING_SECONDS) as scope:
            await second.init_transactions()
        if scope.cancelled_caught:
            stage.fail("Liveness: the second instance does not begin")
            await trio.lowlevel.checkpoint()
        await stage.write(second, "t2", *range(PARTITIONS))
        with pytest.raises(ProducerFenced):
            await stage.commit(first, "t1")
        await stage.commit(second, "t2")


def _member(stage: ScriptedCoordination, name: str) -> Consumer:
    client = stage.client(name)
    return Consumer(
        client.bootstrap_servers,
        client_id=name,
        environment=client.environment,
        topics=[TOPIC],
        group_id=GROUP,
        group_protocol="classic",
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        max_poll_interval_ms=2_000,
    )


async def _all_records(consumer: Consumer) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < PARTITIONS:
        records += await consumer.fetch(timeout_s=1.0)
    return records


def play(script: Callable[[ScriptedCoordination], Awaitable[None]]) -> ScriptedCoordination:
    """Start the cluster, run the script, and judge its history."""
    simulation = Simulation("1")
    plan = NodePlan(0, 1, 3, simulation.rng("subject"))
    lost = {each.name: 0 for each in plan.nodes}
    cluster = Cluster(simulation, {each.name: plan.factory(each, lost) for each in plan.nodes})
    stage = ScriptedCoordination(
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


SCENARIOS: Final[Mapping[str, tuple[Script, str]]] = {
    "markers are sent before the outcome is committed": (
        coordinator_is_killed_before_its_decision_is_replicated,
        "TransactionsAreAtomic",
    ),
    "a new leader does not detect duplicates": (leader_is_killed_before_its_response_arrives, "NothingTwice"),
    "offsets of members that were replaced are accepted": (
        member_commits_after_another_one_has_its_partitions,
        "OffsetsAreAtomicWithOutput",
    ),
    "fencing leaves the epoch as it is": (
        second_instance_fences_a_first_one_with_an_open_transaction,
        "Liveness",
    ),
}


@pytest.mark.parametrize("bug", SCENARIOS)
def test_schedule_does_no_harm_without_the_bug(bug: str) -> None:
    script, _ = SCENARIOS[bug]
    assert play(script).violation is None


@pytest.mark.parametrize("bug", SCENARIOS)
def test_planted_bug_of_coordination_is_found(bug: str) -> None:
    script, finder = SCENARIOS[bug]
    with COORDINATION_BUGS[bug].planted():
        violation = play(script).violation
    assert violation is not None
    assert violation.partition(":")[0] == finder


def test_every_bug_of_coordination_is_played() -> None:
    assert [bug for bug in COORDINATION_BUGS if bug not in SCENARIOS] == []
