"""Partition reassignment between brokers, over sockets: added, kept and removed replicas, and their files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import NoReassignmentInProgressError, UnknownTopicOrPartitionError

from broker.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from broker.wire.errors import ErrorCode
from tests.support.replicated_topics import (
    content,
    create_replicated,
    described,
    read,
    send,
    until_described,
    until_replicated,
)
from tests.support.running_cluster import COMBINED, WITHIN_S, RunningCluster, running_cluster
from tests.support.wire_client import connected, only

ROLES = {1: COMBINED, 2: COMBINED, 3: COMBINED, 4: "broker"}


async def move(cluster: RunningCluster, asked: int, replicas: Sequence[int] | None, index: int = 0) -> int:
    """Request or cancel a reassignment from a broker. Returns the error code."""
    wanted = ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="topic", partitions=[wanted])])
    async with connected(cluster.port(asked)) as client:
        response = await client.call(request, 1)
    assert response.error_code == 0, response.error_message
    return int(only(only(response.responses).partitions).error_code)


async def ongoing(cluster: RunningCluster, asked: int) -> dict[int, Any]:
    async with connected(cluster.port(asked)) as client:
        response = await client.call(ListPartitionReassignmentsRequest(), 0)
    assert response.error_code == 0, response.error_message
    return {each.partition_index: each for topic in response.topics for each in topic.partitions}


async def until_moved(cluster: RunningCluster, asked: int) -> None:
    with trio.fail_after(WITHIN_S):
        while await ongoing(cluster, asked):
            await trio.sleep(0.01)
    await cluster.until_images_match()


def directories(tmp_path: Path, node_id: int) -> list[str]:
    """The names of a broker's partition directories, without their unique suffixes."""
    names = (path.name for path in (tmp_path / f"node-{node_id}").iterdir() if path.name.startswith("topic-"))
    return sorted(name.split(".")[0] + (f".{name.rpartition('-')[2]}" if "." in name else "") for name in names)


async def test_partition_moves_away_from_its_leader_while_it_is_written(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES) as cluster:
        await create_replicated(cluster, [[1, 2, 3]], {"file.delete.delay.ms": "100"})
        sent: list[bytes | None] = []
        leader = 1

        async def write(count: int) -> None:
            nonlocal leader
            for _ in range(count):
                value = b"%d" % len(sent)
                with trio.fail_after(WITHIN_S):
                    while (code := await send(cluster, leader, value)) == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                        leader = (await described(cluster, 2)).leader_id
                assert code == 0
                sent.append(value)

        await write(20)
        assert await move(cluster, 3, [4, 2, 3]) == 0
        await write(20)
        await until_moved(cluster, 4)
        await write(20)
        partition = await until_described(cluster, 4, isr=[2, 3, 4])
        assert (partition.leader_id, list(partition.replica_nodes)) == (4, [4, 2, 3])
        # A batch that was refused during a leader change may have been appended nevertheless.
        assert list(dict.fromkeys(await read(cluster, 4))) == sent
        await until_replicated(cluster, tmp_path, [2, 3, 4])
        await cluster.until(lambda: directories(tmp_path, 1) == [])
        assert await send(cluster, 1, b"x") == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_running_reassignment_is_listed_and_all_replicas_are_described(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES) as cluster:
        await create_replicated(cluster, [[1, 2]])
        await cluster.nodes[4].crash()
        assert await move(cluster, 2, [2, 4]) == 0
        listed = (await ongoing(cluster, 3))[0]
        assert (listed.replicas, listed.adding_replicas, listed.removing_replicas) == ([2, 4, 1], [4], [1])
        await until_described(cluster, 1, replicas=[2, 4, 1], isr=[1, 2])
        assert await send(cluster, 1, b"meanwhile") == 0
        await cluster.start(4)
        await until_moved(cluster, 1)
        partition = await until_described(cluster, 4, leader=2, isr=[2, 4])
        assert list(partition.replica_nodes) == [2, 4]
        await until_replicated(cluster, tmp_path, [2, 4])


async def test_cancelled_reassignment_leaves_no_files(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES) as cluster:
        await create_replicated(cluster, [[1, 2]], {"file.delete.delay.ms": "0"})
        assert await send(cluster, 1, b"x") == 0
        await cluster.nodes[3].crash()
        assert await move(cluster, 4, [3, 4]) == 0
        await until_described(cluster, 1, isr=[1, 2, 4])
        assert await move(cluster, 4, None) == 0
        assert await move(cluster, 4, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        partition = await until_described(cluster, 1, leader=1, isr=[1, 2])
        assert sorted(partition.replica_nodes) == [1, 2]
        await cluster.until(lambda: directories(tmp_path, 4) == [])
        assert await send(cluster, 1, b"y") == 0
        assert await read(cluster, 1) == [b"x", b"y"]


async def test_replication_factor_is_raised_and_lowered(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1]], {"min.insync.replicas": "2"})
        assert await send(cluster, 1, b"alone") == 0
        assert await move(cluster, 1, [1, 2, 3]) == 0
        await until_moved(cluster, 1)
        await until_described(cluster, 2, isr=[1, 2, 3])
        assert await send(cluster, 1, b"of three") == 0
        assert await move(cluster, 1, [3]) == 0
        assert await ongoing(cluster, 1) == {}
        await until_described(cluster, 3, leader=3, isr=[3])
        assert await send(cluster, 3, b"alone again") == 0
        assert await read(cluster, 3) == [b"alone", b"of three", b"alone again"]


async def test_broker_renames_stray_logs_after_it_was_offline(tmp_path: Path) -> None:
    """As Kafka does. If the broker gets the replica again, it fetches it from the start."""
    async with running_cluster(tmp_path, ROLES) as cluster:
        await create_replicated(cluster, [[1, 2, 4], [1, 2, 4]], {"min.insync.replicas": "1"})
        assert await send(cluster, 1, b"x") == 0
        await cluster.nodes[4].crash()
        await until_described(cluster, 1, isr=[1, 2])
        assert await move(cluster, 1, [1, 2, 3]) == 0
        await until_moved(cluster, 1)
        await cluster.start(4)
        assert directories(tmp_path, 4) == ["topic-0.stray", "topic-1"]
        assert await send(cluster, 1, b"y") == 0
        assert await move(cluster, 1, [4, 1]) == 0
        await until_moved(cluster, 1)
        await until_described(cluster, 4, isr=[1, 4])
        assert content(tmp_path, 4) == content(tmp_path, 1) != b""
        assert directories(tmp_path, 4) == ["topic-0", "topic-0.stray", "topic-1"]


async def test_broker_discards_a_deleted_topic_that_was_created_again_while_it_was_down(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await create_replicated(cluster, [[1, 2, 3]], {"file.delete.delay.ms": "0"})
        assert await send(cluster, 1, b"old", b"older") == 0
        await cluster.nodes[3].crash()
        await until_described(cluster, 1, isr=[1, 2])
        async with connected(cluster.port(1)) as client:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="topic")], timeout_ms=5_000)
            assert only((await client.call(request, 6)).responses).error_code == 0
        await cluster.until(lambda: directories(tmp_path, 1) == [])
        await create_replicated(cluster, [[1, 2, 3]])
        assert await send(cluster, 1, b"new") == 0
        await cluster.start(3)
        await until_described(cluster, 1, isr=[1, 2, 3])
        assert content(tmp_path, 3) == content(tmp_path, 1)
        assert await read(cluster, 1) == [b"new"]
        assert directories(tmp_path, 3) == ["topic-0", "topic-0.stray"]


async def test_interrupted_removal_is_finished_after_a_crash(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES) as cluster:
        await create_replicated(cluster, [[1, 4]], {"file.delete.delay.ms": "60000"})
        assert await send(cluster, 1, b"x") == 0
        assert await move(cluster, 1, [1]) == 0
        await cluster.until(lambda: directories(tmp_path, 4) == ["topic-0.delete"])
        await cluster.nodes[4].crash()
        assert directories(tmp_path, 4) == ["topic-0.delete"]
        await cluster.start(4)
        await cluster.until(lambda: directories(tmp_path, 4) == [])


async def test_reassignment_survives_crashes_of_the_new_replica_and_the_leader(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES) as cluster:
        await create_replicated(cluster, [[2, 3]], {"min.insync.replicas": "1"})
        for number in range(50):
            assert await send(cluster, 2, b"%d" % number) == 0
        assert await move(cluster, 1, [1, 4]) == 0
        await cluster.nodes[4].crash()
        await cluster.nodes[2].crash()
        await until_described(cluster, 1, isr=[1, 3])
        await cluster.start(4)
        await until_moved(cluster, 1)
        await until_described(cluster, 4, leader=1, isr=[1, 4])
        assert await read(cluster, 1) == [b"%d" % number for number in range(50)]
        await until_replicated(cluster, tmp_path, [1, 4])
        await cluster.start(2)
        assert directories(tmp_path, 2) == ["topic-0.stray"]


def is_fenced(cluster: RunningCluster, broker_id: int, *, by: int) -> bool:
    """True if the broker is fenced in another node's metadata."""
    node = cluster.nodes[by].node
    assert node is not None
    assert node.loader is not None
    return node.loader.image.cluster.brokers[broker_id].fenced


@pytest.mark.clients
async def test_real_admin_client_starts_lists_and_cancels_reassignments(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, ROLES) as cluster:
        await create_replicated(cluster, [[1, 2], [1, 2]])
        await cluster.nodes[3].crash()
        # Before that, the administrator might connect to it.
        await cluster.until(lambda: is_fenced(cluster, 3, by=4))
        first, second = TopicPartition("topic", 0), TopicPartition("topic", 1)
        admin = await trio.to_thread.run_sync(
            lambda: KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{cluster.port(4)}")
        )
        try:
            moves = {first: [4, 2], second: [2, 3], TopicPartition("topic", 2): [1], TopicPartition("none", 0): [1]}
            assert await trio.to_thread.run_sync(admin.alter_partition_reassignments, moves) == {
                first: None,
                second: None,
                TopicPartition("topic", 2): UnknownTopicOrPartitionError,
                TopicPartition("none", 0): UnknownTopicOrPartitionError,
            }
            await until_described(cluster, 4, 0, leader=4, isr=[2, 4])
            assert await trio.to_thread.run_sync(admin.list_partition_reassignments) == {
                second: {"replicas": [2, 3, 1], "adding_replicas": [3], "removing_replicas": [1]}
            }
            assert await trio.to_thread.run_sync(admin.list_partition_reassignments, [first]) == {}
            cancel = dict.fromkeys((first, second))
            assert await trio.to_thread.run_sync(admin.alter_partition_reassignments, cancel) == {
                first: NoReassignmentInProgressError,
                second: None,
            }
            assert await trio.to_thread.run_sync(admin.list_partition_reassignments) == {}
        finally:
            await trio.to_thread.run_sync(admin.close)
