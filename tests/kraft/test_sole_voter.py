"""A quorum of one voter: appends are ordered at once, committed when durable, and share syncs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kraft.core import QuorumConfig, ReplicaKey, Voter, VoterSet
from kraft.env import Env, FsyncFailed
from kraft.raft_node import RaftNode, RaftNodeConfig
from kraft.replicated_log import Batch, Leadership, NotLeader
from tests.support.directory_ids import directory_id
from tests.support.volatile_disk import VolatileDisk

DIRECTORY = "/data/__cluster_metadata-0"
ME = Voter(ReplicaKey(3, directory_id("disk")), "localhost:9093")
CONFIG = RaftNodeConfig(QuorumConfig(ME.key, ME.address), "cluster", VoterSet((ME,)))
# The offset after the control records that start the first epoch: the leader change and the voter set.
FIRST = 2


class RecordingStateMachine:
    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.batches = 0
        self.events: list[str] = []

    def handle_commit(self, batches: Sequence[Batch]) -> None:
        self.batches += len(batches)
        self.records += [record for batch in batches for record in batch.records]
        self.events.append(f"{len(self.records)} records")

    def handle_leader_change(self, leadership: Leadership) -> None:
        self.events.append(f"leader {leadership.leader_id} in epoch {leadership.epoch}")


async def opened(disk: VolatileDisk, config: RaftNodeConfig = CONFIG) -> tuple[RaftNode, RecordingStateMachine]:
    env = Env(disk=disk, rng=Random(1), wall=lambda: 1_700_000_000.0, trace=lambda kind, /, **fields: None)
    log, heard = await RaftNode.open(env, DIRECTORY, config), RecordingStateMachine()
    log.register(heard)
    return log, heard


@asynccontextmanager
async def running(disk: VolatileDisk) -> AsyncIterator[tuple[RaftNode, RecordingStateMachine]]:
    log, heard = await opened(disk)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        yield log, heard
        nursery.cancel_scope.cancel()


async def test_voter_whose_process_pauses_after_its_start_begins_no_earlier_than_it_started(
    mock_clock: MockClock,
) -> None:
    """Without a retry backoff, the first deadline has passed at once. The pause is taken out of the time."""
    mock_clock.rate = 10_000  # time passes between any two looks at the clock
    quorum = attrs.evolve(CONFIG.quorum, retry_backoff_ms=0)
    log, _ = await opened(VolatileDisk(), attrs.evolve(CONFIG, quorum=quorum))
    mock_clock.jump(1)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        assert log.append(log.leadership.epoch, [b"a"]) == FIRST
        nursery.cancel_scope.cancel()


async def test_offsets_follow_the_order_of_appends() -> None:
    async with running(VolatileDisk()) as (log, heard):
        epoch = log.leadership.epoch
        assert log.append(epoch, [b"a", b"b"]) == FIRST + 1
        assert log.end_offset == FIRST + 2
        assert log.append(epoch, [b"c"]) == FIRST + 2
        await log.wait_committed(epoch, FIRST + 2)
        assert heard.records == [b"a", b"b", b"c"]
        assert log.committed_end_offset == FIRST + 3


async def test_nothing_is_committed_before_it_is_durable() -> None:
    disk = VolatileDisk()
    async with running(disk) as (log, heard):
        gate = trio.Event()
        disk.during_sync = gate.wait
        answered = []

        async def ask() -> None:
            await log.wait_committed(1, log.append(1, [b"a"]))
            answered.append(list(heard.records))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            assert (answered, heard.records, log.committed_end_offset) == ([], [], FIRST)
            gate.set()
        assert answered == [[b"a"]]


async def test_appends_that_arrive_during_a_sync_share_the_next_one() -> None:
    """Group commit. Records appended in one turn of the event loop are one batch."""
    disk = VolatileDisk()
    async with running(disk) as (log, heard):
        gate = trio.Event()
        disk.during_sync = gate.wait
        log.append(1, [b"first"])
        await wait_all_tasks_blocked()
        before = disk.syncs
        last = [log.append(1, [b"%d" % i]) for i in range(50)][-1]
        await wait_all_tasks_blocked()
        log.append(1, [b"last"])
        gate.set()
        await log.wait_committed(1, last + 1)
        assert disk.syncs == before + 1
        assert heard.batches == 3
        assert heard.records == [b"first", *(b"%d" % i for i in range(50)), b"last"]


async def test_records_too_many_for_one_batch_become_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.raft_node.APPEND_BYTES_MAX", 10)
    async with running(VolatileDisk()) as (log, heard):
        offsets = [log.append(1, [b"%04d" % number]) for number in range(5)]
        assert offsets == [FIRST + number for number in range(5)]
        await log.wait_committed(1, offsets[-1])
        assert heard.batches == 3
        assert heard.records == [b"%04d" % number for number in range(5)]


async def test_restarted_replica_hands_over_everything_before_it_leads_in_a_higher_epoch() -> None:
    disk = VolatileDisk()
    async with running(disk) as (log, _):
        await log.wait_committed(1, log.append(1, [b"a", b"b"]))
    async with running(disk) as (log, heard):
        events = [event for event in heard.events if "None" not in event]
        assert events == ["2 records", "leader 3 in epoch 2"]
        assert heard.records == [b"a", b"b"]
        assert log.leadership == Leadership(3, 2)
        assert log.committed_end_offset == log.end_offset == FIRST + 3
        await log.wait_committed(2, FIRST + 1)


async def test_only_the_leader_of_the_epoch_appends() -> None:
    log, _ = await opened(VolatileDisk())
    with pytest.raises(NotLeader):
        log.append(0, [b"before it runs"])
    async with running(VolatileDisk()) as (log, _):
        for epoch in (0, 2):
            with pytest.raises(NotLeader):
                log.append(epoch, [b"a"])
            with pytest.raises(NotLeader):
                await log.wait_committed(epoch, 0)
    with pytest.raises(NotLeader):
        log.append(1, [b"after it ended"])


async def test_a_failed_sync_commits_nothing() -> None:
    disk = VolatileDisk()
    log, heard = await opened(disk)

    async def append_to_a_failing_disk() -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(log.run)
            disk.failing = True
            log.append(1, [b"a"])

    with pytest.raises(ExceptionGroup) as failure:
        await append_to_a_failing_disk()
    assert failure.group_contains(FsyncFailed)
    assert heard.records == []


async def test_a_commit_survives_a_power_cut() -> None:
    disk = VolatileDisk()
    async with running(disk) as (log, _):
        await log.wait_committed(1, log.append(1, [b"a"]))
        log.append(1, [b"not yet"])
    disk.power_cut(Random(4))
    async with running(disk) as (_, heard):
        assert heard.records[:1] == [b"a"]


async def test_idle_replica_wakes_no_task() -> None:
    async with running(VolatileDisk()) as (log, _):
        assert log.core.deadline_ms == float("inf")
