"""A cluster for scripted tests of groups: a controller, three brokers, a topic of two partitions, and scripted members.

All operations are recorded, and finally checked for the promises to groups.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from broker.client import ConnectionLost
from broker.coordinator.internal_topics import CONSUMER_OFFSETS
from broker.coordinator.runtime.java_hash import java_hash
from broker.wire.api.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from broker.wire.api.create_topics import CreatableTopicConfig as Config
from broker.wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from broker.wire.errors import ErrorCode
from jepsen.checkers import GROUP_CHECKERS, QUEUE_CHECKERS
from jepsen.history import History
from jepsen.simulation.cluster import Cluster
from jepsen.simulation.hosts import Host
from jepsen.simulation.invariants import Committed, Replicas, process_invariants, raft_invariants
from jepsen.simulation.simulation import Simulation
from jepsen.simulation.subjects.data import observe_replicas
from jepsen.simulation.subjects.node_plan import KAFKA_PORT, NodePlan
from jepsen.values import Commit, CommittedRead
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Connection
from jepsen.workloads.group_classic import ClassicMember
from jepsen.workloads.group_consumer import ConsumerMember
from jepsen.workloads.group_member import Group, GroupMember
from tests.simulation.scripted_run import ScriptedRun

TOPIC: Final = "topic"
GROUP: Final = "group"
TIMEOUT_SECONDS: Final = 20.0
FOR_GOOD: Final = float("inf")
_OFFSETS_PARTITIONS: Final = 1


@attrs.define(kw_only=True)
class ScriptedGroups(ScriptedRun):
    """The first of `brokers` coordinates the group until the script causes a failure."""

    controller: str
    brokers: list[str]
    ids: Mapping[str, int]
    client: Host
    history: History
    committed: Committed
    group: Group | None = None

    # Machines

    def kill(self, name: str) -> None:
        self.cluster.crash(self.cluster.nodes[name], power=False, down_seconds=FOR_GOOD)

    async def start(self, *names: str) -> None:
        for name in names:
            self.cluster.nodes[name].held_down_until = 0.0
        await self.until(lambda: all(self.cluster.nodes[name].is_serving for name in names), f"{names} do not serve")

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        with trio.move_on_after(TIMEOUT_SECONDS):
            while not holds():
                await trio.sleep(0.01)
            return
        self.fail(f"Liveness: {what}")
        await trio.lowlevel.checkpoint()

    async def coordinates(self, name: str) -> None:
        """Wait until a broker has loaded the group in the latest leader epoch."""

        def holds() -> bool:
            image = self.committed.image.topics.by_name[CONSUMER_OFFSETS].partitions[0]
            loaded = [event for event in self.events_by_kind.get("coordinator_loaded", ()) if event.host == name]
            epochs = [event.fields["epoch"] for event in loaded]
            return image.leader == self.ids[name] and image.leader_epoch in epochs

        await self.until(holds, f"{name} does not coordinate")

    async def in_sync(self, *names: str) -> None:
        """Wait until these brokers are the ISR of the offsets partition."""
        ids = sorted(self.ids[name] for name in names)
        await self.until(
            lambda: sorted(self.committed.image.topics.by_name[CONSUMER_OFFSETS].partitions[0].isr) == ids,
            f"{names} are not in sync",
        )

    # Requests

    async def ask(self, name: str, request: Any, version: int) -> Any:
        """A broker's response. Raises ConnectionLost."""
        return await self.simulation.on(self.client, self._ask, name, request, version)

    async def _ask(self, name: str, request: Any, version: int) -> Any:
        connection = await Connection.open((name, KAFKA_PORT), 0)
        try:
            return await connection.call(request, version)
        finally:
            await connection.aclose()

    async def lay_out(self, *, partitions: int = 2) -> None:
        """Create the offsets topic, which the first broker leads, and the topic to consume."""
        for name, count in ((CONSUMER_OFFSETS, _OFFSETS_PARTITIONS), (TOPIC, partitions)):
            assignments = [
                CreatableReplicaAssignment(partition_index=index, broker_ids=[self.ids[each] for each in self.brokers])
                for index in range(count)
            ]
            topic = CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=assignments,
                configs=[Config(name="min.insync.replicas", value="2")],
            )
            response = await self.ask(self.brokers[0], CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
            assert response.topics[0].error_code == 0, response.topics[0].error_message
        await self.coordinates(self.brokers[0])
        await self.until(lambda: self._knows_topic(self.brokers[0]), "nobody leads the topic")
        ids = {self.committed.image.topics.by_name[TOPIC].topic_id: TOPIC}
        index = java_hash(GROUP) % _OFFSETS_PARTITIONS
        self.group = Group(GROUP, {TOPIC: partitions}, ids, index, lambda host, topic, partition: True)

    def _knows_topic(self, name: str) -> bool:
        topic = self.committed.image.topics.by_name.get(TOPIC)
        led = [each for each in self.events_by_kind.get("partition_led", ()) if each.host == name]
        return topic is not None and any(each.fields["topic_id"] == topic.topic_id.hex() for each in led)

    async def commit(
        self,
        name: str,
        offset: int,
        *,
        member: GroupMember | None = None,
        generation: int | None = None,
        index: int = 0,
    ) -> ErrorCode | None:
        """A broker's response to a commit, of a member or without one; None without a response."""
        epoch = generation if generation is not None else -1 if member is None else member.generation
        member_id = "" if member is None else member.member_id
        value = Commit(GROUP, member_id, epoch, ((TOPIC, index, offset),))
        await trio.sleep(0.001)  # so that the next operation has a later time
        operation = self.history.invoke(f"commits-{member_id}", "commit", value)
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=None if member is None else member.instance,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        try:
            response = await self.ask(name, request, 9)
        except ConnectionLost as error:
            self.history.info(operation, str(error))
            return None
        code = ErrorCode(response.topics[0].partitions[0].error_code)
        if code is ErrorCode.NONE:
            self.history.ok(operation, None)
        else:
            self.history.info(operation, code.name)
        return code

    async def told(self, name: str, index: int = 0) -> int | None:
        """The group's committed offset according to a broker; None if it does not know."""
        await trio.sleep(0.001)
        operation = self.history.invoke("asks", "fetch-committed", CommittedRead(GROUP, "", ((TOPIC, index),)))
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[index])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
        try:
            response = await self.ask(name, request, 8)
        except ConnectionLost as error:
            self.history.info(operation, str(error))
            return None
        (group,) = response.groups
        if group.error_code:
            self.history.fail(operation, ErrorCode(group.error_code).name)
            return None
        offset: int = group.topics[0].partitions[0].committed_offset
        self.history.ok(operation, ((TOPIC, index, offset),))
        return offset

    # Members

    def member(
        self, kind: type[ClassicMember] | type[ConsumerMember], name: str, instance: str | None = None
    ) -> GroupMember:
        assert self.group is not None, "topics come first"
        servers = [(each, KAFKA_PORT) for each in self.brokers]
        rng, wall = self.simulation.rng(f"client/{name}"), self.client.wall
        client = Client(name, servers, self.history, rng, wall, lambda host: 0, lambda host, topic, index: 0)
        return kind(client, self.group, instance)

    async def takes_part(self, *members: GroupMember, owning: Sequence[int]) -> None:
        """Let members follow the protocol concurrently, until they own these numbers of partitions."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.takes_part_for, TIMEOUT_SECONDS, *members)
            await self.until(
                lambda: [len(member.positions) for member in members] == list(owning),
                f"{[member.positions for member in members]} is not {owning}",
            )
            nursery.cancel_scope.cancel()

    async def takes_part_for(self, seconds: float, *members: GroupMember) -> None:
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for member in members:
                    nursery.start_soon(self.simulation.on, self.client, _take_part, member)

    def judge(self) -> None:
        for checker in (*GROUP_CHECKERS, *QUEUE_CHECKERS):
            for anomaly in checker.check(self.history):
                self.fail(str(anomaly))


async def _take_part(member: GroupMember) -> None:
    while True:
        with suppress(ConnectionLost):
            await member.take_part()
        await trio.sleep(0.1)


def play(script: Callable[[ScriptedGroups], Awaitable[None]], *, seed: int = 1) -> ScriptedGroups:
    """Start the nodes and run the script; then check the recorded operations."""
    simulation = Simulation(str(seed))
    plan = NodePlan(0, 1, 3, simulation.rng("subject"))
    lost = {each.name: 0 for each in plan.nodes}
    cluster = Cluster(simulation, {each.name: plan.factory(each, lost) for each in plan.nodes})
    committed = Committed({each.name: each.node_id for each in plan.brokers})
    observe_replicas(simulation, committed, [CONSUMER_OFFSETS])
    stage = ScriptedGroups(
        simulation=simulation,
        cluster=cluster,
        controller=plan.controllers[0].name,
        brokers=[each.name for each in plan.brokers],
        ids={each.name: each.node_id for each in plan.brokers},
        client=cluster.add_client("client"),
        history=History(simulation.clock.current_time, simulation.trace.operation),
        committed=committed,
    )

    async def whole() -> None:
        await cluster.wait_serving()
        await script(stage)
        stage.judge()

    stage.perform([*process_invariants(simulation.hosts), *raft_invariants(Replicas())], whole)
    return stage
