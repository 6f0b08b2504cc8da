"""Attempts to repair replicas whose leader answers nothing, or during which the leader or the log changes."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from broker.replication.damaged_replicas import DamagedReplicas
from broker.replication.segment_repair import RepairFailed, SegmentRepair
from broker.storage.damage import Damage
from broker.storage.log import Log
from broker.wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kraft.env import Buffer, Disk, File, RealDisk
from tests.support.fetcher_context import REQUEST_TIMEOUT_MS, fetcher_context, leader_at
from tests.support.logs import append, flip, no_trace, read_all
from tests.support.partition_harness import A, B, Harness
from tests.support.scripted_broker import batch
from tests.support.scripted_node import scripted_node


@attrs.define
class SilentLeader:
    """The leader. `connections` counts those that were made to it."""

    port: int
    connections: int = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        with suppress(trio.BrokenResourceError):
            async for _ in stream:
                pass


@asynccontextmanager
async def silent_leader() -> AsyncIterator[tuple[DamagedReplicas, SilentLeader]]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    leader = SilentLeader(listener.socket.getsockname()[1])
    replicas = DamagedReplicas()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, leader.serve, [listener])
        nursery.start_soon(replicas.run, fetcher_context(lambda: leader_at(leader.port)))
        yield replicas, leader
        nursery.cancel_scope.cancel()


def follower(directory: Path, trace: Callable[..., None] = no_trace) -> Harness:
    """A follower with three records, of which the second one is damaged on the disk."""
    directory.mkdir()
    harness = Harness(directory, trace)
    harness.become()
    for _ in range(3):
        harness.append()
    log = harness.partition.log
    assert log is not None
    flip(log.segments.locate(1)[:2], 70)
    harness.become(epoch=1, version=1, leader=A)
    harness.follower.agrees_with_leader = True
    harness.partition.move_high_watermark(log, 3)
    return harness


def damage(harness: Harness) -> Damage:
    assert harness.partition.log is not None
    return Damage(harness.partition.log.segments[0].path, 1, 2, "a bit has flipped")


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(40):
        while not holds():
            await trio.sleep(0.1)


async def test_failed_attempts_take_a_tenth_of_the_time(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with silent_leader() as (replicas, leader):
        autojump_clock.autojump_threshold = 0.02
        harness = follower(tmp_path / "1")
        replicas.add(harness.partition, damage(harness))
        await trio.sleep(200)
        assert 3 <= leader.connections <= 5
        (replica,) = replicas.replicas.values()
        assert replica.failure


async def test_new_leader_epoch_has_an_attempt_begin_at_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with silent_leader() as (replicas, leader):
        autojump_clock.autojump_threshold = 0.02
        harness = follower(tmp_path / "1")
        replicas.add(harness.partition, damage(harness))
        (replica,) = replicas.replicas.values()
        await until(lambda: bool(replica.failure))
        assert leader.connections == 1
        harness.become(epoch=2, version=2, leader=A)
        harness.follower.agrees_with_leader = True
        replicas.reconsider([harness.partition])
        await until(lambda: leader.connections == 2)  # the pause is longer than this waits


async def test_attempt_of_an_earlier_leader_epoch_does_not_delay_the_next_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The leader is down without a word, and the attempt ends when its request times out. Another one leads by then."""
    async with silent_leader() as (replicas, leader):
        autojump_clock.autojump_threshold = 0.02
        harness = follower(tmp_path / "1")
        replicas.add(harness.partition, damage(harness))
        await until(lambda: leader.connections == 1)
        harness.become(epoch=2, version=2, leader=A)
        harness.follower.agrees_with_leader = True
        replicas.reconsider([harness.partition])
        began = trio.current_time()
        await until(lambda: leader.connections == 2)
        assert trio.current_time() - began < 2 * REQUEST_TIMEOUT_MS / 1000


async def test_repair_that_waits_for_the_comparison_with_the_leader_is_not_told_as_failed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with silent_leader() as (replicas, leader):
        autojump_clock.autojump_threshold = 0.02
        events: list[str] = []
        harness = follower(tmp_path / "1", lambda kind, /, **fields: events.append(kind))
        harness.follower.agrees_with_leader = False
        replicas.add(harness.partition, damage(harness))
        await trio.sleep(10)
        assert (leader.connections, "partition_repair_failed" in events) == (0, False)
        harness.follower.agrees_with_leader = True
        await until(lambda: leader.connections == 1)


async def test_new_leader_hands_over_while_another_replica_is_being_repaired(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Until it does, its clients look for another leader in vain."""
    async with silent_leader() as (replicas, leader):
        autojump_clock.autojump_threshold = 0.02
        becomes_leader, stays = follower(tmp_path / "1"), follower(tmp_path / "2")
        for harness in (stays, becomes_leader):
            replicas.add(harness.partition, damage(harness))
        await until(lambda: leader.connections == 1)
        becomes_leader.become(epoch=2, version=2)
        replicas.reconsider([becomes_leader.partition])
        assert becomes_leader.proposal.isr == (2, 3)


def test_leader_that_is_elected_again_hands_over_again_after_ten_seconds_and_then_after_twenty(tmp_path: Path) -> None:
    """The replica to which it has handed over may have failed before this one was repaired."""
    harness, replicas = follower(tmp_path / "1"), DamagedReplicas()
    harness.become(epoch=2, version=2)
    replicas.add(harness.partition, damage(harness))
    assert harness.proposal.isr == (2, 3)
    for epoch, pause_ms in ((3, 10_000), (4, 20_000)):
        harness.become(epoch=epoch, version=epoch)
        for wait_ms in (0, pause_ms - 1):
            harness.now_ms += wait_ms
            replicas.reconsider([harness.partition])
            assert harness.leader.in_sync.proposal is None
        harness.now_ms += 1
        replicas.reconsider([harness.partition])
        assert harness.proposal.isr == (2, 3)


@attrs.define
class AnsweringLeader:
    """A leader that has the damaged record. `before_answer` is called before it sends it."""

    harness: Harness
    before_answer: Callable[[], object] = lambda: None
    first_offset: int = 1

    def answer(self, request: FetchRequest) -> FetchResponse:
        self.before_answer()
        data = PartitionData(partition_index=0, high_watermark=3, records=batch(self.first_offset, 1))
        topic_id = self.harness.partition.topic_id
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id, partitions=[data])])

    async def repair(self, disk: Disk | None = None) -> str:
        """Have the follower's log repaired; returns why that has failed, "" if it has not."""
        async with scripted_node(self.answer) as node:
            context = fetcher_context(lambda: leader_at(node.port))
            context = attrs.evolve(context, env=attrs.evolve(context.env, disk=disk or context.env.disk))
            try:
                await SegmentRepair.of(context, self.harness.partition).run()
            except RepairFailed as error:
                return str(error)
        return ""


def damaged_follower(directory: Path) -> tuple[Harness, Log]:
    harness = follower(directory)
    log = harness.partition.log
    assert log is not None
    log.segments.add_damage(damage(harness))
    return harness, log


async def test_repair_puts_the_record_of_the_leader_in_the_place_of_the_damaged_one(tmp_path: Path) -> None:
    harness, log = damaged_follower(tmp_path / "1")
    assert await AnsweringLeader(harness).repair() == ""
    assert [record.value for record in read_all(log)] == [b"value", b"1", b"value"]


@pytest.mark.parametrize("change", ["another leader", "truncation"])
async def test_repair_changes_nothing_if_the_leader_or_the_log_changes_meanwhile(tmp_path: Path, change: str) -> None:
    """The records of the former leader, or of the former end of the log, need not be those of the new one."""
    harness, log = damaged_follower(tmp_path / "1")
    changes = {
        "another leader": lambda: harness.become(epoch=2, version=2, leader=B),
        "truncation": lambda: log.truncate_to(2),
    }
    leader, segment = AnsweringLeader(harness, changes[change]), log.segments[0]
    assert await leader.repair() == "the leader or the log has changed meanwhile"
    assert log.segments[0] is segment
    assert log.segments.damaged is not None
    assert [(each.first_offset, each.end_offset) for each in log.segments.damaged.ranges] == [(1, 2)]


class MeasuredFile:
    """A file whose disk notes the sizes of its writes."""

    def __init__(self, file: File, sizes: list[int]) -> None:
        self._file, self._sizes = file, sizes

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        self._sizes.append(sum(map(len, buffers)))
        self._file.write(offset, buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class MeasuredDisk(RealDisk):
    """Notes the sizes of the writes to the logs of replacements."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def open(self, path: str, *, create: bool = False) -> Any:
        file = super().open(path, create=create)
        return MeasuredFile(file, self.sizes) if path.endswith(".log.cleaned") else file


async def test_repair_of_a_large_segment_holds_a_piece_of_it_in_memory(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    harness, piece = Harness(tmp_path / "1"), 1 << 20
    harness.become()
    log = harness.partition.log
    assert log is not None
    for number in range(40):
        append(log, bytes(100_000 if number < 39 else 10))
    flip(log.segments.locate(39)[:2], 70)
    log.segments.add_damage(Damage(log.segments[0].path, 39, 40, "a bit has flipped"))
    harness.become(epoch=1, version=1, leader=A)
    harness.follower.agrees_with_leader = True
    harness.partition.move_high_watermark(log, 40)
    disk = MeasuredDisk()
    assert await AnsweringLeader(harness, first_offset=39).repair(disk) == ""
    assert sum(disk.sizes) > 3.9 * 10**6
    assert max(disk.sizes) <= piece
