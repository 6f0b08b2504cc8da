"""A fetcher of replicas (`broker.replication.replica_fetcher`) and the broker it fetches from."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from broker.config.effective import TopicConfig
from broker.replication.partition import Partition
from broker.replication.replica_fetcher import ReplicaFetcher
from broker.storage.log_config import LogConfig
from broker.wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kraft.env import Disk
from metadata.image import BrokerImage
from tests.support.faulty_disk import FaultyDisk
from tests.support.fetcher_context import fetcher_context, leader_at
from tests.support.partition_harness import A, Harness
from tests.support.scripted_broker import batch
from tests.support.scripted_node import ScriptedNode, scripted_node


@attrs.define
class Leader:
    """A leader that sends `batches`, one for each Fetch.

    `flushed` has the follower's recovery point at each Fetch, `failed` the failures of its disk.
    """

    partition: Partition
    node: ScriptedNode
    registration: BrokerImage | None = None
    batches: list[bytes | None] = attrs.field(factory=list)
    flushed: list[int] = attrs.field(factory=list)
    failed: list[tuple[Partition, OSError]] = attrs.field(factory=list)

    def register(self) -> None:
        self.registration = leader_at(self.node.port)

    async def answer(self, request: Any) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        assert self.partition.log is not None
        self.flushed.append(self.partition.log.durability.recovery_point)
        if not self.batches:
            await trio.sleep(request.max_wait_ms / 1000)
            return FetchResponse()
        data = PartitionData(partition_index=0, records=self.batches.pop(0), high_watermark=2)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=self.partition.topic_id, partitions=[data])])


@asynccontextmanager
async def fetching_from_leader(partition: Partition) -> AsyncIterator[tuple[Leader, ReplicaFetcher]]:
    """A leader that is not registered yet, and a running fetcher, which follows nothing yet."""
    async with scripted_node(lambda request: leader.answer(request)) as node, trio.open_nursery() as nursery:
        leader = Leader(partition, node)
        context = fetcher_context(lambda: leader.registration, lambda *failed: leader.failed.append(failed))
        fetcher = ReplicaFetcher(context, A, lambda truncated: None)
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


def former_leader_with_two_records(directory: Path, disk: Disk | None = None) -> Partition:
    """A partition with flush.messages 2, which follows broker A since it has appended."""
    harness = Harness(directory, disk=disk)
    harness.partition.configure(TopicConfig(log=LogConfig(flush_messages=2), min_insync_replicas=1))
    harness.become()
    harness.append(2)
    harness.become(leader=A, epoch=1, version=1)
    return harness.partition
