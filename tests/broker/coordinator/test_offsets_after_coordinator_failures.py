"""Commits survive the failure of their coordinator: the next one returns the acknowledged offset or a later one."""

from pathlib import Path

import trio

from broker.wire.api.find_coordinator import FindCoordinatorRequest
from broker.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.support.replicated_topics import create_replicated
from tests.support.running_cluster import RunningCluster, running_cluster
from tests.support.wire_client import connected, only

WITHIN_S = 30.0
GROUP, TOPIC = "group", "topic"


async def coordinator(cluster: RunningCluster) -> int:
    """The node that coordinates the group, according to the first running node."""
    with trio.fail_after(WITHIN_S):
        while True:
            asked = next(node for node in cluster.nodes.values() if node.is_up)
            async with connected(asked.port) as client:
                found = await client.call(FindCoordinatorRequest(key=GROUP), 3)
            if found.error_code == 0 and cluster.nodes[found.node_id].is_up:
                return int(found.node_id)
            await trio.sleep(0.02)


async def commit(cluster: RunningCluster, offset: int) -> bool:
    """Commit an offset. Returns True if it was acknowledged."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    async with connected(cluster.port(await coordinator(cluster))) as client:
        response = await client.call(OffsetCommitRequest(group_id=GROUP, topics=topics), 9)
    return bool(only(only(response.topics).partitions).error_code == 0)


async def told(cluster: RunningCluster) -> int:
    """The committed offset, as soon as a coordinator returns it."""
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    with trio.fail_after(WITHIN_S):
        while True:
            async with connected(cluster.port(await coordinator(cluster))) as client:
                response = await client.call(OffsetFetchRequest(group_id=GROUP, topics=topics), 7)
            if response.error_code == 0:
                return int(only(only(response.topics).partitions).committed_offset)
            await trio.sleep(0.02)


async def test_acknowledged_commits_survive_their_coordinator(tmp_path: Path) -> None:
    overrides = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    async with running_cluster(tmp_path, overrides=overrides) as cluster:
        await create_replicated(cluster)
        offset, acknowledged, coordinators = 0, -1, []
        for _ in range(3):
            with trio.fail_after(WITHIN_S):
                before = offset
                while offset < before + 20 or acknowledged <= before:  # a coordinator may have to load first
                    offset += 1
                    if await commit(cluster, offset):
                        acknowledged = offset
            leader = await coordinator(cluster)
            coordinators.append(leader)
            await cluster.nodes[leader].crash()
            assert acknowledged <= await told(cluster) <= offset
            assert await coordinator(cluster) != leader
            await cluster.start(leader)
            assert acknowledged <= await told(cluster) <= offset
        assert len(set(coordinators)) > 1
