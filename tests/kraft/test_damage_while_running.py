"""Bits that flip in the files of a running leader: followers get nothing damaged, and the leader goes on."""

from collections.abc import Iterator

import trio

from tests.support.quorum_nodes import DIRECTORY, QuorumNode, QuorumNodes, running_nodes, snapshot

TEN = [b"topic %d" % number for number in range(10)]
LOG = f"{DIRECTORY}/{0:020}.log"


async def with_one_voter_away(quorum: QuorumNodes) -> tuple[QuorumNode, QuorumNode]:
    """The leader, which has committed ten records, and a voter that has missed them and is down."""
    leader = await quorum.leader()
    away = next(node for node in quorum.nodes.values() if node is not leader)
    await away.stop()
    for value in TEN:
        await quorum.commit(value)
    return leader, away


def flip(node: QuorumNode, path: str, value: bytes) -> None:
    """Flip a bit of this value in a file."""
    node.disk.flip(path, node.disk.content(path).index(value))


async def test_follower_waits_for_a_snapshot_in_place_of_a_damaged_entry() -> None:
    async with running_nodes(3) as quorum:
        leader, away = await with_one_voter_away(quorum)
        flip(leader, LOG, TEN[4])
        await quorum.start(away.node_id)
        await quorum.until(lambda: leader.traced("log_entry_damaged") != [])
        await quorum.until(lambda: away.heard.records == TEN[:4])
        await quorum.commit(b"later")
        assert leader.leads
        assert len(leader.traced("log_entry_damaged")) == 1
        assert away.heard.records == TEN[:4]
        with trio.fail_after(10):
            await leader.quorum.files.wait_suspected()
        await snapshot(leader)
        await quorum.until(lambda: away.heard.records == [*TEN, b"later"])
        assert away.heard.snapshots == 1


async def test_followers_elect_another_leader_if_an_entry_is_damaged_before_they_have_it() -> None:
    async with running_nodes(3) as quorum:
        await quorum.commit(b"first")
        leader = await quorum.leader()
        followers = [node for node in quorum.nodes.values() if node is not leader]
        await quorum.until(lambda: all(node.heard.records == [b"first"] for node in followers))
        for node in followers:
            await node.stop()
        epoch = leader.quorum.leadership.epoch
        leader.quorum.append(epoch, [b"damaged"])
        await quorum.until(lambda: b"damaged" in leader.disk.content(LOG))
        leader.quorum.append(epoch, [b"after"])  # only the last entry is read from memory
        await quorum.until(lambda: b"after" in leader.disk.content(LOG))
        flip(leader, LOG, b"damaged")
        for node in followers:
            await quorum.start(node.node_id)
        await quorum.until(lambda: any(node.leads for node in followers))
        await quorum.commit(b"last")
        await quorum.until(lambda: all(node.heard.records == [b"first", b"last"] for node in quorum.nodes.values()))


async def test_snapshot_that_is_fetched_again_is_checked() -> None:
    """The follower refuses it for its checksums."""
    async with running_nodes(3) as quorum:
        leader, away = await with_one_voter_away(quorum)
        await snapshot(leader)
        (path,) = paths_of_snapshots(leader)
        flip(leader, path, TEN[4])
        await quorum.start(away.node_id)
        with trio.fail_after(10):
            await leader.quorum.files.wait_suspected()
        assert [each.path for each in await leader.quorum.files.find_damage()] == [path]
        await snapshot(leader)
        await quorum.until(lambda: away.heard.records == TEN)
        assert away.traced("snapshot_refused") != []


def paths_of_snapshots(node: QuorumNode) -> Iterator[str]:
    return (f"{DIRECTORY}/{name}" for name in node.disk.list(DIRECTORY) if name.endswith(".checkpoint"))
