"""A rolled segment is flushed at once in the background, and moves the recovery point (UnifiedLog.roll)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from broker.storage.log_queues import FLUSHING_TASKS
from kraft.env import FsyncFailed
from tests.support.faulty_disk import FaultyDisk
from tests.support.storage_node import CONFIG, ORDERS, Node, produce

# Far less than the 10 s between checks for due flushes.
SOON_S = 5


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def node(tmp_path: Path, disk: FaultyDisk) -> Node:
    node = Node(tmp_path)
    node.env = attrs.evolve(node.env, disk=disk)
    return node


@asynccontextmanager
async def looked_after(node: Node) -> AsyncIterator[None]:
    with trio.fail_after(SOON_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.housekeeping().run)
            await trio.testing.wait_all_tasks_blocked()  # the first check for due flushes is over
            yield
            nursery.cancel_scope.cancel()


async def until_recovered_from(log, offset: int) -> None:
    while log.durability.recovery_point < offset:
        await trio.sleep(0.001)


async def test_roll_moves_the_recovery_point(node: Node) -> None:
    log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
    async with looked_after(node):
        for end_offset in (3, 6, 9):
            produce(log, 3)
            log.roll()
            await until_recovered_from(log, end_offset)
            produce(log, 1)
            assert log.durability.recovery_point == end_offset
            log.truncate_to(end_offset)
            await log.durability.settle()


async def test_rolled_segment_is_durable_before_the_recovery_point_moves(node: Node, disk: FaultyDisk) -> None:
    log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
    async with looked_after(node):
        produce(log, 3)
        disk.synced.clear()
        log.roll()
        await until_recovered_from(log, 3)
        synced = {path.rpartition("/")[2] for path in disk.synced}
    first = "00000000000000000000"
    assert {f"{first}.log", f"{first}.index", f"{first}.timeindex", "00000000000000000003.snapshot"} <= synced
    assert "00000000000000000003.log" not in synced


async def test_log_truncated_during_the_flush_keeps_a_recovery_point_within_it(node: Node, disk: FaultyDisk) -> None:
    log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
    async with looked_after(node):
        for _ in range(3):
            produce(log, 1)
        disk.held = trio.Event()
        log.roll()
        await trio.testing.wait_all_tasks_blocked()
        log.truncate_to(1)
        disk.held.set()
        await log.durability.settle()
        produce(log, 5)
        await trio.testing.wait_all_tasks_blocked()
        assert log.durability.recovery_point <= 1


async def test_log_deleted_during_the_flush_is_no_error(node: Node, disk: FaultyDisk) -> None:
    log_manager = await node.start()
    log = log_manager.create("orders", ORDERS, 0, CONFIG)
    other = log_manager.create("orders", ORDERS, 1, CONFIG)
    async with looked_after(node):
        produce(log, 3)
        disk.held = trio.Event()
        log.roll()
        await trio.testing.wait_all_tasks_blocked()
        log_manager.delete("orders", 0)
        disk.held.set()
        produce(other, 3)
        other.roll()
        await until_recovered_from(other, 3)
        assert log_manager.is_online(str(node.a))
        assert log_manager.is_online(str(node.b))


async def test_failed_fsync_of_a_rolled_segment_ends_the_node(node: Node, disk: FaultyDisk) -> None:
    log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
    with pytest.RaisesGroup(FsyncFailed, flatten_subgroups=True):
        async with looked_after(node):
            produce(log, 3)
            disk.unsyncable = (log.directory,)
            log.roll()
            await trio.sleep_forever()


async def test_directory_that_fails_during_the_flush_goes_offline_alone(node: Node, disk: FaultyDisk) -> None:
    log_manager = await node.start()
    log = log_manager.create("orders", ORDERS, 0, CONFIG)
    async with looked_after(node):
        produce(log, 3)
        log.epochs.dirty = True  # the flush writes the file
        log.roll()
        disk.failing = (f"{log.directory}/leader-epoch-checkpoint",)
        while log_manager.is_online(str(node.a)):
            await trio.sleep(0.001)
        assert log_manager.is_online(str(node.b))


async def test_at_most_ten_rolled_logs_are_flushed_at_the_same_time(node: Node, disk: FaultyDisk) -> None:
    """All of them are flushed in the end, including those added while all tasks were busy."""
    log_manager = await node.start()
    logs = [log_manager.create("orders", ORDERS, index, CONFIG) for index in range(3 * FLUSHING_TASKS)]
    async with looked_after(node):
        while any(log.durability.is_new_directory for log in logs):  # another task syncs their creation
            await trio.sleep(0.001)
        disk.held = trio.Event()
        for log in logs:
            produce(log, 3)
            log.roll()
        await trio.testing.wait_all_tasks_blocked()
        assert disk.held.statistics().tasks_waiting == FLUSHING_TASKS
        disk.held.set()
        for log in logs:
            await until_recovered_from(log, 3)
