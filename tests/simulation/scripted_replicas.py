"""Replicas that a script controls: a controller, some brokers, one partition, clients, and a final check."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs
import trio

from broker.wire.api.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
from broker.wire.errors import ErrorCode
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.disk.tree import Directory, Inode
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import (
    Committed,
    Replicas,
    process_invariants,
    raft_invariants,
    replication_invariants,
)
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.data import observe_replicas
from jepsen.simulation.subjects.node_plan import LOG_DIRECTORIES, NodePlan
from jepsen.simulation.trace import Event
from tests.simulation.scripted_clients import NONE, TOPIC, ScriptedClients, Stored, stored_in

DIRECTORY = f"{LOG_DIRECTORIES[0]}/{TOPIC}-0"
# The time limit of every wait in a script. Sessions of brokers expire after 9 s.
TIMEOUT_SECONDS = 20.0
# The intervals in which a script checks conditions. The shorter one is for exact steps: it is below the latency of
# 0.5 ms.
LOOK_SECONDS = 0.01
GLANCE_SECONDS = 0.0001
FOR_GOOD = float("inf")


@attrs.define(kw_only=True)
class ScriptedReplicas(ScriptedClients):
    """`brokers` are the names of the machines that may have a replica.

    With `is_unclean`, the topic permits unclean elections.
    """

    controller: str
    brokers: list[str]
    nursery: trio.Nursery | None = None
    replicas: list[str] = attrs.field(factory=list)
    is_unclean: bool = False

    # Machines

    def host(self, name: str) -> Host:
        return self.cluster.nodes[name]

    def kill(self, name: str) -> None:
        """kill -9. The machine is down until `start`; written data remains, and connected peers are informed."""
        self.cluster.crash(self.host(name), power=False, down_seconds=FOR_GOOD)

    def cut_power(self, name: str, keeps: str) -> None:
        """Cut the machine's power until `start`. `keeps` is the fate of unsynced data: "all" or "none"."""
        self.host(name).held_down_until = FOR_GOOD
        self.host(name).power_cut(keeps)

    async def start(self, *names: str) -> None:
        """Start machines, and wait until all of them serve."""
        for name in names:
            self.host(name).held_down_until = 0.0
        await self.until(lambda: all(self.host(name).is_serving for name in names), f"not all of {names} serve")

    def start_soon(self, task: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run a task concurrently with the script."""
        assert self.nursery is not None, "scripts play in one"
        self.nursery.start_soon(task, *args)

    async def restart(self, name: str) -> None:
        """Restart cleanly, so that the logs are completely on the disk."""
        await self.cluster.stop(self.host(name), timeout_seconds=TIMEOUT_SECONDS, down_seconds=0)
        await self.start(name)

    def reset(self, one: str, other: str) -> None:
        self.simulation.network.reset_between(self.host(one), self.host(other))

    def mend(self, one: str, *others: str) -> None:
        for other in others:
            self.simulation.network.mend(one, other)
            self.simulation.network.mend(other, one)

    def others(self, *names: str) -> list[str]:
        return [each for each in self.brokers if each not in names]

    async def lay_out(self, *replicas: str, **configs: object) -> None:
        """Create the topic. The first replica leads; `_` in a config's name stands for `.`."""
        self.replicas = list(replicas)
        self.is_unclean = configs.get("unclean_leader_election_enable", False) is True
        await self.create_topic(*replicas, **configs)
        await self.leads(replicas[0])

    # Waiting

    async def until(self, holds: Callable[[], bool], what: str, every: float = LOOK_SECONDS) -> None:
        """Wait until a condition holds."""
        with trio.move_on_after(TIMEOUT_SECONDS):
            while not holds():
                await trio.sleep(every)
            return
        await self.give_up(what)

    async def has(self, name: str, value: str) -> None:
        """Wait until a log has a value. No effect of it has been sent over the network yet."""
        await self.until(lambda: self.holds(name, value), f"{name} does not get {value}", GLANCE_SECONDS)

    async def acknowledges(self, value: str) -> None:
        await self.until(lambda: value in self.acknowledged, f"{value} is not acknowledged", GLANCE_SECONDS)

    async def until_described(
        self, by: str, holds: Callable[[DescribeTopicPartitionsResponsePartition], bool], what: str, within: float
    ) -> None:
        """Wait until a broker's description of the partition satisfies `holds`."""
        with trio.move_on_after(within):
            while True:
                described = await self.described(by)
                if described is not None and holds(described):
                    return
                await trio.sleep(5 * LOOK_SECONDS)  # each request opens a connection
        await self.give_up(what)

    async def give_up(self, what: str) -> None:
        self.fail(f"Liveness: {what}")
        await trio.lowlevel.checkpoint()

    async def leads(self, name: str, after: int = NONE) -> None:
        """Wait until a broker leads, in an epoch after `after`."""
        await self.until(lambda: self.leader == name and self.epoch > after, f"{name} does not lead")

    async def follows(self, name: str, epoch: int, every: float = LOOK_SECONDS) -> None:
        """Wait until a broker follows in an epoch."""
        await self.until(
            lambda: any(event.fields["leader_epoch"] == epoch for event in self.traced("partition_followed", by=name)),
            f"{name} does not follow in epoch {epoch}",
            every,
        )

    async def in_sync(self, *names: str, by: str, within: float = TIMEOUT_SECONDS) -> None:
        """Wait until a broker that knows the latest leader epoch reports these brokers as the ISR."""
        ids = sorted(self.ids[name] for name in names)
        await self.until_described(
            by,
            lambda told: sorted(told.isr_nodes) == ids and told.leader_epoch >= self.epoch,
            f"{names} are not the ISR as {by} knows it",
            within,
        )

    # State

    def traced(self, kind: str, by: str | None = None) -> list[Event]:
        return [event for event in self.events_by_kind.get(kind, ()) if by in (None, event.host)]

    @property
    def epoch(self) -> int:
        """The latest epoch with a leader."""
        return max((int(str(event.fields["leader_epoch"])) for event in self.traced("partition_led")), default=NONE)

    @property
    def leader(self) -> str | None:
        """The latest leader, whether it runs or not."""
        led = self.traced("partition_led")
        return max(led, key=lambda event: int(str(event.fields["leader_epoch"]))).host if led else None

    def is_connected(self, name: str, source: str) -> bool:
        """True if a broker has ever connected to fetch from `source`."""
        return any(event.fields["source"] == self.ids[source] for event in self.traced("fetcher_connected", by=name))

    def log_directory(self, name: str) -> str | None:
        """The log directory in which the partition is; None if it is in none."""
        return next((path for path in LOG_DIRECTORIES if self._partition_directory(name, path) is not None), None)

    def _partition_directory(self, name: str, path: str) -> Directory | None:
        try:
            found = self.host(name).volume.find(f"{path}/{TOPIC}-0")
        except OSError:
            return None
        return found if isinstance(found, Directory) else None

    def content(self, name: str) -> bytes:
        """The partition's log in a machine's page cache."""
        path = self.log_directory(name)
        directory = None if path is None else self._partition_directory(name, path)
        files = {} if directory is None else directory.entries
        segments = [file for at, file in sorted(files.items()) if at.endswith(".log") and isinstance(file, Inode)]
        return b"".join(bytes(segment.cached) for segment in segments)

    def log(self, name: str) -> list[Stored]:
        return stored_in(self.content(name))

    def values(self, name: str) -> list[str]:
        return [record.value for record in self.log(name)]

    def holds(self, name: str, *values: str) -> bool:
        return set(values) <= set(self.values(name))

    # The final check

    async def settle(self) -> None:
        """Heal everything, wait until all replicas are in sync and accept another record, and read their logs."""
        self.cluster.heal()
        await self.until(lambda: self.cluster.all_serve, "not all serve")
        for name in self.replicas:
            await self.in_sync(*self.replicas, by=name)
        with trio.move_on_after(TIMEOUT_SECONDS) as scope:
            while self.leader is None or await self.produce(self.leader, "last") is not ErrorCode.NONE:
                await trio.sleep(0.1)
        if scope.cancelled_caught:
            await self.give_up("nobody takes the last record")
        self.judge()

    def judge(self) -> None:
        """Check that all logs are equal, that no acknowledged or consumed record is lost, and that no truncation was
        needless.
        """
        assert self.leader is not None, "it has taken the last record"
        stored = {record.offset: record.value for record in self.log(self.leader)}
        for value, offset in self.acknowledged.items():
            if stored.get(offset) != value:
                self.fail(f"AcknowledgedRecordsStay: {value} was acknowledged at {offset}, there are {stored}")
        for offset, value in self.consumed.items():
            if stored.get(offset) != value:
                self.fail(f"ConsumedRecordsStay: {value} was consumed at {offset}, there are {stored}")
        for name in self.replicas:
            if self.content(name) != self.content(self.leader):
                self.fail(f"LogsAgree: {name} has {self.log(name)}, {self.leader} has {self.log(self.leader)}")
        values = list(stored.values())
        for value in values:
            if values.count(value) > 1 and value != "last":
                self.fail(f"NothingIsThereTwice: {value} in {stored}")
        if not self.is_unclean and self.traced("committed_truncated"):
            self.fail("CommittedRecordsAreNotCut: though no election was unclean")


def play(
    script: Callable[[ScriptedReplicas], Awaitable[None]],
    *,
    brokers: int = 3,
    seed: int = 1,
    is_watched: bool = False,
    log_directories: Sequence[str] = LOG_DIRECTORIES[:1],
    overrides: Mapping[str, str] | None = None,
) -> ScriptedReplicas:
    """Start a controller and brokers with Kafka's default timeouts, run the script, heal everything, and check the
    result. All nodes have the configs `overrides`.

    With `is_watched`, the invariants of replication are checked on every event. Otherwise only the final check detects
    a violation.
    """
    simulation = Simulation(str(seed))
    plan = NodePlan(0, 1, brokers, simulation.rng("subject"), log_directories, overrides)
    lost = {each.name: 0 for each in plan.nodes}
    cluster = Cluster(simulation, {each.name: plan.factory(each, lost) for each in plan.nodes})
    stage = ScriptedReplicas(
        simulation=simulation,
        cluster=cluster,
        controller=plan.controllers[0].name,
        brokers=[each.name for each in plan.brokers],
        ids={each.name: each.node_id for each in plan.nodes},
        client=cluster.add_client("client"),
    )

    async def whole() -> None:
        await cluster.wait_serving()
        async with trio.open_nursery() as stage.nursery:
            await script(stage)
            await stage.settle()
            stage.nursery.cancel_scope.cancel()

    invariants = [*process_invariants(simulation.hosts), *raft_invariants(Replicas())]
    if is_watched:
        committed = Committed({each.name: each.node_id for each in plan.brokers})
        observe_replicas(simulation, committed, [TOPIC])
        invariants += replication_invariants(committed)
    stage.perform(invariants, whole)
    return stage
