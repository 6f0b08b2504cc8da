"""AlterReplicaLogDirs: replicas move between the log directories of a node while they are used (KIP-113)."""

from pathlib import Path

import pytest

from broker.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.api.describe_log_dirs import DescribeLogDirsRequest
from broker.wire.errors import ErrorCode
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_dir_moves import directories, held_move, move, replicas, set_quota, two_directories, until
from tests.support.requests import batch, create_topic, fetch, produce, produce_request, read_values
from tests.support.running_node import running_node
from tests.support.wire_client import connected, only


async def test_replica_moves_with_its_records_and_goes_on_there(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await create_topic(client)
        assert (await replicas(client))["topic", 0, False] == "one"
        await produce(client, batch(b"first"))
        assert await move(client, tmp_path / "two", 0) == [ErrorCode.NONE]
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert await replicas(client) | {} == {**await replicas(client), ("topic", 0, False): "two"}
        assert (await produce(client, batch(b"second"))).base_offset == 1
        assert await read_values(client) == [b"first", b"second"]
        assert ("", "two") in directories(tmp_path)
        assert ("", "one") not in directories(tmp_path)

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert (await replicas(client))["topic", 0, False] == "two"
        assert await read_values(client) == [b"first", b"second"]
        assert directories(tmp_path) == [("", "two")]


async def test_future_replica_is_described_with_its_lag(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        for count in range(2):
            await produce(client, batch(b"more"))
            results = (await client.call(DescribeLogDirsRequest(topics=None), 4)).results
            [future] = [
                each for result in results for topic in result.topics for each in topic.partitions if each.is_future_key
            ]
            assert (future.partition_index, future.partition_size, future.offset_lag) == (0, 0, 2 + count)


async def test_move_is_cancelled_by_a_request_for_the_current_directory(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        assert await move(client, tmp_path / "two", 0) == [ErrorCode.NONE]
        assert await move(client, tmp_path / "one", 0) == [ErrorCode.NONE]
        assert only(node.traced.of("replica_move_ended"))["reason"] == "another directory was asked for"
        assert ("topic", 0, True) not in await replicas(client)
        await until(lambda: directories(tmp_path) == [("", "one")])
        await set_quota(client, 1 << 30)
        assert (await produce(client, batch(b"second"))).base_offset == 1
        assert await read_values(client) == [b"first", b"second"]
        assert not node.traced.of("replica_moved")


async def test_destination_of_a_move_may_change(tmp_path: Path) -> None:
    log_dirs = ",".join(str(tmp_path / name) for name in ("one", "two", "three"))
    async with running_node(tmp_path, log_dirs=log_dirs) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        assert await move(client, tmp_path / "three", 0) == [ErrorCode.NONE]
        assert (await replicas(client))["topic", 0, True] == "three"
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert (await replicas(client))["topic", 0, False] == "three"


@pytest.mark.parametrize("ending", ["crash", "stop"])
async def test_move_goes_on_after_a_restart(tmp_path: Path, ending: str) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        if ending == "crash":
            node.crash()
    assert directories(tmp_path) == [("", "one"), ("future", "two")]

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert await read_values(client) == [b"first"]
        assert (await replicas(client))["topic", 0, True] == "two"
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert (await produce(client, batch(b"second"))).base_offset == 1
        assert await read_values(client) == [b"first", b"second"]


async def test_deleted_topic_takes_its_future_replica_along(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path, **{"file.delete.delay.ms": "0"})
        topics = [DeleteTopicState(name="topic")]
        await client.call(DeleteTopicsRequest(topics=topics, timeout_ms=1_000), 6)
        await until(lambda: directories(tmp_path) == [])
        await create_topic(client)
        await set_quota(client, 1 << 30)
        assert (await produce(client, batch(b"new"))).base_offset == 0
        assert await read_values(client) == [b"new"]


async def test_deleted_records_are_not_copied(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        await produce(client, batch(b"second", b"third"))
        deleted = DeleteRecordsTopic(name="topic", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        await client.call(DeleteRecordsRequest(topics=[deleted], timeout_ms=1_000), 2)
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert await read_values(client, 2) == [b"third"]
        assert (await fetch(client, 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await produce(client, batch(b"fourth"))).log_start_offset == 2
        node.crash()

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert (await fetch(client, 1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await read_values(client, 2) == [b"third", b"fourth"]


async def test_replica_is_created_in_the_directory_that_was_asked_for_before(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert await move(client, tmp_path / "two", 0, 1) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
        await create_topic(client, partitions=2)
        found = await replicas(client)
        assert [found["topic", index, False] for index in range(2)] == ["two", "two"]


async def test_moves_that_are_refused(tmp_path: Path) -> None:
    cordoned = {"cordoned_log_dirs": str(tmp_path / "two")}
    async with (
        running_node(tmp_path, **two_directories(tmp_path), **cordoned) as node,
        connected(node.port) as client,
    ):
        await create_topic(client)
        long = "l" * 249
        await create_topic(client, long)
        assert await move(client, tmp_path / "two", 0) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        assert await move(client, tmp_path / "three", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await move(client, "", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await move(client, tmp_path / "one", 0, 1) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await move(client, tmp_path / "one", 0, topic=long) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert await move(client, tmp_path / "one", -1, topic="\0/..") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_last_directory_counts_for_a_partition_that_is_named_twice(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await create_topic(client)
        topics = [AlterReplicaLogDirTopic(name="topic", partitions=[0])]
        dirs = [AlterReplicaLogDir(path=str(tmp_path / name), topics=topics) for name in ("two", "one")]
        response = await client.call(AlterReplicaLogDirsRequest(dirs=dirs), 1)
        assert [each.error_code for each in only(response.results).partitions] == [0]
        assert not node.traced.of("replica_move_began")


@pytest.mark.parametrize("failing", ["one", "two"])
async def test_move_ends_when_either_directory_fails(tmp_path: Path, failing: str) -> None:
    """A copy that is intact stays, and the next start goes on with it."""
    disk = FaultyDisk()
    log_dirs = ",".join(str(tmp_path / name) for name in ("zero", "one", "two"))
    async with running_node(tmp_path, disk=disk, log_dirs=log_dirs) as node:
        async with connected(node.port) as client:
            await create_topic(client, "other")
            await held_move(node, client, tmp_path)
            assert (await replicas(client))["topic", 0, False] == "one"
            disk.failing = (str(tmp_path / failing),)
            if failing == "two":
                await set_quota(client, 1 << 30)
            else:
                await client.send(produce_request(batch(b"lost")), 9)
                await client.expect_close()
            await until(lambda: bool(node.traced.of("replica_move_ended")))
        async with connected(node.port) as client:
            answer = await produce(client, batch(b"second"))
            assert answer.error_code == (ErrorCode.NONE if failing == "two" else ErrorCode.KAFKA_STORAGE_ERROR)
            assert (("topic", 0, True) in await replicas(client)) == (failing == "one")
            # The failed directory may have a future log of any replica.
            assert await move(client, tmp_path / "zero", 0) == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert await move(client, tmp_path / failing, 0) == [ErrorCode.KAFKA_STORAGE_ERROR]

    async with running_node(tmp_path, log_dirs=log_dirs) as node, connected(node.port) as client:
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        assert (await read_values(client))[0] == b"first"
        assert (await replicas(client))["topic", 0, False] == "two"
