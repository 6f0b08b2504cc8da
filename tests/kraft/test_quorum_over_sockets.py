"""Three replicas in one process over real sockets."""

from collections.abc import Callable
from random import Random

import msgpack
import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from kraft.core import ReplicaKey
from kraft.core.messages import AddVoterRequest, Error, RemoveVoterRequest
from kraft.env import FsyncFailed
from kraft.frames import Frames, PeerConnectionLost
from kraft.handshake import HELLO_TIMEOUT_S, hello
from kraft.message_codec import encode
from kraft.replicated_log import Leadership, NotLeader
from kraft.rpc import ServedConnection
from tests.support.directory_ids import directory_id
from tests.support.nested_extensions import nested_extensions
from tests.support.quorum_nodes import running_nodes


async def test_appended_records_are_handed_over_to_all_replicas_in_one_order() -> None:
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a", b"b")
        await quorum.commit(b"c")
        await quorum.until(lambda: all(node.heard.records == [b"a", b"b", b"c"] for node in quorum.nodes.values()))
        leader = await quorum.leader()
        expected = Leadership(leader.node_id, leader.quorum.leadership.epoch)
        assert all(node.quorum.leadership == expected for node in quorum.nodes.values())


async def test_only_the_leader_of_the_epoch_appends_to_a_quorum() -> None:
    async with running_nodes(3) as quorum:
        leader = await quorum.leader()
        epoch = leader.quorum.leadership.epoch
        for node in quorum.nodes.values():
            for tried in (epoch - 1, epoch + 1) if node is leader else (epoch,):
                with pytest.raises(NotLeader):
                    node.quorum.append(tried, [b"x"])


async def test_a_stopped_leader_is_replaced_within_round_trips(figure: Callable[[str], None]) -> None:
    """Its connections are reset, so the others do not wait for the fetch timeout."""
    async with running_nodes(3) as quorum:
        await quorum.commit(b"first")
        times = []
        for round_number in range(10):
            leader = await quorum.leader()
            await quorum.until(lambda: all(len(node.heard.leaders) > 0 for node in quorum.nodes.values()))
            began = trio.current_time()
            await leader.stop()
            await quorum.commit(b"%d" % round_number)
            times.append((trio.current_time() - began) * 1000)
            await quorum.start(leader.node_id)
            count = round_number + 2
            await quorum.until(
                lambda count=count: all(len(node.heard.records) == count for node in quorum.nodes.values())
            )
        times.sort()
        figure(f"commit after the leader's end: median {times[5]:.0f} ms, worst {times[-1]:.0f} ms")
        expected = [b"first", *(b"%d" % each for each in range(10))]
        assert all(node.heard.records == expected for node in quorum.nodes.values())


async def test_nothing_is_committed_without_a_majority() -> None:
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        leader = await quorum.leader()
        for node in quorum.nodes.values():
            if node is not leader:
                await node.stop()
        epoch = leader.quorum.leadership.epoch
        offset = leader.quorum.append(epoch, [b"b"])
        with pytest.raises(NotLeader), trio.fail_after(10):
            await leader.quorum.wait_committed(epoch, offset)
        assert leader.heard.records == [b"a"]


async def test_suspended_leader_appends_nothing_when_it_resumes(jumping_clock: MockClock) -> None:
    """Check-quorum comes first: an append right after the suspension is refused."""
    async with running_nodes(3) as quorum:
        leader = await quorum.leader()
        epoch, end_offset = leader.quorum.leadership.epoch, leader.quorum.end_offset
        jumping_clock.jump(30)
        with pytest.raises(NotLeader):
            leader.quorum.append(epoch, [b"too late"])
        assert leader.quorum.end_offset == end_offset


async def test_leader_stays_when_all_replicas_were_suspended(jumping_clock: MockClock) -> None:
    """This happens on an overloaded machine, where replicas would otherwise hold elections instead of working."""
    async with running_nodes(3) as quorum:
        await quorum.commit(b"before")
        await quorum.until(lambda: all(node.heard.records == [b"before"] for node in quorum.nodes.values()))
        leadership = (await quorum.leader()).quorum.leadership
        roles = [len(node.traced("role_changed")) for node in quorum.nodes.values()]
        for _ in range(10):
            jumping_clock.jump(5)
            await trio.sleep(0.2)
        await quorum.commit(b"after")
        assert (await quorum.leader()).quorum.leadership == leadership
        assert [len(node.traced("role_changed")) for node in quorum.nodes.values()] == roles


async def test_committed_records_survive_a_power_cut_of_all_replicas() -> None:
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        await quorum.commit(b"b")
        for node in quorum.nodes.values():
            await node.stop()
            node.disk.power_cut(Random(node.node_id))
        for node_id in quorum.nodes:
            await quorum.start(node_id)
        await quorum.commit(b"c")
        await quorum.until(lambda: all(node.heard.records == [b"a", b"b", b"c"] for node in quorum.nodes.values()))


async def test_one_sync_covers_many_appends() -> None:
    async with running_nodes(3) as quorum:
        leader = await quorum.leader()
        before, epoch = leader.disk.syncs, leader.quorum.leadership.epoch
        last = [leader.quorum.append(epoch, [b"%d" % number]) for number in range(200)][-1]
        await leader.quorum.wait_committed(epoch, last)
        assert leader.disk.syncs - before < 20
        assert leader.heard.records == [b"%d" % number for number in range(200)]


async def test_leaving_leader_hands_over() -> None:
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        leader = await quorum.leader()
        began = trio.current_time()
        await leader.quorum.leave()
        assert trio.current_time() - began < 0.3  # an election timeout
        await leader.stop()
        await quorum.commit(b"b")
        assert (await quorum.leader()) is not leader


async def test_last_replicas_leave_at_once() -> None:
    """There is no replica to hand over to."""
    async with running_nodes(3) as quorum:
        await quorum.commit(b"a")
        leader = await quorum.leader()
        for node in quorum.nodes.values():
            if node is not leader:
                await node.quorum.leave()
                await node.stop()
        began = trio.current_time()
        await leader.quorum.leave()
        assert trio.current_time() - began < 0.3  # an election timeout
        assert leader.quorum.is_majority_absent


async def test_returning_voters_count_as_present() -> None:
    async with running_nodes(3) as quorum:
        leader = await quorum.leader()
        others = [node for node in quorum.nodes.values() if node is not leader]
        for node in others:
            assert not leader.quorum.is_majority_absent
            await node.stop()
        await quorum.until(lambda: leader.quorum.is_majority_absent)
        await quorum.start(others[0].node_id)
        await quorum.until(lambda: not leader.quorum.is_majority_absent)


async def test_a_sole_voter_leaves_at_once() -> None:
    async with running_nodes(1) as quorum:
        leader = await quorum.leader()
        began = trio.current_time()
        await leader.quorum.leave()
        assert trio.current_time() - began < 0.2


async def test_wait_committed_raises_when_the_replica_stops() -> None:
    async with running_nodes(3) as quorum:
        leader = await quorum.leader()
        for node in quorum.nodes.values():
            if node is not leader:
                await node.stop()
        epoch, refused = leader.quorum.leadership.epoch, trio.Event()
        replica = leader.quorum

        async def wait() -> None:
            with pytest.raises(NotLeader):
                await replica.wait_committed(epoch, replica.append(epoch, [b"a"]))
            refused.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            await leader.stop()
            with trio.fail_after(5):
                await refused.wait()


async def test_observers_replicate_everything_and_become_voters() -> None:
    """KIP-853: from one voter to three, and then the first one is removed, while appends continue."""
    async with running_nodes(1, spares=2) as quorum:
        await quorum.commit(b"a")
        for node_id in (2, 3):
            leader = await quorum.leader()
            added = await leader.quorum.change_voters(AddVoterRequest(quorum.nodes[node_id].voter, 5_000))
            assert added.error is Error.NONE, added
            await quorum.commit(b"with %d" % node_id)
        leader = await quorum.leader()
        removed = await leader.quorum.change_voters(RemoveVoterRequest(leader.voter.key, 5_000))
        assert removed.error is Error.NONE
        await leader.stop()
        await quorum.commit(b"without %d" % leader.node_id)
        others = [node for node in quorum.nodes.values() if node is not leader]
        expected = [b"a", b"with 2", b"with 3", b"without 1"]
        await quorum.until(lambda: all(node.heard.records == expected for node in others))
        assert others[0].quorum.core.voters.ids == (2, 3)


async def test_a_failed_sync_ends_the_replica() -> None:
    async def append_to_a_failing_disk() -> None:
        async with running_nodes(1) as quorum:
            leader = await quorum.leader()
            leader.disk.failing = True
            await quorum.commit(b"a")

    with pytest.raises(ExceptionGroup) as failure:
        await append_to_a_failing_disk()
    assert failure.group_contains(FsyncFailed)


def greeting(cluster_id: str = "cluster", node_id: int = 9, directory: str = "d9") -> bytes:
    return encode(hello(cluster_id, ReplicaKey(node_id, directory_id(directory))))


async def exchanged(port: int, *frames: bytes) -> list[bytes]:
    """The frames with which a node answers `frames` before it closes the connection."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    answers = []
    with trio.fail_after(5):
        for body in frames:
            await stream.send_all(len(body).to_bytes(4) + body)
        receiving = Frames(stream)
        try:
            while True:
                answers.append(await receiving.receive())
        except PeerConnectionLost:
            await stream.aclose()
    return answers


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xc1"],
        [nested_extensions(200)],
        [bytes(2_000)],
        [greeting(), b""],
        [greeting(), msgpack.packb((1, "no request"))],
        [greeting(), msgpack.packb(("one", 2, 3))],
        [greeting(), b"\x92\x01\xc7\x03\x05\xff\xff\xff"],
        [greeting(), nested_extensions(200)],
        [greeting(), bytes(100_000)],
    ],
    ids=[
        "no hello",
        "extensions for a hello",
        "long hello",
        "empty",
        "no request",
        "no pair",
        "no fields",
        "extensions",
        "long request",
    ],
)
async def test_invalid_bytes_close_only_their_connection(frames: list[bytes]) -> None:
    async with running_nodes(1) as quorum:
        leader = await quorum.leader()
        assert len(await exchanged(leader.port, *frames)) == len(frames) - 1
        await quorum.commit(b"still there")


async def test_oversized_frame_is_refused_before_it_is_read() -> None:
    async with running_nodes(1) as quorum:
        leader = await quorum.leader()
        stream = await trio.open_tcp_stream("127.0.0.1", leader.port)
        await stream.send_all(b"\xff\xff\xff\xff")
        with trio.fail_after(2):
            assert await stream.receive_some() == b""
        await stream.aclose()


async def test_connection_without_a_hello_is_closed(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    mine = hello("cluster", ReplicaKey(1, directory_id("d1")))
    connection = ServedConnection(theirs, mine, lambda connection, correlation_id, request: None)
    await ours.send_all(b"\0\0")
    with pytest.raises(PeerConnectionLost, match="no hello in time"), trio.fail_after(HELLO_TIMEOUT_S + 1):
        await connection.run()
