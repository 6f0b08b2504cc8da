"""Requests of unknown peers on the quorum's port are refused and have no effect (README, "Ports")."""

import pytest
import trio

from kraft.core import OffsetAndEpoch, ReplicaKey
from kraft.core.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    UpdateVoterRequest,
    VoteRequest,
)
from kraft.core.voters import Voter
from kraft.frames import Frames, PeerConnectionLost
from kraft.handshake import Hello, decode_hello, hello
from kraft.message_codec import decode_response, encode, encode_request
from tests.support.directory_ids import directory_id
from tests.support.quorum_nodes import QuorumNode, running_nodes

STRANGER = ReplicaKey(9, directory_id("d9"))
END = OffsetAndEpoch(1_000, 1)


async def ask(node: QuorumNode, peer: ReplicaKey, request: Request, cluster_id: str = "cluster") -> Response:
    """Raises PeerConnectionLost if the node refuses to answer."""
    stream = await trio.open_tcp_stream("127.0.0.1", node.port)
    async with stream:
        frames = Frames(stream)
        with trio.fail_after(5):
            await frames.send(encode(hello(cluster_id, peer)))
            await frames.send(encode_request(7, request))
            answered: Hello = decode_hello(await frames.receive())
            if answered.refusal:
                raise PeerConnectionLost(answered.refusal)
            return decode_response(await frames.receive())[1]


async def test_node_of_another_cluster_is_refused_with_a_reason() -> None:
    async with running_nodes(1) as quorum:
        leader = await quorum.leader()
        with pytest.raises(PeerConnectionLost, match="belongs to cluster cluster, not another"):
            await ask(leader, STRANGER, FetchRequest(1, STRANGER, OffsetAndEpoch(0, 0), 0), "another")
        assert leader.quorum.describe().observer_states == ()


@pytest.mark.parametrize(
    "request_",
    [
        FetchRequest(1, ReplicaKey(2**40, ""), OffsetAndEpoch(0, 0), 0),
        FetchRequest(1, ReplicaKey(9, "not a uuid"), OffsetAndEpoch(0, 0), 0),
        FetchRequest(1, ReplicaKey(8, directory_id("d8")), OffsetAndEpoch(0, 0), 0),
        VoteRequest(5, ReplicaKey(1, directory_id("dir1")), ReplicaKey(1, directory_id("dir1")), END, False),
        VoteRequest(5, ReplicaKey(9, "x" * 600), ReplicaKey(1, directory_id("dir1")), END, False),
        EndEpochRequest(1, 1, ()),
        FetchSnapshotRequest(1, STRANGER, END, -1),
        FetchSnapshotRequest(1, STRANGER, END, 2**63),
        UpdateVoterRequest(Voter(ReplicaKey(1, directory_id("dir1")), "nowhere:1"), 1_000),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_request_with_invalid_ids_or_of_another_sender_ends_its_connection(request_: Request) -> None:
    async with running_nodes(1) as quorum:
        leader = await quorum.leader()
        with pytest.raises(PeerConnectionLost):
            await ask(leader, STRANGER, request_)
        await quorum.commit(b"still there")
        assert leader.quorum.describe().observer_states == ()
        assert leader.quorum.core.epoch == 1


@pytest.mark.parametrize("peer", [STRANGER, ReplicaKey(2, directory_id("another disk".replace(" ", "-")))])
async def test_claims_of_an_unknown_peer_have_no_effect(peer: ReplicaKey) -> None:
    """Neither an unknown node nor one with a voter's node id and another directory id has an effect."""
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        for node in quorum.nodes.values():
            if node.node_id == peer.node_id:
                continue
            before = (node.quorum.core.epoch, node.quorum.core.leader_id)
            claims: list[Request] = [
                VoteRequest(before[0] + 1, peer, node.voter.key, END, pre_vote=False),
                BeginEpochRequest(before[0] + 1, peer.node_id, "127.0.0.1:1", node.voter.key),
                EndEpochRequest(before[0] + 1, peer.node_id, (node.node_id,)),
                UpdateVoterRequest(Voter(peer, "127.0.0.1:1"), 1_000),
            ]
            for claim in claims:
                assert (await ask(node, peer, claim)).error in (Error.VOTER_NOT_FOUND, Error.INVALID_VOTER_KEY)
            assert (node.quorum.core.epoch, node.quorum.core.leader_id) == before
        assert (await quorum.leader()).quorum.core.voters == quorum.plan.voters


async def test_unknown_peer_may_fetch_the_log() -> None:
    async with running_nodes(1) as quorum:
        await quorum.commit(b"a")
        leader = await quorum.leader()
        response = await ask(leader, STRANGER, FetchRequest(1, STRANGER, OffsetAndEpoch(0, 0), 0))
        assert isinstance(response, FetchResponse)
        assert b"a" in [record for batch in response.batches for record in batch.records]


async def test_snapshot_position_past_the_end_is_answered_without_bytes() -> None:
    async with running_nodes(1, formatted=[b"a"]) as quorum:
        leader = await quorum.leader()
        request = FetchSnapshotRequest(1, STRANGER, OffsetAndEpoch(0, 0), 2**62)
        response = await ask(leader, STRANGER, request)
        assert isinstance(response, FetchSnapshotResponse)
        assert (response.error, response.data) == (Error.NONE, b"")


async def test_node_that_reaches_another_cluster_traces_it_once() -> None:
    async with running_nodes(1) as theirs, running_nodes(2) as ours:
        stranger = theirs.nodes[1]
        victim = ours.nodes[2]
        await ours.commit(b"a")
        await victim.stop()
        await stranger.stop()
        stranger.cluster_id = "another"
        stranger.port, stranger.node_id = victim.port, victim.node_id
        await theirs.start(1)
        leader = ours.nodes[1]
        await ours.until(lambda: bool(leader.traced("quorum_connection_refused")))
        await trio.sleep(0.5)
        (refused,) = leader.traced("quorum_connection_refused")
        assert "belongs to cluster another, not cluster" in refused["reason"]
