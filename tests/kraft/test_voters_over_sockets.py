"""Voters are added to and removed from a running quorum, while records are appended (KIP-853)."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from kraft.core import ReplicaKey, Voter
from kraft.core.messages import AddVoterRequest, Error, RemoveVoterRequest, VoterChangeRequest
from kraft.replicated_log import NotLeader
from tests.support.directory_ids import directory_id
from tests.support.quorum_nodes import QuorumNode, QuorumNodes, running_nodes, snapshot


@asynccontextmanager
async def appending(quorum: QuorumNodes) -> AsyncIterator[list[bytes]]:
    """Append one record after the other. At the end, all running replicas have the acknowledged records."""
    acknowledged: list[bytes] = []
    stopping = trio.Event()
    stopped = trio.Event()

    async def append() -> None:
        while not stopping.is_set():
            record = b"%d" % len(acknowledged)
            await quorum.commit(record)
            acknowledged.append(record)
        stopped.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        yield acknowledged
        stopping.set()
        await stopped.wait()
    nodes = [node for node in quorum.nodes.values() if node.is_up]
    await quorum.until(lambda: all(node.heard.records[-1:] == acknowledged[-1:] for node in nodes))
    for node in nodes:
        assert list(dict.fromkeys(node.heard.records)) == acknowledged


async def change(quorum: QuorumNodes, request: VoterChangeRequest) -> None:
    """Send a voter change to the leader, again after a leader change, as an administrator would."""
    done = {Error.NONE, Error.DUPLICATE_VOTER if isinstance(request, AddVoterRequest) else Error.VOTER_NOT_FOUND}
    with trio.fail_after(10):
        while True:
            response = await (await quorum.leader()).quorum.change_voters(request)
            if response.error in done:
                return
            assert response.error in (Error.NOT_LEADER_OR_FOLLOWER, Error.REQUEST_TIMED_OUT), response


async def test_from_one_voter_to_three_and_back(figure: Callable[[str], None]) -> None:
    async with running_nodes(1, spares=2, formatted=()) as quorum, appending(quorum) as acknowledged:
        await quorum.until(lambda: len(acknowledged) > 20)
        for node_id in (2, 3):
            await change(quorum, AddVoterRequest(quorum.nodes[node_id].voter, 5_000))
        with_three = len(acknowledged)
        await quorum.until(lambda: len(acknowledged) > with_three + 20)
        assert (await quorum.leader()).quorum.core.voters.ids == (1, 2, 3)
        for node_id in (1, 3):
            await change(quorum, RemoveVoterRequest(quorum.nodes[node_id].voter.key, 5_000))
        with_one = len(acknowledged)
        await quorum.until(lambda: len(acknowledged) > with_one + 20)
        assert (await quorum.leader()).node_id == 2
        assert quorum.nodes[2].quorum.core.voters.ids == (2,)
        figure(f"{len(acknowledged)} records acknowledged meanwhile")


async def test_voter_is_added_only_at_an_address_at_which_it_answers_kip_853() -> None:
    async with running_nodes(1, spares=2, formatted=()) as quorum:
        await quorum.commit(b"record")
        leader, node, other = quorum.nodes[1].quorum, quorum.nodes[2], quorum.nodes[3]
        await quorum.until(lambda: node.heard.records == [b"record"] == other.heard.records)
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            nowhere = f"127.0.0.1:{closed.getsockname()[1]}"
            for address in (nowhere, other.voter.address, leader.core.voters.voters[0].address):
                response = await leader.change_voters(AddVoterRequest(Voter(node.voter.key, address), 5_000))
                assert (response.error, response.message) == (
                    Error.REQUEST_TIMED_OUT,
                    "Node 2 does not answer at the address that was given for it",
                )
        former = ReplicaKey(2, directory_id("lost"))
        response = await leader.change_voters(AddVoterRequest(Voter(former, node.voter.address), 5_000))
        assert (response.error, response.message) == (Error.INVALID_REQUEST, "Node 2 has another directory id")
        assert leader.core.voters.ids == (1,)
        await change(quorum, AddVoterRequest(node.voter, 5_000))
        assert leader.core.voters.ids == (1, 2)


async def test_record_that_is_committed_with_the_removal_of_its_leader_is_acknowledged_kip_853() -> None:
    """Committing both ends the leadership. Before the fix, `wait_committed` raised NotLeader for the record."""
    async with running_nodes(3) as nodes, trio.open_nursery() as nursery:
        leader = await nodes.leader()
        quorum = leader.quorum
        epoch = quorum.leadership.epoch
        offset = quorum.append(epoch, [b"last"])
        nursery.start_soon(quorum.wait_committed, epoch, offset)
        removed = await quorum.change_voters(RemoveVoterRequest(leader.voter.key, 5_000))
        assert removed.error is Error.NONE
        await nodes.until(lambda: quorum.leadership.leader_id != leader.node_id)
        await quorum.wait_committed(epoch, offset)
        with pytest.raises(NotLeader):
            await quorum.wait_committed(epoch, offset + 100)


@pytest.mark.parametrize("which", ["leader", "follower"])
async def test_a_voter_with_a_new_disk_is_removed_added_and_caught_up_by_a_snapshot(
    which: str, figure: Callable[[str], None]
) -> None:
    async with running_nodes(3, disks_known=False) as quorum, appending(quorum) as acknowledged:
        await quorum.until(lambda: all(node.quorum.core.voters == quorum.plan.voters for node in quorum.voters))
        leader = await quorum.leader()
        lost = leader if which == "leader" else next(node for node in quorum.voters if node is not leader)
        former = lost.voter.key
        await lost.stop()
        lost.wipe()
        await take_snapshots(quorum)
        await quorum.start(lost.node_id)
        began = trio.current_time()
        await quorum.until(lambda: lost.heard.snapshots == 1)
        assert not lost.quorum.core.is_voter
        await change(quorum, RemoveVoterRequest(former, 5_000))
        await change(quorum, AddVoterRequest(lost.voter, 5_000))
        await quorum.until(lambda: lost.quorum.core.is_voter)
        figure(f"{(trio.current_time() - began) * 1000:.0f} ms from its start, {len(acknowledged)} records")


async def take_snapshots(quorum: QuorumNodes) -> None:
    """Take a snapshot on every running replica."""

    def has_some(node: QuorumNode) -> bool:
        return len(node.heard.records) > 10

    for node in [node for node in quorum.nodes.values() if node.is_up]:
        await quorum.until(lambda node=node: has_some(node))
        await snapshot(node)
