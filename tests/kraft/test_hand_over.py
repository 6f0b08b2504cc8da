"""Many committed batches are handed over in slices, in order, and other tasks run in between."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from kraft.core import OffsetAndEpoch, QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.env import Env
from kraft.log import DurableLog, Snapshots
from kraft.peers import Peers
from kraft.quorum_trace import QuorumTrace
from kraft.raft_node import RaftNode, RaftNodeConfig
from kraft.replicated_log import Batch, Leadership
from kraft.state_machines import HAND_OVER_BYTES_MAX, StateMachines
from tests.support.directory_ids import directory_id
from tests.support.raft_core import SingleCore
from tests.support.volatile_disk import VolatileDisk

DIRECTORY = "/data/__cluster_metadata-0"
ME = Voter(ReplicaKey(1, directory_id("disk")), "localhost:9093")
RECORD = b"x" * 1_000
BATCHES = 500
SNAPSHOT = OffsetAndEpoch(BATCHES + 7, 3)


@attrs.define
class Slices:
    """A state machine that records each call with the turn of the event loop."""

    turn: int = 0
    commits: list[tuple[int, int]] = attrs.field(factory=list)
    told: list[str] = attrs.field(factory=list)

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        self.commits.append((self.turn, sum(len(record) for batch in batches for record in batch.records)))
        self.told.append(f"to {batches[-1].last_offset + 1}")

    async def handle_snapshot(self, end_offset: int, portions: Iterator[tuple[bytes, ...]]) -> None:
        self.told.append(f"snapshot at {end_offset}")

    def handle_leader_change(self, leadership: Leadership) -> None:
        self.told.append(f"leader {leadership.leader_id} in {leadership.epoch}")

    def handle_connection_reset(self, node_id: int) -> None:
        self.told.append(f"connection to {node_id} reset")

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await trio.lowlevel.checkpoint()


def silent(kind: str, /, **fields: Any) -> None:
    pass


@attrs.define
class Harness:
    """State machines on a log with `BATCHES` batches of one record each."""

    log: DurableLog
    snapshots: Snapshots
    peers: Peers
    machines: StateMachines
    slices: Slices
    reached: list[int]


@asynccontextmanager
async def full_log() -> AsyncIterator[Harness]:
    disk = VolatileDisk()
    log, _ = await DurableLog.open(disk, DIRECTORY)
    for offset in range(BATCHES):
        log.write(Batch(offset, 1, 0, (RECORD,)))
    await log.sync()
    snapshots = await Snapshots.open(disk, DIRECTORY)
    peers = Peers(SingleCore(1).core)
    machines = StateMachines(1, 1, QuorumTrace(silent, ME.key), log, snapshots, peers)
    harness = Harness(log, snapshots, peers, machines, Slices(), [])
    machines.register(harness.slices)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(machines.run, harness.reached.append)
        yield harness
        nursery.cancel_scope.cancel()


async def test_a_large_log_is_handed_over_in_slices_before_its_leader_is_announced() -> None:
    disk = VolatileDisk()
    env = Env(disk=disk, rng=Random(1), wall=lambda: 0.0, trace=silent)
    config = RaftNodeConfig(QuorumConfig(ME.key, ME.address), "cluster", VoterSet((ME,)))
    async with trio.open_nursery() as nursery:
        quorum = await RaftNode.open(env, DIRECTORY, config)
        await nursery.start(quorum.run)
        for _ in range(BATCHES):
            await quorum.wait_committed(1, quorum.append(1, [RECORD]))
        nursery.cancel_scope.cancel()
    restarted, slices = await RaftNode.open(env, DIRECTORY, config), Slices()
    restarted.register(slices)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slices.count_turns)
        await nursery.start(restarted.run)
        nursery.cancel_scope.cancel()
    assert sum(size for _, size in slices.commits) == BATCHES * len(RECORD)
    assert max(size for _, size in slices.commits) <= HAND_OVER_BYTES_MAX
    assert len(slices.commits) >= BATCHES * len(RECORD) // HAND_OVER_BYTES_MAX
    # Trio runs the tasks of one turn in any order, so two turns of ours may lie between two of another task.
    assert max(Counter(turn for turn, _ in slices.commits).values()) <= 2
    leaders = [word for word in slices.told if word.startswith("leader")]
    assert slices.told[-1] == leaders[-1] == "leader 1 in 2"


async def test_few_batches_are_handed_over_at_once() -> None:
    async with full_log() as harness:
        assert harness.machines.commit(3)
        assert harness.slices.told == ["to 3"]
        assert harness.machines.commit(4)
        assert harness.machines.committed_end_offset == 4


async def test_later_commits_and_announcements_wait_for_a_running_hand_over() -> None:
    async with full_log() as harness:
        machines = harness.machines
        assert not machines.commit(BATCHES - 20)
        assert not machines.commit(BATCHES - 10)
        machines.announce(Leadership(2, 2))
        assert not machines.commit(BATCHES)
        machines.announce(Leadership(None, 3))
        assert machines.leadership == Leadership(None, 1)
        await wait_all_tasks_blocked()
        told = harness.slices.told
        first, last = told.index(f"to {BATCHES - 10}"), told.index(f"to {BATCHES}")
        assert told[first + 1 :] == ["leader 2 in 2", f"to {BATCHES}", "leader None in 3"]
        assert last == first + 2
        assert harness.reached == [BATCHES - 10, BATCHES]


async def test_new_leader_repeats_the_resets_of_voters_that_were_lost_a_moment_ago() -> None:
    async with full_log() as harness:
        harness.peers.lost(3)
        harness.machines.announce(Leadership(2, 2))
        harness.machines.announce(Leadership(1, 3))
        assert harness.slices.told == ["leader 2 in 2", "leader 1 in 3", "connection to 3 reset"]


async def test_log_start_may_advance_during_a_hand_over() -> None:
    async with full_log() as harness:
        assert not harness.machines.commit(BATCHES)
        handed_over = harness.machines.committed_end_offset
        await harness.log.start_at(handed_over, 1, keep=True)
        await wait_all_tasks_blocked()
        assert harness.slices.told[-1] == f"to {BATCHES}"
        assert sum(size for _, size in harness.slices.commits) == BATCHES * len(RECORD)


async def test_snapshot_replaces_batches_not_handed_over() -> None:
    async with full_log() as harness:
        machines = harness.machines
        await harness.snapshots.save(SNAPSHOT, VoterSet((ME,)), [b"state"])
        assert not machines.commit(BATCHES)
        machines.announce(Leadership(2, 2))
        machines.skip_commits()
        await harness.log.start_at(SNAPSHOT.offset, SNAPSHOT.epoch, keep=False)
        await machines.load_snapshot(SNAPSHOT)
        await wait_all_tasks_blocked()
        assert harness.slices.told[1:] == ["leader 2 in 2", f"snapshot at {SNAPSHOT.offset}"]
        assert machines.committed_end_offset == SNAPSHOT.offset
        assert machines.commit(SNAPSHOT.offset)


async def test_stopped_replica_hands_over_nothing_more() -> None:
    async with full_log() as harness:
        assert not harness.machines.commit(BATCHES)
    told = list(harness.slices.told)
    await wait_all_tasks_blocked()
    assert harness.slices.told == told
    assert harness.machines.committed_end_offset < BATCHES
