"""A fetcher of replicas (`broker.replication.replica_fetcher`) and the broker it fetches from."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.config.effective import TopicConfig
from broker.net.connection_drivers import ConnectionDrivers
from broker.replication.partition import Partition
from broker.replication.replica_fetcher import ReplicaFetcher
from broker.storage.log_config import LogConfig
from broker.wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from broker.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.errors import ErrorCode
from kraft.env import Disk, kernel_socket
from metadata.image import BrokerImage
from tests.support.faulty_disk import FaultyDisk
from tests.support.fetcher_context import fetcher_context, leader_at
from tests.support.logs import no_trace
from tests.support.partition_harness import A, Harness
from tests.support.scripted_broker import batch
from tests.support.scripted_node import ScriptedNode, scripted_node

EARLIEST = -2


@attrs.define
class Leader:
    """A leader that sends `batches`, one for each Fetch; with `log_range`, every Fetch is out of that range.

    `flushed` has the follower's recovery point at each Fetch, `failed` the failures of its disk, and `truncated` its
    partitions that must be settled.
    """

    partition: Partition
    node: ScriptedNode
    registration: BrokerImage | None = None
    batches: list[bytes | None] = attrs.field(factory=list)
    flushed: list[int] = attrs.field(factory=list)
    failed: list[tuple[Partition, OSError]] = attrs.field(factory=list)
    truncated: list[Partition] = attrs.field(factory=list)
    log_range: tuple[int, int] | None = None

    def register(self) -> None:
        self.registration = leader_at(self.node.port)

    async def answer(self, request: Any) -> FetchResponse | ListOffsetsResponse:
        if isinstance(request, ListOffsetsRequest):
            return self._offset_answer(request.topics[0].partitions[0].timestamp)
        assert isinstance(request, FetchRequest)
        assert self.partition.log is not None
        self.flushed.append(self.partition.log.durability.recovery_point)
        if self.log_range is not None:
            return self._fetch_answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        if self.batches:
            return self._fetch_answer(records=self.batches.pop(0), high_watermark=2)
        await trio.sleep(request.max_wait_ms / 1000)
        return FetchResponse()

    def _fetch_answer(self, **fields: Any) -> FetchResponse:
        data = PartitionData(partition_index=0, **fields)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=self.partition.topic_id, partitions=[data])])

    def _offset_answer(self, timestamp: int) -> ListOffsetsResponse:
        assert self.log_range is not None
        start, end = self.log_range
        found = ListOffsetsPartitionResponse(partition_index=0, offset=start if timestamp == EARLIEST else end)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="topic", partitions=[found])])


@asynccontextmanager
async def fetching_from_leader(partition: Partition) -> AsyncIterator[tuple[Leader, ReplicaFetcher]]:
    """A leader that is not registered yet, and a running fetcher, which follows nothing yet.

    The fetcher's connections are driven by a reactor, as in a process of its own.
    """
    drivers = ConnectionDrivers(lambda: True, kernel_socket, -1)
    async with scripted_node(lambda request: leader.answer(request)) as node, trio.open_nursery() as nursery:
        leader = Leader(partition, node)
        context = fetcher_context(lambda: leader.registration, lambda *failed: leader.failed.append(failed), drivers)
        nursery.start_soon(drivers.run)
        fetcher = ReplicaFetcher(context, A, lambda truncated: leader.truncated.append(truncated))
        nursery.start_soon(fetcher.run)
        yield leader, fetcher
        nursery.cancel_scope.cancel()


async def test_fetcher_waits_for_the_registration_of_the_leader(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.become(leader=A)
    async with fetching_from_leader(harness.partition) as (leader, fetcher):
        fetcher.follow(harness.partition)
        await wait_all_tasks_blocked()
        assert leader.node.connections == 0
        leader.register()
        await leader.node.wait_for(requests=1)


async def test_pauses_between_connection_attempts_double_up_to_replica_fetch_backoff_ms(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """The pause is at least half of the limit, so that followers of a failed broker do not connect at the same time."""
    harness = Harness(tmp_path)
    harness.become(leader=A)
    attempts: list[float] = []
    fetcher = ReplicaFetcher(fetcher_context(lambda: attempts.append(trio.current_time())), A, lambda partition: None)
    fetcher.follow(harness.partition)
    attempts.clear()
    with trio.move_on_after(5):
        await fetcher.run()
    pauses_ms = [(after - before) * 1000 for before, after in pairwise(attempts)]
    for pause_ms, longest_ms in zip(pauses_ms, (10, 20, 40, 80, 160, 320, 640, 1000, 1000), strict=False):
        assert longest_ms / 2 <= pause_ms <= longest_ms
    assert len(pauses_ms) >= 9


async def test_follower_flushes_records_of_its_own_leadership_before_its_first_fetch(tmp_path: Path) -> None:
    """The fetch acknowledges all records of the log. They must be durable, because flush.messages is set."""
    partition = former_leader_with_two_records(tmp_path)
    async with fetching_from_leader(partition) as (leader, fetcher):
        leader.register()
        fetcher.follow(partition)
        await leader.node.wait_for(requests=1)
    assert leader.flushed[0] == 2


async def test_follower_that_has_flushed_flushes_again_only_after_flush_messages_records(tmp_path: Path) -> None:
    partition = former_leader_with_two_records(tmp_path)
    async with fetching_from_leader(partition) as (leader, fetcher):
        leader.batches = [batch(2, 1, leader_epoch=1), batch(3, 1, leader_epoch=1)]
        leader.register()
        fetcher.follow(partition)
        await leader.node.wait_for(requests=3)
    assert leader.flushed[:3] == [2, 2, 4]


async def test_response_with_null_instead_of_records_moves_the_high_watermark(tmp_path: Path) -> None:
    partition = former_leader_with_two_records(tmp_path)
    async with fetching_from_leader(partition) as (leader, fetcher):
        leader.batches = [None]
        leader.register()
        fetcher.follow(partition)
        await leader.node.wait_for(requests=2)
    assert partition.high_watermark == 2


@pytest.mark.parametrize(
    ("log_range", "own_end", "is_truncated"),
    [((0, 1), 0, True), ((0, 2), 2, False), ((2, 3), 2, False), ((3, 4), 3, False)],
)
async def test_follower_out_of_range_moves_its_log_end_into_the_range_of_the_leader(
    tmp_path: Path, log_range: tuple[int, int], own_end: int, is_truncated: bool
) -> None:
    """It truncates a log that ends after the leader's. A log that ends before the leader's begins restarts there."""
    traced = list[str]()
    partition = former_leader_with_two_records(tmp_path, trace=lambda kind, **fields: traced.append(kind))
    async with fetching_from_leader(partition) as (leader, fetcher):
        leader.log_range = log_range
        leader.register()
        fetcher.follow(partition)
        await leader.node.wait_for(requests=3)  # Fetch, and ListOffsets for the start and the end
        with trio.fail_after(5):
            while not leader.truncated and len(leader.node.requests) == 3:
                await trio.sleep(0.01)
    assert partition.log is not None
    assert partition.log.log_end_offset == own_end
    assert ("partition_truncated" in traced) is is_truncated


async def test_follower_reports_a_log_that_cannot_be_flushed(tmp_path: Path) -> None:
    """The log directory then goes offline."""
    disk = FaultyDisk()
    partition = former_leader_with_two_records(tmp_path, disk)
    disk.failing = (str(tmp_path),)
    async with fetching_from_leader(partition) as (leader, fetcher):
        leader.register()
        fetcher.follow(partition)
        await leader.node.wait_for(requests=1)
    ((failed, error),) = leader.failed
    assert (failed, error.errno) == (partition, disk.error)


def former_leader_with_two_records(
    directory: Path, disk: Disk | None = None, trace: Callable[..., None] = no_trace
) -> Partition:
    """A partition with flush.messages 2, which follows broker A since it has appended."""
    harness = Harness(directory, trace, disk=disk)
    harness.partition.configure(TopicConfig(log=LogConfig(flush_messages=2), min_insync_replicas=1))
    harness.become()
    harness.append(2)
    harness.become(leader=A, epoch=1, version=1)
    return harness.partition
