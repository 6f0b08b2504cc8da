"""The files of a running replica are compared with what it knows of them."""

import pytest

from kraft.log.slots import COPY_BYTES
from tests.support.quorum_nodes import DIRECTORY, QuorumNode, QuorumNodes, running_nodes, snapshot

LOG = f"{DIRECTORY}/{0:020}.log"
TEN = [b"topic %d" % number for number in range(10)]


def flip(node: QuorumNode, path: str, bit: int) -> None:
    """Flip a bit of a file in place, as it is seen through descriptors that are open."""
    node.disk.open(path)._inode.cached[bit // 8] ^= 1 << bit % 8


async def committed(quorum: QuorumNodes) -> QuorumNode:
    """The leader, after ten records were committed on all nodes."""
    for value in TEN:
        await quorum.commit(value)
    await quorum.until(lambda: all(node.heard.records == TEN for node in quorum.nodes.values()))
    return await quorum.leader()


async def test_intact_files_are_not_damaged() -> None:
    async with running_nodes(3) as quorum:
        await committed(quorum)
        for node in quorum.nodes.values():
            await snapshot(node)
        await quorum.commit(b"last")
        for node in quorum.nodes.values():
            assert await node.quorum.files.restore() == []
            assert await node.quorum.files.find_damage() == []


@pytest.mark.parametrize("name", ["quorum-state", "durable-end"])
async def test_every_flipped_bit_of_a_small_file_is_restored_from_memory(name: str) -> None:
    async with running_nodes(3) as quorum:
        node = await committed(quorum)
        path = f"{DIRECTORY}/{name}"
        await node.quorum.files.restore()
        for bit in range(0, len(node.disk.content(path)) * 8, 37):
            flip(node, path, bit)
            is_written = any(node.disk.content(path)[bit // 8 // COPY_BYTES * COPY_BYTES :][:COPY_BYTES])
            assert [each.path for each in await node.quorum.files.restore()] == [path] * is_written
            assert await node.quorum.files.restore() == []


async def test_every_flipped_bit_of_the_log_is_found_and_a_snapshot_replaces_it() -> None:
    async with running_nodes(3) as quorum:
        node = await committed(quorum)
        await node.quorum.files.restore()
        size = len(node.disk.content(LOG))
        for bit in range(0, size * 8, 23):
            flip(node, LOG, bit)
            (damaged,) = await node.quorum.files.find_damage()
            assert damaged.path == LOG
            assert 0 < damaged.replaced_by <= node.quorum.end_offset
            flip(node, LOG, bit)
        flip(node, LOG, 8 * 40)
        await snapshot(node)
        await quorum.until(lambda: not node.disk.exists(LOG))
        assert await node.quorum.files.find_damage() == []
        await quorum.commit(b"last")
        assert node.heard.records == [*TEN, b"last"]


async def test_a_damaged_snapshot_is_replaced_by_another_one_at_the_same_place() -> None:
    async with running_nodes(3) as quorum:
        node = await committed(quorum)
        await snapshot(node)
        (path,) = [f"{DIRECTORY}/{name}" for name in node.disk.list(DIRECTORY) if name.endswith(".checkpoint")]
        content = node.disk.content(path)
        for bit in range(0, len(content) * 8, 23):
            flip(node, path, bit)
            (damaged,) = await node.quorum.files.find_damage()
            assert damaged.path == path
            await snapshot(node)
            assert node.disk.content(path) == content
            assert await node.quorum.files.find_damage() == []


@pytest.mark.parametrize("name", ["quorum-state", "durable-end"])
async def test_small_file_that_cannot_be_read_is_restored(name: str) -> None:
    async with running_nodes(3) as quorum:
        node = await committed(quorum)
        path = f"{DIRECTORY}/{name}"
        node.disk.bad[path] = range(1)
        assert [each.path for each in await node.quorum.files.restore()] == [path]
        node.disk.bad.clear()
        assert await node.quorum.files.restore() == []


async def test_log_and_snapshot_that_cannot_be_read_are_damaged() -> None:
    """A bad sector does not end a node that need not read it."""
    async with running_nodes(3) as quorum:
        node = await committed(quorum)
        node.disk.bad[LOG] = range(100, 101)
        (damaged,) = await node.quorum.files.find_damage()
        assert (damaged.path, damaged.replaced_by > 0) == (LOG, True)
        node.disk.bad.clear()
        await snapshot(node)
        latest = node.quorum.files._snapshots.latest
        assert latest is not None
        path = node.quorum.files._snapshots.path_of(latest)
        node.disk.bad[path] = range(1)
        (damaged,) = await node.quorum.files.find_damage()
        assert damaged.path == path
        assert "Input/output error" in damaged.problem
