"""One run: a cluster, clients, a nemesis; then healing, the final reads, and the logs on the disks of all replicas."""

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from io import FileIO
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs
import trio
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from jepsen.history import History
from jepsen.journal import Journal, read_history
from jepsen.processes.clients.client import SHARE, ClientPlan, MemberPlan
from jepsen.processes.clients.client_process import ClientProcess
from jepsen.processes.faults import FaultContext, Nemesis
from jepsen.processes.nodes import NodeProcess, ProcessCluster, running_cluster
from jepsen.processes.replica_logs import read_replicas
from jepsen.processes.run.healing import NAME, heal, judge_output, record_node_failure, recorded, stop_all
from jepsen.processes.run.member_processes import MemberProcesses
from jepsen.processes.run.workloads import Workload
from jepsen.store import Store, Uptime
from jepsen.values import Healing

_ANSWER_SECONDS: Final = 5.0

TOPIC: Final = "queue"
OFFSETS: Final = "__consumer_offsets"
# The directories of the clients' journals, which are merged into the history, and of the clients' output.
CLIENTS: Final = "clients"
# The time for clients to connect before the nemesis begins, and the time that they continue after it.
_PROLOGUE_SECONDS: Final = 2.0
_EPILOGUE_SECONDS: Final = 3.0
# The time for a client before or after the faults.
_UNDISTURBED_SECONDS: Final = 300.0
_CATCH_UP_SECONDS: Final = 45.0
_LOOK_SECONDS: Final = 0.1
# Shorter than the defaults, so that more happens in a minute; and logs roll.
_SETTINGS: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "3000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "log.segment.bytes": "1048576",
    "log.initial.task.delay.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "100000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    # All writes are read at the end.
    "share.coordinator.state.topic.prune.interval.ms": "3600000",
}


class _Lags:
    """Reads the lags of `groups` from the cluster."""

    def __init__(self, cluster: ProcessCluster, groups: Sequence[str], topic: str, partitions: int) -> None:
        self._groups = groups
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._admin = _observer(cluster)

    async def are_zero(self) -> bool:
        """True if every group has committed all records. False if that is unknown."""
        try:
            return await trio.to_thread.run_sync(self._are_zero)
        except KafkaException:
            return False

    def _are_zero(self) -> bool:
        """Raises KafkaException."""
        asked = self._admin.list_offsets(
            {each: OffsetSpec.latest() for each in self._partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_ANSWER_SECONDS,
        )
        told: dict[int, Any] = {partition.partition: future.result() for partition, future in asked.items()}
        ends = {partition: each.offset for partition, each in told.items()}
        return all(self._committed(group) == ends for group in self._groups)

    def _committed(self, group: str) -> dict[int, int]:
        wanted = ConsumerGroupTopicPartitions(group, self._partitions)
        (future,) = self._admin.list_consumer_group_offsets([wanted], request_timeout=_ANSWER_SECONDS).values()
        return {each.partition: max(each.offset, 0) for each in future.result().topic_partitions}


@attrs.frozen
class Experiment:
    """The plan of an experiment, whose files go to `directory`. `rate` is of one client, in operations per second."""

    directory: Path
    workload: Workload
    nemesis: Nemesis
    seconds: float
    nodes: int
    partitions: int
    rate: float
    seed: int
    overrides: Mapping[str, str]
    is_secured: bool = False


@attrs.frozen
class Outcome:
    """`zero` is when the cluster first served, by `time.monotonic`; the history and the context count from there."""

    zero: float
    history: History
    context: FaultContext
    nodes: Sequence[NodeProcess]
    members: Sequence[Uptime]


async def perform(experiment: Experiment) -> Outcome:
    """Raises ClientFailed where a client cannot do its work."""
    names = [*experiment.workload.clients, *experiment.workload.places()]
    journals = experiment.directory / CLIENTS
    journals.mkdir(parents=True)
    overrides = {**_SETTINGS, **experiment.workload.configs, **experiment.overrides}
    async with running_cluster(
        experiment.directory,
        nodes=experiment.nodes,
        clients=names,
        overrides=overrides,
        is_secured=experiment.is_secured,
    ) as cluster:
        zero = time.monotonic()
        with _own_history(journals, zero) as history:
            context = _fault_context(experiment, cluster, history, zero)
            members = _member_processes(experiment, cluster, zero)
            topics = (TOPIC, *experiment.workload.more_topics)
            await trio.to_thread.run_sync(_create_topics, cluster, topics, experiment.partitions)
            await _run_one_by_one(experiment, experiment.workload.first, "first", cluster, journals, zero)
            with faults_written(experiment.directory, context):
                async with _watched(cluster, history), members.running():
                    await _run_nemesis(experiment, context, members, history, zero)
            await _run_one_by_one(experiment, experiment.workload.last, "last", cluster, journals, zero)
            await _read_disks(context, history)
    return Outcome(zero, _whole_history(journals), context, list(cluster.nodes.values()), members.uptimes)


def _fault_context(experiment: Experiment, cluster: ProcessCluster, history: History, zero: float) -> FaultContext:
    return FaultContext(
        cluster,
        TOPIC,
        Random(experiment.seed),
        lambda: time.monotonic() - zero,
        lambda what: record_node_failure(history, what),
        groups=[group.name for group in experiment.workload.groups],
        state_topics=experiment.workload.state_topics,
        transactional_ids=experiment.workload.transactional_ids(),
    )


async def _read_disks(context: FaultContext, history: History) -> None:
    nodes = list(context.cluster.nodes.values())
    await stop_all(nodes, history)
    for node in nodes:
        for topic in _topics(context):
            await trio.to_thread.run_sync(read_replicas, node, topic, history)
    judge_output(nodes, history)


async def _run_nemesis(
    experiment: Experiment, context: FaultContext, members: MemberProcesses, history: History, zero: float
) -> None:
    """Run clients and the nemesis, heal all faults, and wait until groups have read all records."""
    async with _clients(experiment, context.cluster, zero):
        await trio.sleep(_PROLOGUE_SECONDS)
        await experiment.nemesis.run(context, experiment.seconds)
        members.stop_churn()
        await heal(context.cluster, _topics(context), history)
        await trio.sleep(_EPILOGUE_SECONDS)
    groups = [group.name for group in experiment.workload.groups if not group.is_share_group]
    if groups:
        lags = _Lags(context.cluster, groups, TOPIC, experiment.partitions)
        await recorded(history, Healing("every group has read everything", _CATCH_UP_SECONDS), lags.are_zero)


def _topics(context: FaultContext) -> list[str]:
    """The topics whose replicas must be identical at the end."""
    return [TOPIC, *([OFFSETS] if context.groups else []), *context.state_topics]


@contextmanager
def faults_written(directory: Path, context: FaultContext) -> Iterator[None]:
    """Write the faults that were injected within the block, also if a client failed: they may explain its failure."""
    try:
        yield
    finally:
        Store(directory).write_faults(context.faults)


@contextmanager
def _own_history(journals: Path, zero: float) -> Iterator[History]:
    with FileIO(journals / f"{NAME}.jsonl", "a") as file:
        yield History(lambda: time.monotonic() - zero, Journal(file).note)


def _observer(cluster: ProcessCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, **cluster.client_configs})


def _create_topics(cluster: ProcessCluster, topics: Sequence[str], partitions: int) -> None:
    client = _observer(cluster)
    for created in client.create_topics([NewTopic(each, num_partitions=partitions) for each in topics]).values():
        created.result()


@asynccontextmanager
async def _watched(cluster: ProcessCluster, history: History) -> AsyncIterator[None]:
    """Within the block, restart nodes that end by themselves, and record that they did."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, cluster, history)
        yield
        nursery.cancel_scope.cancel()


async def _watch(cluster: ProcessCluster, history: History) -> None:
    while True:
        await trio.sleep(_LOOK_SECONDS)
        for node in cluster.nodes.values():
            if node.has_exited_unexpectedly:
                code = node.process.returncode
                record_node_failure(history, f"{node.name} has ended by itself with {code}\n{node.output_tail()}")
                node.note_end(f"ended by itself with {code}")
                await node.start()


def _member_processes(experiment: Experiment, cluster: ProcessCluster, zero: float) -> MemberProcesses:
    journals, places = experiment.directory / CLIENTS, experiment.workload.places()

    def start(place: str, uptime: int) -> ClientProcess:
        name, bootstrap = f"{place}.{uptime}", cluster.bootstrap_of(place)
        role = "share" if places[place].protocol == SHARE else "join"
        plan = _plan(experiment, name, role, bootstrap, cluster, journals, zero, member=places[place])
        return ClientProcess(plan, journals / f"{place}.out")

    return MemberProcesses(list(places), experiment.seed, start)


@asynccontextmanager
async def _clients(experiment: Experiment, cluster: ProcessCluster, zero: float) -> AsyncIterator[None]:
    journals = experiment.directory / CLIENTS
    clients = [
        ClientProcess(
            _plan(experiment, name, role, cluster.bootstrap_of(name), cluster, journals, zero),
            journals / f"{name}.out",
        )
        for name, role in experiment.workload.clients.items()
    ]
    try:
        yield
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.end)
    finally:
        for client in clients:
            client.discard()


async def _run_one_by_one(
    experiment: Experiment, roles: Sequence[str], when: str, cluster: ProcessCluster, journals: Path, zero: float
) -> None:
    """Run clients to their ends, one after the other, which reach the nodes without faults."""
    for role in roles:
        plan = _plan(experiment, f"{when}-{role}", role, cluster.bootstrap, cluster, journals, zero)
        client = ClientProcess(plan, journals / f"{plan.name}.out")
        try:
            await client.ended(_UNDISTURBED_SECONDS)
        finally:
            client.discard()


def _plan(
    experiment: Experiment,
    name: str,
    role: str,
    bootstrap: str,
    cluster: ProcessCluster,
    journals: Path,
    zero: float,
    member: MemberPlan | None = None,
) -> ClientPlan:
    return ClientPlan(
        role,
        name,
        bootstrap,
        str(journals / f"{name}.jsonl"),
        zero,
        experiment.seed,
        TOPIC,
        experiment.partitions,
        experiment.rate,
        experiment.workload.is_idempotent,
        member,
        cluster.client_configs,
    )


def _whole_history(journals: Path) -> History:
    def lines() -> Iterator[bytes]:
        for path in sorted(journals.glob("*.jsonl")):
            with path.open("rb") as file:
                yield from file

    return read_history(lines())
