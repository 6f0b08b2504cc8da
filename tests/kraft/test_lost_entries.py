"""Disks that lose metadata which was acknowledged: no voter votes as if it had never been, and it is fetched again."""

from collections.abc import Callable

import pytest
import trio

from kraft.log import CorruptLog
from tests.support.quorum_nodes import DIRECTORY, QuorumNode, QuorumNodes, running_nodes, snapshot

TEN = [b"topic %d" % number for number in range(10)]
LOG = f"{DIRECTORY}/{0:020}.log"
# Several elections: these nodes' election timeout is 300 ms.
LONG_S = 2.0


def flip_in_last_entry(node: QuorumNode) -> None:
    _change(node, LOG, lambda content: content[:-3] + bytes([content[-3] ^ 0x10]) + content[-2:])


def cut_last_entries(node: QuorumNode) -> None:
    _change(node, LOG, lambda content: content[: content.index(TEN[7])])


def flip_in_first_entry(node: QuorumNode) -> None:
    _change(node, LOG, lambda content: content[:30] + bytes([content[30] ^ 1]) + content[31:])


def _change(node: QuorumNode, path: str, change: Callable[[bytes], bytes]) -> None:
    content = node.disk.content(path)
    changed = change(content)
    assert changed != content
    node.disk.put(path, changed)


async def with_one_voter_away(quorum: QuorumNodes) -> tuple[QuorumNode, QuorumNode, QuorumNode]:
    """The leader and a follower that have committed ten records, and a voter that has missed them. All are down."""
    await quorum.commit(b"first")
    await quorum.until(lambda: all(node.heard.records == [b"first"] for node in quorum.nodes.values()))
    leader = await quorum.leader()
    follower, away = [node for node in quorum.nodes.values() if node is not leader]
    await away.stop()
    for value in TEN:
        await quorum.commit(value)
    await quorum.until(lambda: follower.heard.records == [b"first", *TEN])
    await follower.stop()
    await leader.stop()
    return leader, follower, away


@pytest.mark.parametrize("damage", [flip_in_last_entry, cut_last_entries, flip_in_first_entry])
async def test_a_damaged_voter_and_one_that_missed_entries_elect_no_leader(
    damage: Callable[[QuorumNode], None],
) -> None:
    async with running_nodes(3) as quorum:
        leader, damaged, away = await with_one_voter_away(quorum)
        damage(damaged)
        await quorum.start(damaged.node_id)
        await quorum.start(away.node_id)
        (loss,) = damaged.traced("log_entries_lost")
        assert loss["lost_end_offset"] > loss["end_offset"]
        with trio.move_on_after(LONG_S):
            await quorum.leader()
            pytest.fail("a leader without the acknowledged entries")

        await quorum.start(leader.node_id)
        await quorum.commit(b"last")
        await quorum.until(
            lambda: all(node.heard.records == [b"first", *TEN, b"last"] for node in quorum.nodes.values())
        )
        assert damaged.quorum.core.log.lost_end is None


async def test_a_damaged_voter_elects_one_that_has_all_that_it_acknowledged() -> None:
    async with running_nodes(3) as quorum:
        intact, damaged, _ = await with_one_voter_away(quorum)
        flip_in_last_entry(damaged)
        await quorum.start(damaged.node_id)
        await quorum.start(intact.node_id)
        assert await quorum.leader() is intact
        await quorum.until(lambda: damaged.heard.records == [b"first", *TEN])
        assert damaged.quorum.core.log.lost_end is None


async def test_a_repaired_voter_starts_again_without_a_word() -> None:
    async with running_nodes(3) as quorum:
        intact, damaged, _ = await with_one_voter_away(quorum)
        flip_in_last_entry(damaged)
        await quorum.start(damaged.node_id)
        await quorum.start(intact.node_id)
        await quorum.until(lambda: damaged.heard.records == [b"first", *TEN])
        await damaged.stop()
        damaged.events.clear()
        await quorum.start(damaged.node_id)
        assert damaged.traced("log_entries_lost") == []


async def test_a_damaged_snapshot_is_fetched_again() -> None:
    async with running_nodes(3) as quorum:
        for value in TEN:
            await quorum.commit(value)
        await quorum.until(lambda: all(node.heard.records == TEN for node in quorum.nodes.values()))
        for node in quorum.nodes.values():
            await snapshot(node)
        damaged = next(node for node in quorum.nodes.values() if not node.leads)
        await damaged.stop()
        (path,) = [f"{DIRECTORY}/{name}" for name in damaged.disk.list(DIRECTORY) if name.endswith(".checkpoint")]
        _change(damaged, path, lambda content: content[:-20] + bytes([content[-20] ^ 4]) + content[-19:])
        await quorum.start(damaged.node_id)
        (loss,) = damaged.traced("log_entries_lost")
        assert "is damaged at byte" in loss["damage"]
        assert loss["end_offset"] == 0
        await quorum.until(lambda: damaged.heard.records == TEN)
        assert damaged.quorum.core.log.lost_end is None


@pytest.mark.parametrize("damage", [flip_in_last_entry, cut_last_entries, flip_in_first_entry])
async def test_a_sole_voter_refuses_to_start_without_acknowledged_entries(
    damage: Callable[[QuorumNode], None],
) -> None:
    async with running_nodes(1) as quorum:
        (node,) = quorum.nodes.values()
        for value in TEN:
            await quorum.commit(value)
        await node.stop()
        damage(node)
        before = node.disk.content(LOG)
        for _ in range(2):
            with pytest.raises(CorruptLog, match=r"was durable\. .*kraft accept-loss"):
                await quorum.start(node.node_id)
        assert node.disk.content(LOG) == before
