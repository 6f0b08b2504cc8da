"""Consume-transform-produce while coordinators, leaders and clients are killed: the output is the input, exactly."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import pytest

from broker.client import NewTopic, OffsetSpec, SyncAdmin, SyncConsumer, TopicPartition
from tests.support.cluster_process import ClusterProcess, new_cluster
from tests.support.committed_records import committed_values
from tests.support.job_process import wait_until
from tests.support.steady_load import SteadyLoad
from tests.support.transform_process import CLIENTS, HangWatch, TransformJob, TransformProcess

pytestmark = pytest.mark.clients

PARTITIONS = 4
RATE = 300
# Time limits, far longer than necessary on an idle machine.
PROGRESS_S = 120.0
DRAIN_S = 180.0
CLEANUP_S = 1.0
UNFINISHED = ["Ongoing", "PrepareCommit", "PrepareAbort"]
# A line that is no event, such as one of a traceback, or an event that an operator is warned by. A loaded machine holds
# the loop. A kill fences a broker, ends a leader of the quorum, and leaves partitions without a leader for a moment.
EXPECTED = re.compile(
    r"kraft: (?:\S+ info "
    r"|\S+ warning node \d: "
    r"(?:loop_held|events_suppressed: \d+ more loop_held|partitions_without_leader|broker_fenced|leader_lost)"
    r"|listening|node)"
)
CLUSTER = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CLEANUP_S * 1000)),
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}


class CommittedReader:
    """A thread that reads a topic with read_committed within the `with` block.

    `count` is the number of records that it has read, `stall_s` the longest time without any.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self.count = 0
        self.stall_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(PROGRESS_S)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
            with SyncConsumer(self._servers, **settings) as consumer:  # type: ignore[arg-type]
                consumer.assign(self._partitions)
                last = None
                while not self._stop.is_set():
                    found = len(consumer.fetch(max_records=10_000, timeout_s=0.2))
                    now = time.monotonic()
                    if found:
                        self.stall_s = max(self.stall_s, 0.0 if last is None else now - last)
                        last = now
                        self.count += found
        except BaseException as error:  # noqa: BLE001 - raised by the thread of the test
            self._error = error


class Transformers:
    """Two jobs of one group, which copy the topic `source` to `target`, on a cluster of which nodes are killed."""

    def __init__(self, cluster: ClusterProcess, client: str, directory: Path, name: str, timeout_ms: int) -> None:
        self.cluster = cluster
        self.source, self.target, self.group = f"source-{name}", f"target-{name}", f"group-{name}"
        self.timeout_s = timeout_ms / 1000
        self.rng = Random(1)
        jobs = [
            TransformJob(
                client,
                servers=cluster.bootstrap,
                source=self.source,
                target=self.target,
                group=self.group,
                transactional_id=f"{name}-{number}",
                transaction_timeout_ms=timeout_ms,
            )
            for number in range(2)
        ]
        self.processes = [TransformProcess(job, directory / f"{job.transactional_id}.out") for job in jobs]
        with SyncAdmin(cluster.bootstrap) as admin:
            topics = [NewTopic(name, num_partitions=PARTITIONS) for name in (self.source, self.target)]
            admin.create_topics(topics).raise_first()

    def await_that(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait while the jobs run. Those that hang are started again."""

        def check() -> bool:
            for process in self.processes:
                process.restart_if_hung()
            return condition()

        wait_until(check, timeout_s, what)

    def kill_client(self, turn: int) -> None:
        process = self.processes[turn % 2]
        self.await_that(lambda: process.has_committed, PROGRESS_S, "a transaction of the job to be killed")
        time.sleep(self.rng.uniform(0, 0.5))
        process.kill()
        time.sleep(self.rng.uniform(0, 2))
        process.start()

    def kill_coordinator(self, turn: int) -> None:
        """Kill the coordinator of a transactional id; in every third turn, kill that of the group."""
        # A coordinator does not know an id before its job has started, which takes seconds on a loaded machine.
        self.await_that(
            lambda: all(process.transactions()["committed"] for process in self.processes),
            PROGRESS_S,
            "both jobs start",
        )
        with SyncAdmin(self.cluster.bootstrap) as admin:
            if turn % 3 == 2:
                node_id = admin.describe_groups([self.group]).value(self.group).coordinator.id
            else:
                job = self.processes[turn % 3].job
                node_id = admin.describe_transactions([job.transactional_id]).value(job.transactional_id).coordinator_id
        self._kill_node(node_id)

    def kill_leader(self, turn: int) -> None:
        """Kill the leader of a partition of the target, and in every third turn of the source."""
        topic = self.source if turn % 3 == 2 else self.target
        with SyncAdmin(self.cluster.bootstrap) as admin:
            partitions = admin.describe_topics([topic]).value(topic).partitions
        self._kill_node(self.rng.choice([each.leader for each in partitions if each.leader is not None]))

    def _kill_node(self, node_id: int) -> None:
        node = self.cluster.nodes[node_id]
        node.kill()
        time.sleep(self.rng.uniform(0, 3))
        node.start()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with new_cluster(tmp_path_factory.mktemp("cluster"), overrides=CLUSTER) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def new_transformers(
    cluster: ClusterProcess, tmp_path: Path, topic: str
) -> Iterator[Callable[[str, int], Transformers]]:
    made: list[Transformers] = []

    def make(client: str, timeout_ms: int) -> Transformers:
        made.append(Transformers(cluster, client, tmp_path, topic, timeout_ms))
        return made[-1]

    yield make
    for transformers in made:
        for process in transformers.processes:
            process.discard()


def await_all_consumed(transformers: Transformers) -> None:
    """Wait until the group's committed offsets are the ends of the source."""
    group = transformers.group
    partitions = [TopicPartition(transformers.source, index) for index in range(PARTITIONS)]
    with SyncAdmin(transformers.cluster.bootstrap) as admin:
        latest = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST)).raise_first()
        ends = {partition: found.offset for partition, found in latest.items() if found is not None and found.offset}

        def all_consumed() -> bool:
            committed = admin.list_group_offsets({group: None}).value(group)
            return all(partition in committed and committed[partition].offset == ends[partition] for partition in ends)

        transformers.await_that(all_consumed, DRAIN_S, "the group consumes its source")


def await_no_open_transaction(bootstrap: str, timeout_s: float) -> float:
    """Wait until no transaction is open; all time out after `timeout_s`. Returns the seconds that it took."""
    began = time.monotonic()
    with SyncAdmin(bootstrap) as admin:
        limit_s = timeout_s + CLEANUP_S + 20
        wait_until(lambda: not admin.list_transactions(states=UNFINISHED).chained(), limit_s, "no open transaction")
    return time.monotonic() - began


def alarms(cluster: ClusterProcess) -> list[str]:
    """The lines of the nodes' output that are not expected."""
    lines = [line for node in cluster.nodes.values() for line in node.output_path.read_text().splitlines()]
    return [line for line in lines if not EXPECTED.match(line)]


def transform_through_kills(
    transformers: Transformers, kills: Sequence[Callable[[int], None]], figure: Callable[[str], None]
) -> None:
    cluster = transformers.cluster
    began = time.monotonic()
    for process in transformers.processes:
        process.start()
    source, target = transformers.source, transformers.target
    with SteadyLoad(cluster.bootstrap, source, RATE), CommittedReader(cluster.bootstrap, target) as reader:
        for turn, kill in enumerate(kills):
            transformers.await_that(lambda before=reader.count: reader.count > before, PROGRESS_S, f"kill {turn}")
            time.sleep(transformers.rng.uniform(0, 1.5))
            kill(turn)
        transformers.await_that(lambda before=reader.count: reader.count > before, PROGRESS_S, "after the last kill")
        stall_s = reader.stall_s
        for process in transformers.processes:
            process.kill()
        ended_s = await_no_open_transaction(cluster.bootstrap, transformers.timeout_s)
        for process in transformers.processes:
            process.start()
    await_all_consumed(transformers)
    given, written = (Counter(committed_values(cluster.bootstrap, topic)) for topic in (source, target))
    assert written == given, f"lost: {given - written}, made up: {written - given}"
    assert alarms(cluster) == []
    counts = [process.transactions() for process in transformers.processes]
    figure(
        f"{len(kills)} kills, {sum(each['committed'] for each in counts)} transactions of {given.total()} records in"
        f" {time.monotonic() - began:.0f} s; longest stall {stall_s:.1f} s; {sum(each['aborted'] for each in counts)}"
        f" aborted, {sum(each['reopened'] for each in counts)} producers replaced,"
        f" {sum(each.hung for each in transformers.processes)} hung; open transactions of dead clients"
        f" ended within {ended_s:.1f} s"
    )


@pytest.mark.parametrize(
    ("unanswered", "sent", "is_idle"),
    [
        ([0, 0, 0, 0, 0, 0], [7, 7, 7, 7, 7, 7], True),
        ([0, 0, 1, 1, 0, 0], [7, 7, 7, 7, 7, 7], False),
        ([0, 0, 0, 0, 0, 0], [7, 7, 7, 8, 8, 8], False),
        ([0, 0, 0, 0, 0], [7, 7, 7, 7, 7], False),
    ],
)
def test_hung_client_is_idle_only_if_it_sends_and_awaits_nothing(
    unanswered: list[int], sent: list[int], is_idle: bool
) -> None:
    watch = HangWatch()
    for second, counts in enumerate(zip(unanswered, sent, strict=True)):
        broker = {"waitresp_cnt": counts[0], "req": {"TxnOffsetCommit": counts[1], "Metadata": second}}
        watch.take_statistics(json.dumps({"ts": second * 1_000_000, "brokers": {"127.0.0.1:9092/1": broker}}))
    assert watch.is_idle() == is_idle


@pytest.mark.parametrize("client", CLIENTS)
def test_output_equals_input_through_a_kill_of_each(
    new_transformers: Callable[[str, int], Transformers], client: str, figure: Callable[[str], None]
) -> None:
    transformers = new_transformers(client, 3_000)
    kills = [transformers.kill_coordinator, transformers.kill_leader, transformers.kill_client]
    transform_through_kills(transformers, kills, figure)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("what", ["coordinator", "leader", "client"])
def test_output_equals_input_through_kills(
    new_transformers: Callable[[str, int], Transformers],
    client: str,
    what: str,
    pytestconfig: pytest.Config,
    full: bool,
    figure: Callable[[str], None],
) -> None:
    kills = pytestconfig.getoption("--kills") or (20 if full else 0)
    if not kills:
        pytest.skip("run with --full or --kills, or by `make transaction-kills`")
    transformers = new_transformers(client, 10_000)
    transform_through_kills(transformers, [getattr(transformers, f"kill_{what}")] * kills, figure)
