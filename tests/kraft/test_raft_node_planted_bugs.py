"""Planted bugs in the driver and the files, which its tests have to find.

`tests/kraft/core/test_core_planted_bugs.py` has the bugs in the core.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import attrs
import pytest
import trio
from trio.testing import memory_stream_pair, wait_all_tasks_blocked

from kraft.core import ElectionState, OffsetAndEpoch, QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.core.messages import VoteRequest
from kraft.env import Env, FsyncFailed
from kraft.frames import Frames
from kraft.handshake import hello
from kraft.log import CorruptLog, QuorumStateFile
from kraft.message_codec import encode, encode_request
from kraft.raft_node import RaftNode, RaftNodeConfig
from tests.support.directory_ids import directory_id
from tests.support.quorum_bugs import DRIVER_BUGS, QUORUM_BUGS
from tests.support.quorum_nodes import DIRECTORY, RecordingStateMachine
from tests.support.volatile_disk import VolatileDisk

POWER_CUTS = 20
OTHER = Voter(ReplicaKey(2, directory_id("disk2")), "127.0.0.1:1")
ME = Voter(ReplicaKey(1, directory_id("disk1")), "127.0.0.1:2")


@attrs.define
class Replica:
    """A running replica, and its state machine."""

    quorum: RaftNode
    heard: RecordingStateMachine

    async def commit(self, record: bytes) -> None:
        epoch = self.quorum.leadership.epoch
        await self.quorum.wait_committed(epoch, self.quorum.append(epoch, [record]))


@asynccontextmanager
async def running(disk: VolatileDisk, *others: Voter) -> AsyncIterator[Replica]:
    env = Env(disk, Random(1), lambda: 0.0, lambda kind, /, **fields: None)
    config = RaftNodeConfig(QuorumConfig(ME.key, ME.address), "cluster", VoterSet((ME, *others)))
    quorum, heard = await RaftNode.open(env, DIRECTORY, config), RecordingStateMachine()
    quorum.register(heard)
    async with trio.open_nursery() as nursery:
        await nursery.start(quorum.run)
        yield Replica(quorum, heard)
        nursery.cancel_scope.cancel()


async def a_vote_survives_a_power_cut() -> None:
    for seed in range(POWER_CUTS):
        disk = VolatileDisk()
        file = await QuorumStateFile.open(disk, DIRECTORY)
        await file.save(ElectionState(5, OTHER.key))
        disk.power_cut(Random(seed))
        assert (await QuorumStateFile.open(disk, DIRECTORY)).state == ElectionState(5, OTHER.key)


async def a_vote_that_a_failed_sync_left_in_the_page_cache_survives_a_power_cut() -> None:
    for seed in range(POWER_CUTS):
        disk = VolatileDisk()
        file = await QuorumStateFile.open(disk, DIRECTORY)
        disk.failing = True
        with pytest.raises(FsyncFailed):
            await file.save(ElectionState(5, OTHER.key))
        disk.failing = False
        relied_on = (await QuorumStateFile.open(disk, DIRECTORY)).state
        disk.power_cut(Random(seed))
        assert (await QuorumStateFile.open(disk, DIRECTORY)).state == relied_on


async def no_vote_is_granted_before_it_is_durable() -> None:
    disk = VolatileDisk()
    async with running(disk, OTHER) as replica:
        gate = trio.Event()
        disk.during_sync = gate.wait
        answered = trio.Event()
        ours, theirs = memory_stream_pair()

        async def ask() -> None:
            request = VoteRequest(5, OTHER.key, ME.key, OffsetAndEpoch(0, 0), pre_vote=False)
            frames = Frames(ours)
            await frames.send(encode(hello("cluster", OTHER.key)))
            await frames.send(encode_request(1, request))
            await frames.receive()
            await frames.receive()
            answered.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(replica.quorum.serve, theirs)
            nursery.start_soon(ask)
            await wait_all_tasks_blocked(0.05)
            assert not answered.is_set()
            gate.set()
            await answered.wait()
            nursery.cancel_scope.cancel()


async def committed_entries_survive_a_power_cut() -> None:
    for seed in range(POWER_CUTS):
        disk = VolatileDisk()
        async with running(disk) as replica:
            await replica.commit(b"a")
        disk.power_cut(Random(seed))
        async with running(disk) as replica:
            assert replica.heard.records == [b"a"]


async def commit_while_syncs_fail(disk: VolatileDisk) -> None:
    async with running(disk) as replica:
        disk.failing = True
        await replica.commit(b"a")


async def entries_that_a_failed_sync_left_in_the_page_cache_survive_a_power_cut() -> None:
    for seed in range(POWER_CUTS):
        disk = VolatileDisk()
        with pytest.raises(ExceptionGroup):
            await commit_while_syncs_fail(disk)
        disk.failing = False
        async with running(disk) as replica:
            await replica.commit(b"b")
            relied_on = replica.heard.records
        disk.power_cut(Random(seed))
        async with running(disk) as replica:
            assert replica.heard.records == relied_on


async def entries_appended_during_a_sync_wait_for_the_next_sync() -> None:
    disk = VolatileDisk()
    async with running(disk) as replica:
        gates = [trio.Event(), trio.Event()]
        waiting = iter(gates)
        disk.during_sync = lambda: next(waiting).wait()
        epoch = replica.quorum.leadership.epoch
        replica.quorum.append(epoch, [b"a"])
        await wait_all_tasks_blocked()
        last = replica.quorum.append(epoch, [b"b"])
        await wait_all_tasks_blocked()
        gates[0].set()
        await wait_all_tasks_blocked()
        assert replica.heard.records == [b"a"]
        gates[1].set()
        await replica.quorum.wait_committed(epoch, last)


Scenario = Callable[[], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    "votes are not synced": a_vote_survives_a_power_cut,
    "a vote that was read is not written again": (
        a_vote_that_a_failed_sync_left_in_the_page_cache_survives_a_power_cut
    ),
    "votes are granted before they are durable": no_vote_is_granted_before_it_is_durable,
    "the log is not synced": committed_entries_survive_a_power_cut,
    "the recovered log is not written again": (entries_that_a_failed_sync_left_in_the_page_cache_survive_a_power_cut),
    "a sync counts for entries appended while it ran": entries_appended_during_a_sync_wait_for_the_next_sync,
}
BUGS = {**QUORUM_BUGS, **DRIVER_BUGS}


@pytest.mark.parametrize("bug", SCENARIOS)
async def test_planted_bug_is_found(bug: str) -> None:
    scenario = SCENARIOS[bug]
    await scenario()
    with BUGS[bug].planted(), pytest.raises((AssertionError, ExceptionGroup, CorruptLog)):
        await scenario()


def test_every_bug_of_the_driver_is_found() -> None:
    assert [bug for bug in DRIVER_BUGS if bug not in SCENARIOS] == []
