"""Checks for damage take turns, those of suspected records first; old records are not checked again for a while."""

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.replication.damage_checks import DamageChecks
from broker.replication.partition import Partition
from broker.storage.damage import Damage
from broker.storage.damage_search import LogPart
from kraft.env import RealDisk, RealFile
from tests.support.logs import flip
from tests.support.partition_harness import Harness
from tests.support.requests import batch, create_topic, fetch, produce
from tests.support.running_node import RunningNode
from tests.support.wire_client import WireClient

T = TypeVar("T")
BATCHES = 4


class CountingDisk(RealDisk):
    """Records the parts of logs that are checked. `on_checked` is called after each check, before its result counts."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[LogPart] = []
        self.has_descriptors = True
        self.on_checked: Callable[[], object] = lambda: None

    def open(self, path: str, *, create: bool = False) -> RealFile:
        if not self.has_descriptors:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open(path, create=create)

    async def run_apart(self, work: Callable[[], T]) -> T:
        assert isinstance(work, partial)
        self.parts.append(work.args[1])
        result = work()
        self.on_checked()
        return result


class Checked:
    """A partition with some batches, and checks of it that run."""

    def __init__(self, directory: Path) -> None:
        harness = Harness(directory)
        harness.become()
        for _ in range(BATCHES):
            harness.append()
        self.partition, self.disk, self.found = harness.partition, CountingDisk(), list[Damage]()
        self.checks = DamageChecks(self._add)

    def _add(self, partition: Partition, damage: Damage) -> None:
        self.found.append(damage)

    @property
    def count(self) -> int:
        return len(self.disk.parts)


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Checked]:
    checked = Checked(directory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checked.checks.run, checked.disk)
        yield checked
        nursery.cancel_scope.cancel()


async def test_old_records_are_checked_once_in_ten_minutes(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with running(tmp_path) as checked:
        for offset in (0, 1, 2, 0):
            checked.checks.add_old(checked.partition, offset)
        await trio.sleep(10)
        assert checked.count == 1
        await trio.sleep(580)
        checked.checks.add_old(checked.partition, 0)
        await trio.sleep(1)
        assert checked.count == 1
        await trio.sleep(20)
        checked.checks.add_old(checked.partition, 0)
        await trio.sleep(1)
        assert checked.count == 2


async def test_suspected_records_are_checked_each_time_and_first(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with running(tmp_path) as checked:
        for _ in range(3):
            checked.checks.add_old(checked.partition, 0)
            checked.checks.add(checked.partition, 1)
            await trio.sleep(1)
        # The first three are those of suspected records; after each of them, the old ones count as checked.
        assert checked.count == 3


async def test_at_most_ten_checks_are_made_in_a_second(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with running(tmp_path) as checked:
        began = trio.current_time()
        while trio.current_time() - began < 5:
            checked.checks.add(checked.partition, 0)
            await trio.sleep(0.01)
        assert 40 <= checked.count <= 51


async def test_checks_that_wait_are_bounded(tmp_path: Path, autojump_clock: MockClock) -> None:
    checked = Checked(tmp_path)
    for offset in range(1000):
        checked.checks.add(checked.partition, offset % BATCHES)
        checked.checks.add_old(checked.partition, offset)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checked.checks.run, checked.disk)
        await trio.sleep(100)
        await wait_all_tasks_blocked()
        assert checked.count == BATCHES
        nursery.cancel_scope.cancel()


async def test_damage_is_passed_on(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with running(tmp_path) as checked:
        log = checked.partition.log
        assert log is not None
        flip(log.segments.locate(2)[:2], 70)
        checked.checks.add_old(checked.partition, 0)
        await trio.sleep(1)
        assert [(damage.first_offset, damage.end_offset) for damage in checked.found] == [(2, 3)]


async def test_damage_of_records_that_are_truncated_during_the_check_is_not_passed_on(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with running(tmp_path) as checked:
        log = checked.partition.log
        assert log is not None
        flip(log.segments.locate(2)[:2], 70)
        checked.disk.on_checked = lambda: log.truncate_to(2)
        checked.checks.add(checked.partition, 0)
        await trio.sleep(1)
        assert (checked.count, checked.found, log.log_end_offset) == (1, [], 2)


async def test_damage_is_looked_for_once_in_ten_minutes_where_it_is_known(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """A client that reads the records before the damage of an only replica again and again causes no reads."""
    async with running(tmp_path) as checked:
        log = checked.partition.log
        assert log is not None
        flip(log.segments.locate(2)[:2], 70)
        for _ in range(50):
            checked.checks.add_old(checked.partition, 1)
            await trio.sleep(1)
        assert checked.count == 1


@pytest.mark.parametrize("is_old", [False, True])
async def test_check_that_finds_no_file_descriptor_is_made_later(
    tmp_path: Path, autojump_clock: MockClock, is_old: bool
) -> None:
    async with running(tmp_path) as checked:
        checks = checked.checks
        add = checks.add_old if is_old else checks.add
        for checked.disk.has_descriptors in (False, True):
            add(checked.partition, 0)
            await trio.sleep(1)
        assert (checked.count, checked.found) == (2, [])


async def test_a_consumer_that_asks_for_the_same_records_again_and_again_makes_the_leader_check_them(
    node: RunningNode, client: WireClient
) -> None:
    """As a client does that refuses a batch because of its checksum."""
    await create_topic(client)
    await produce(client, batch(b"value"))
    await fetch(client)
    partition = node.node.broker.partitions.topics["topic"].partitions[0]
    flip(partition.log.segments.locate(0)[:2], 70)
    requests = 0
    with trio.fail_after(20):
        while not node.traced.of("partition_damaged"):
            await fetch(client)
            requests += 1
            await trio.sleep(0.01)
    assert requests > 4, "some clients of one name may read the same records"
