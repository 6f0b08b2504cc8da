"""Replicas survive any frames on the quorum's port: from unknown peers, from a voter with a bug, and as responses.

`jepsen.hostile.quorum_composer` makes the messages from a seed and from the state of the receiving replica, so that
they pass its first checks. `--full` makes fifty times as many.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest
import trio

from jepsen.hostile.quorum_composer import QuorumComposer, Situation
from kraft.core import ReplicaKey
from kraft.core.messages import BeginEpochRequest
from kraft.frames import Frames, PeerConnectionLost
from kraft.handshake import hello
from kraft.message_codec import decode_request, encode, encode_request
from kraft.msgpack_reading import MalformedMessage
from tests.support.directory_ids import directory_id
from tests.support.quorum_nodes import QuorumNode, QuorumNodes, running_nodes

FRAMES = 1_000
STRANGER = ReplicaKey(9, directory_id("d9"))
# The voter that the test impersonates. It never runs.
LIAR = 3


@pytest.fixture
def frames(full: bool) -> int:
    return FRAMES * (50 if full else 1)


def situation(node: QuorumNode, me: ReplicaKey) -> Situation:
    core = node.quorum.core
    return Situation(me, core.voters, core.epoch, core.log.end, core.log.start)


async def bombard(node: QuorumNode, composer: QuorumComposer, rng: Random, count: int) -> None:
    """Send `count` frames to a replica, over as many connections as needed."""
    sent = 0
    me = composer.situation.me
    while sent < count:
        stream = await trio.open_tcp_stream("127.0.0.1", node.port)
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(drain, stream)
            mine = hello("cluster", me)
            bodies = [composer.hello_body(mine) if rng.random() < 0.1 else encode(mine)]
            for number in range(rng.choice((1, 3, 10, 40))):
                composer.situation = situation(node, me)
                bodies.append(composer.request_body(number))
            sent += len(bodies)
            with suppress(trio.BrokenResourceError):
                await stream.send_all(b"".join(len(body).to_bytes(4) + body for body in bodies))
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()


async def drain(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass


async def lie(stream: trio.SocketStream, quorum: QuorumNodes, composer: QuorumComposer, rng: Random) -> int:
    """Answer a replica in the name of the voter LIAR, sometimes with an invalid response. Returns the number of
    responses.
    """
    receiving, answers = Frames(stream), 0
    mine = hello("cluster", quorum.nodes[LIAR].voter.key)
    with suppress(PeerConnectionLost, MalformedMessage):
        await receiving.receive()
        await receiving.send(composer.hello_body(mine) if rng.random() < 0.1 else encode(mine))
        while True:
            correlation_id, request = decode_request(await receiving.receive())
            node = rng.choice([node for node in quorum.nodes.values() if node.is_up])
            composer.situation = situation(node, mine.key)
            response = composer.response_to(request)
            await receiving.send(composer.body(correlation_id, response, intact=0.95))
            answers += 1
    return answers


@asynccontextmanager
async def without_liar() -> AsyncIterator[QuorumNodes]:
    """Two of three voters run; the port of the third one is free for the liar."""
    async with running_nodes(3) as quorum:
        await quorum.nodes[LIAR].stop()
        await quorum.commit(b"before")
        yield quorum


async def assert_all_answer(quorum: QuorumNodes) -> None:
    """Every replica answers a Hello, so none has ended."""
    for node in quorum.nodes.values():
        if node.node_id != LIAR:
            stream = await trio.open_tcp_stream("127.0.0.1", node.port)
            async with stream:
                frames = Frames(stream)
                await frames.send(encode(hello("cluster", STRANGER)))
                with trio.fail_after(5):
                    await frames.receive()


@pytest.mark.seeds(2)
async def test_frames_of_an_unknown_peer_change_nothing(seed: int, frames: int, figure: Callable[[str], None]) -> None:
    rng = Random(seed)
    async with without_liar() as quorum:
        leader = await quorum.leader()
        before = (leader.quorum.core.epoch, leader.quorum.core.voters)
        await bombard(leader, QuorumComposer(rng, situation(leader, STRANGER)), rng, frames)
        await quorum.commit(b"after")
        assert (leader.quorum.core.epoch, leader.quorum.core.voters) == before
        states = leader.quorum.describe().observer_states
        assert {state.key for state in states} <= {STRANGER}
        figure(f"{frames} frames, epoch {before[0]} as before")


@pytest.mark.seeds(2)
async def test_frames_of_a_faulty_voter_end_no_replica(seed: int, frames: int) -> None:
    rng = Random(100 + seed)
    async with without_liar() as quorum:
        key = quorum.nodes[LIAR].voter.key
        for node in (quorum.nodes[1], quorum.nodes[2]):
            await bombard(node, QuorumComposer(rng, situation(node, key)), rng, frames // 2)
        await assert_all_answer(quorum)


@pytest.mark.seeds(2)
async def test_responses_of_a_faulty_voter_end_no_replica(
    seed: int, frames: int, figure: Callable[[str], None]
) -> None:
    rng = Random(200 + seed)
    answers = 0
    async with without_liar() as quorum, trio.open_nursery() as nursery:
        liar = quorum.nodes[LIAR].voter
        composer = QuorumComposer(rng, situation(quorum.nodes[1], liar.key))

        async def serve(stream: trio.SocketStream) -> None:
            nonlocal answers
            async with stream:
                answers += await lie(stream, quorum, composer, rng)

        listeners = await trio.open_tcp_listeners(quorum.nodes[LIAR].port, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        for _ in range(max(1, frames // 150)):
            for node in (quorum.nodes[1], quorum.nodes[2]):
                await claim_to_lead(node, liar.key, liar.address)
            await trio.sleep(0.05)
        await assert_all_answer(quorum)
        figure(f"{answers} answers")
        nursery.cancel_scope.cancel()


async def claim_to_lead(node: QuorumNode, key: ReplicaKey, address: str) -> None:
    """Make a replica follow the liar, so that it sends more than vote requests."""
    stream = await trio.open_tcp_stream("127.0.0.1", node.port)
    async with stream:
        sending = Frames(stream)
        begin = BeginEpochRequest(node.quorum.core.epoch + 1, key.node_id, address, node.voter.key)
        with suppress(PeerConnectionLost):
            await sending.send(encode(hello("cluster", key)))
            await sending.send(encode_request(1, begin))
            await sending.receive()
            await sending.receive()
