"""Replicas of a broker when one of its two log directories fails (KIP-858)."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from broker.replication.partition import Partition
from broker.replication.replica_manager import ReplicaManager
from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.requests import create_topic
from tests.support.running_node import NODE_ID, RunningNode, running_node
from tests.support.scripted_follower import scripted_follower
from tests.support.wire_client import connected

OTHER = 2


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """A node with two log directories; the metadata log is in the first one."""
    async with running_node(tmp_path, log_dirs=f"{tmp_path / 'one'},{tmp_path / 'two'}") as running:
        yield running


async def fail_second_directory(node: RunningNode) -> Partition:
    """Take the second directory offline; returns the partition in it."""
    async with connected(node.port) as client:
        await create_topic(client, "old", partitions=2)
    partitions: ReplicaManager = node.node.broker.partitions
    partition = next(each for each in partitions.topics["old"].partitions.values() if "/two/" in _path(each))
    partitions.log_failed(partition, OSError(errno.EIO, "no disk any more"))
    return partition


def _path(partition: Partition) -> str:
    assert partition.log is not None
    return partition.log.directory


async def test_listeners_hear_at_once_of_leaderships_that_end_with_a_log_directory(node: RunningNode) -> None:
    ended = list[Partition]()
    node.node.broker.partitions.when_led(lambda changed: ended.extend(each for each in changed if not each.leads))
    failed = await fail_second_directory(node)
    assert ended == [failed]


async def test_replica_that_is_assigned_to_the_broker_later_gets_a_log_in_the_other_directory(
    node: RunningNode,
) -> None:
    """Only a replica that the broker had before may have its log in the failed directory (KIP-858)."""
    await fail_second_directory(node)
    async with scripted_follower(node, OTHER) as follower:
        await follower.create_topic([OTHER])
        wanted = ReassignablePartition(partition_index=0, replicas=[OTHER, NODE_ID])
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="topic", partitions=[wanted])])
        assert (await follower.client.call(request, 1)).error_code == 0
        topics = node.node.broker.partitions.topics
        with trio.fail_after(5):
            while "topic" not in topics or 0 not in topics["topic"].partitions:
                await trio.sleep(0.01)
        assert "/one/" in _path(topics["topic"].partitions[0])
