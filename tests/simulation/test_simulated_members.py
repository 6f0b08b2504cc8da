"""The simulator's group members trust only a current leader's answer about the end of a log."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from broker.wire.errors import ErrorCode
from jepsen.history import History
from jepsen.simulation.subjects.node_plan import KAFKA_PORT
from jepsen.workloads.client import Client
from jepsen.workloads.connection import Address
from jepsen.workloads.group_member import Group, GroupMember, TopicPartition
from tests.simulation.scripted_clients import TOPIC
from tests.simulation.scripted_replicas import ScriptedReplicas, play

PARTITION = TOPIC, 0
Positions: TypeAlias = list[int | None]


class SoleMember(GroupMember):
    """A member that owns given partitions, and reads them through given brokers."""

    def __init__(self, stage: ScriptedReplicas, incarnation: int) -> None:
        self.servers: list[Address] = []
        history = History(stage.simulation.clock.current_time, stage.simulation.trace.operation)
        rng, wall = stage.simulation.rng("member"), stage.client.wall
        client = Client(
            "member", self.servers, history, rng, wall, lambda host: 0, lambda host, topic, index: incarnation
        )
        super().__init__(client, Group("alone", {TOPIC: 1}, {}, 0, lambda host, topic, index: True), commits=0.0)
        self.positions: dict[TopicPartition, int | None] = {PARTITION: 0}
        self._stage = stage

    async def reads_by(self, name: str) -> int | None:
        """Read for two seconds, starting with the given broker. Returns the position."""
        self.servers[:] = [(name, KAFKA_PORT)]
        with trio.move_on_after(2.0):
            await self._stage.simulation.on(self._stage.client, self.run)
        return self.positions[PARTITION]

    async def take_part(self) -> None:
        """Do nothing: the protocol is not tested."""

    async def leave(self) -> None:
        """Do nothing: the member has not joined."""

    def refused(self, code: ErrorCode) -> None:
        """Never called."""

    def fetch_identity(self) -> tuple[str | None, int]:
        return None, -1


def positions_in(script: Callable[[ScriptedReplicas, Positions], Awaitable[None]]) -> Positions:
    """The member's positions that a script reports, in order."""
    positions: Positions = []
    assert play(lambda stage: script(stage, positions)).violation is None
    return positions


def test_a_member_that_old_metadata_sends_to_a_deposed_leader_keeps_its_position() -> None:
    async def script(stage: ScriptedReplicas, positions: Positions) -> None:
        a, b, _ = stage.brokers
        await stage.lay_out(a, b)
        assert await stage.produce(a, "first") is ErrorCode.NONE
        loner = SoleMember(stage, incarnation=1)
        positions.append(await loner.reads_by(a))
        stage.part(a, stage.controller, *stage.others(a))
        await stage.leads(b)
        assert await stage.produce(b, "second", "third") is ErrorCode.NONE
        positions.append(await loner.reads_by(b))
        positions.append(await loner.reads_by(a))

    assert positions_in(script) == [1, 3, 3]


def test_a_member_does_not_ask_a_follower_that_led_as_old_metadata_has_it() -> None:
    """That broker knows the current leader, and has fewer records."""

    async def script(stage: ScriptedReplicas, positions: Positions) -> None:
        a, b, c = stage.brokers
        await stage.lay_out(a, b)
        assert await stage.produce(a, "first") is ErrorCode.NONE
        stage.part(c, stage.controller)
        stage.kill(a)
        await stage.leads(b)
        assert await stage.produce(b, "second", "third") is ErrorCode.NONE
        loner = SoleMember(stage, incarnation=1)
        positions.append(await loner.reads_by(b))
        stage.part(a, b)
        await stage.start(a)
        await stage.until_described(a, lambda told: told.leader_id == stage.ids[b], "b does not lead", within=20.0)
        positions.append(await loner.reads_by(c))

    assert positions_in(script) == [3, 3]


def test_member_waits_for_the_leader_while_it_is_down() -> None:
    """The follower knows the same epoch, and has fewer records."""

    async def script(stage: ScriptedReplicas, positions: Positions) -> None:
        a, b, c = stage.brokers
        await stage.lay_out(a, b)
        stage.kill(b)
        await stage.in_sync(a, by=c)
        assert await stage.produce(a, "first") is ErrorCode.NONE
        loner = SoleMember(stage, incarnation=1)
        positions.append(await loner.reads_by(a))
        stage.kill(a)
        await stage.start(b)
        await stage.until_described(b, lambda told: told.leader_id == -1, "a leads for ever", within=20.0)
        positions.append(await loner.reads_by(b))

    assert positions_in(script) == [1, 1]


def test_a_member_that_the_leader_itself_tells_that_it_is_beyond_the_end_begins_anew() -> None:
    async def script(stage: ScriptedReplicas, positions: Positions) -> None:
        a, b, _ = stage.brokers
        await stage.lay_out(a, b)
        assert await stage.produce(a, "first", "second") is ErrorCode.NONE
        loner = SoleMember(stage, incarnation=1)
        positions.append(await loner.reads_by(a))
        loner.positions[PARTITION] = 7
        positions.append(await loner.reads_by(a))

    assert positions_in(script) == [2, 2]
