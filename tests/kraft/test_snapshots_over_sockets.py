"""Snapshots in a running quorum: they truncate the log, and lagging replicas fetch them."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from trio.testing import wait_all_tasks_blocked

from kraft import inbound_requests
from kraft.core import OffsetAndEpoch, VoterSet
from kraft.core.messages import AddVoterRequest, Error, RemoveVoterRequest
from kraft.log import CorruptLog, Snapshots, snapshots
from tests.support.faulty_disk import FaultyDisk
from tests.support.quorum_nodes import DIRECTORY, QuorumNode, running_nodes, snapshot
from tests.support.volatile_disk import VolatileDisk

PLACE = OffsetAndEpoch(7, 2)


def files(node: QuorumNode) -> list[str]:
    return [name for name in node.disk.list(DIRECTORY) if name not in ("quorum-state", "durable-end")]


async def test_a_follower_that_was_away_fetches_the_snapshot_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-630."""
    monkeypatch.setattr(inbound_requests, "SNAPSHOT_BYTES_MAX", 100)
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        leader = await quorum.leader()
        away = next(node for node in quorum.nodes.values() if node is not leader)
        await away.stop()
        expected = [b"a", *(b"%d" % number * 20 for number in range(20))]
        for value in expected[1:]:
            await quorum.commit(value)
        await snapshot(leader)
        await quorum.commit(b"after")
        await quorum.start(away.node_id)
        await quorum.until(lambda: away.heard.records == [*expected, b"after"])
        assert away.heard.snapshots == 1
        assert away.traced("snapshot_installed")


async def test_snapshots_truncate_the_log_and_replicas_restart_from_them() -> None:
    async with running_nodes(3) as quorum:
        expected = [b"%d" % number for number in range(10)]
        for value in expected:
            await quorum.commit(value)
        await quorum.until(lambda: all(node.heard.records == expected for node in quorum.nodes.values()))
        for node in quorum.nodes.values():
            await snapshot(node)
            start = node.quorum.core.log.start
            left = [f"{start.offset:020}-{start.epoch:010}.checkpoint", f"{start.offset:020}.log"]
            await quorum.until(lambda node=node, left=left: files(node) == left)
        await quorum.commit(b"after")
        for node in quorum.nodes.values():
            await node.stop()
            node.disk.power_cut(Random(node.node_id))
        for node_id in quorum.nodes:
            await quorum.start(node_id)
        await quorum.commit(b"again")
        expected += [b"after", b"again"]
        await quorum.until(lambda: all(node.heard.records == expected for node in quorum.nodes.values()))
        assert all(node.heard.snapshots == 1 for node in quorum.nodes.values())
        assert all(node.quorum.core.voters.ids == (1, 2, 3) for node in quorum.nodes.values())


async def test_voter_with_a_lost_disk_is_removed_catches_up_and_is_added_again() -> None:
    """KIP-853: the returning node is another replica with the same node id."""
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        leader = await quorum.leader()
        lost = next(node for node in quorum.nodes.values() if node is not leader)
        former = lost.voter
        await lost.stop()
        await quorum.commit(b"b")
        await snapshot(leader)
        lost.wipe()
        await quorum.start(lost.node_id)
        removed = await leader.quorum.change_voters(RemoveVoterRequest(former.key, 5_000))
        assert removed.error is Error.NONE
        await quorum.commit(b"c")
        added = await leader.quorum.change_voters(AddVoterRequest(lost.voter, 5_000))
        assert added.error is Error.NONE
        await quorum.commit(b"d")
        await quorum.until(lambda: lost.heard.records == [b"a", b"b", b"c", b"d"])
        assert lost.quorum.core.is_voter


async def saved(records: list[bytes]) -> tuple[VolatileDisk, Snapshots]:
    disk = VolatileDisk()
    store = await Snapshots.open(disk, DIRECTORY)
    await store.save(PLACE, VoterSet(), records)
    return disk, store


async def test_a_snapshot_is_read_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PORTION_BYTES", 10)
    _, store = await saved([b"%05d" % number for number in range(5)])
    portions = list(store.open_snapshot(PLACE).portions)
    assert portions == [(b"00000", b"00001"), (b"00002", b"00003"), (b"00004",)]


async def test_an_empty_state_has_a_snapshot_too() -> None:
    _, store = await saved([])
    assert list(store.open_snapshot(PLACE).portions) == []


async def test_a_snapshot_survives_a_power_cut_and_a_half_one_is_removed() -> None:
    disk, store = await saved([b"record"])
    store.write_part(OffsetAndEpoch(9, 2), 0, b"some bytes")
    disk.power_cut(Random(2))
    store = await Snapshots.open(disk, DIRECTORY)
    assert store.latest == PLACE
    assert disk.list(DIRECTORY) == [f"{7:020}-{2:010}.checkpoint"]
    assert list(store.open_snapshot(PLACE).portions) == [(b"record",)]


async def test_snapshot_that_a_full_disk_refused_is_removed(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = await Snapshots.open(disk, str(tmp_path))

    def records() -> Iterator[bytes]:
        for number in range(5):
            if number == 3:
                assert disk.list(str(tmp_path)), "the others are written"
                disk.failing = (str(tmp_path),)
            yield b"%d" % number * snapshots.PORTION_BYTES

    with pytest.raises(OSError, match="EIO"):
        await store.save(PLACE, VoterSet(), records())
    assert disk.list(str(tmp_path)) == []
    assert store.latest is None


async def test_snapshot_is_given_up_when_a_later_one_is_installed() -> None:
    disk = VolatileDisk()
    store = await Snapshots.open(disk, DIRECTORY)
    asked = []

    def records() -> Iterator[bytes]:
        for number in range(5):
            asked.append(number)
            if number == 2:
                store.latest = OffsetAndEpoch(9, 2)
            yield b"%d" % number * snapshots.PORTION_BYTES

    assert not await store.save(PLACE, VoterSet(), records())
    assert disk.list(DIRECTORY) == []
    assert asked == [0, 1, 2]
    assert store.latest == OffsetAndEpoch(9, 2)


async def test_partial_snapshot_is_removed_when_it_is_discarded() -> None:
    disk, store = await saved([b"record"])
    store.write_part(OffsetAndEpoch(9, 2), 0, b"some bytes")
    await store.discard_part(OffsetAndEpoch(9, 2))
    await store.discard_part(OffsetAndEpoch(9, 2))
    assert disk.list(DIRECTORY) == [f"{7:020}-{2:010}.checkpoint"]


async def test_damaged_snapshot_is_refused() -> None:
    disk, store = await saved([b"record"] * 3)
    path = f"{DIRECTORY}/{7:020}-{2:010}.checkpoint"
    content = disk.content(path)
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        for bad in (bytes(damaged), content[:position]):
            disk.put(path, bad)
            with pytest.raises(CorruptLog):
                list(store.open_snapshot(PLACE).portions)
            disk.put(path + ".part", bad)
            with pytest.raises(CorruptLog):
                await store.install(PLACE)
    await wait_all_tasks_blocked()
