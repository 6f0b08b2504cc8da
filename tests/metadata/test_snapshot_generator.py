"""Snapshots of the metadata: when they are due, and a node that starts from one."""

import errno
from collections.abc import Sequence
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kraft.log import snapshots
from metadata.controller import NewTopic, TopicToDelete
from metadata.image import MetadataImage
from tests.support.metadata import METADATA_DIRECTORY, MetadataNode, metadata_node
from tests.support.volatile_disk import VolatileDisk, VolatileFile

MINUTE_MS = 60_000


def start_offset(node: MetadataNode) -> int:
    """The start of the log, which is the last snapshot's end."""
    return node.log.core.log.start.offset


async def create(node: MetadataNode, *names: str, partitions: int = 1) -> None:
    created = await node.controller.create_topics([NewTopic(name, partitions) for name in names])
    assert all(topic.error is None for topic in created)


def names_of(image: MetadataImage) -> Sequence[str]:
    return sorted(image.topics.by_name)


async def test_snapshot_is_taken_after_max_bytes_and_loaded_by_a_restart() -> None:
    """KIP-630; metadata.log.max.record.bytes.between.snapshots."""
    disk, names = VolatileDisk(), [f"topic-{number}" for number in range(40)]
    async with metadata_node(disk, snapshot_bytes=1_500) as node:
        await node.join()
        taken = []
        for name in names:
            await create(node, name, partitions=3)
            await wait_all_tasks_blocked()
            taken.append(start_offset(node))
        assert 3 < len(set(taken)) < 10
        await node.controller.delete_topics([TopicToDelete(names[0])])
        before = node.loader.image
        assert 0 < start_offset(node) <= before.offset
    disk.power_cut(Random(1))
    async with metadata_node(disk, snapshot_bytes=1_500, seed=6) as node:
        assert start_offset(node) == taken[-1]
        assert node.loader.image == before
        assert node.controller.image == before
        (again,) = await node.controller.create_topics([NewTopic(names[1])])
        assert again.error is not None
        await create(node, names[0])
        assert names_of(node.loader.image) == sorted(names)


async def test_snapshot_is_taken_after_the_interval_if_there_are_new_records(autojump_clock: MockClock) -> None:
    """metadata.log.max.snapshot.interval.ms."""
    async with metadata_node(VolatileDisk(), snapshot_interval_ms=MINUTE_MS) as node:
        await node.join()
        await trio.sleep(59)
        assert start_offset(node) == 0
        await trio.sleep(2)
        first = start_offset(node)
        assert first == node.loader.image.offset + 1
        await trio.sleep(3600)
        assert start_offset(node) == first
        await create(node, "a")
        await trio.sleep(1)
        assert start_offset(node) == node.loader.image.offset + 1, "the last one was an hour ago"
        last = start_offset(node)
        await create(node, "b")
        await trio.sleep(58)
        assert start_offset(node) == last
        await trio.sleep(2)
        assert start_offset(node) == node.loader.image.offset + 1


async def test_no_snapshot_is_taken_by_time_without_an_interval(autojump_clock: MockClock) -> None:
    async with metadata_node(VolatileDisk(), snapshot_interval_ms=0) as node:
        await node.join()
        await trio.sleep(80_000)
        assert start_offset(node) == 0


async def test_the_bytes_before_a_restart_count() -> None:
    """These bytes are in the log, whose length the snapshots bound."""
    disk = VolatileDisk()
    for life, expected in enumerate((False, False, True)):
        async with metadata_node(disk, snapshot_bytes=3_200, seed=life) as node:
            await node.join()
            await create(node, *(f"topic-{life}-{number}" for number in range(9)))
            await wait_all_tasks_blocked()
            assert (start_offset(node) > 0) == expected


async def test_requests_continue_while_a_snapshot_is_written_and_are_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PORTION_BYTES", 1 << 12)
    disk = VolatileDisk()
    async with metadata_node(disk) as node:
        await node.join()
        await create(node, *(f"topic-{number}" for number in range(600)), partitions=10)
    async with metadata_node(disk, snapshot_bytes=100_000, seed=6) as node:
        assert start_offset(node) == 0
        end = node.loader.image.offset
        for number in range(5):
            await create(node, f"meanwhile-{number}")
        assert start_offset(node) == 0, "a snapshot of so many portions takes longer than some commits"
        with trio.fail_after(10):
            while start_offset(node) == 0:
                await trio.lowlevel.checkpoint()
        assert start_offset(node) == end + 1
        before = node.loader.image
    async with metadata_node(disk) as node:
        assert node.loader.image == before


class FillingDisk(VolatileDisk):
    """A disk without space for files whose names begin with `refused`."""

    refused = "none"

    def open(self, path: str, *, create: bool = False) -> VolatileFile:
        if create and path.startswith(self.refused):
            raise OSError(errno.ENOSPC, "no space left", path)
        return super().open(path, create=create)


async def test_failed_snapshot_write_ends_the_node(autojump_clock: MockClock) -> None:
    disk = FillingDisk()
    with pytest.RaisesGroup(pytest.RaisesExc(OSError, match="no space left"), flatten_subgroups=True):
        async with metadata_node(disk, snapshot_interval_ms=MINUTE_MS) as node:
            await node.join()
            await create(node, "kept")
            disk.refused = f"{METADATA_DIRECTORY}/{node.loader.image.offset + 1:020}-"
            await trio.sleep_forever()
    disk.refused = "none"
    async with metadata_node(disk) as node:
        assert names_of(node.loader.image) == ["kept"]


async def test_acknowledged_records_survive_power_cuts_around_snapshots() -> None:
    disk, rng, kept = VolatileDisk(), Random(7), list[str]()
    disk.during_sync = trio.lowlevel.checkpoint
    starts = set()
    for life in range(30):
        steps = rng.randrange(60)
        async with metadata_node(disk, snapshot_bytes=1_000, seed=life) as node:
            assert set(kept) <= set(node.loader.image.topics.by_name)
            starts.add(start_offset(node))

            async def creating(node: MetadataNode, life: int) -> None:
                await node.join()
                for number in range(100):
                    await create(node, f"topic-{life}-{number}")
                    kept.append(f"topic-{life}-{number}")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(creating, node, life)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        disk.power_cut(rng)
    assert len(starts) > 5
    assert len(kept) > 50
