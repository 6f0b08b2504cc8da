"""A node whose disks fail: which parts keep working, when the node ends, and which clients are notified."""

import errno
from pathlib import Path

import pytest
import trio

from broker.storage.offline_directories import NoLogDirOnline
from broker.wire.api.describe_log_dirs import DescribeLogDirsRequest
from broker.wire.api.metadata import MetadataRequest
from broker.wire.errors import ErrorCode
from kraft.env import FsyncFailed
from tests.support.faulty_disk import FaultyDisk
from tests.support.requests import batch, create_topic, fetch, fetch_request, produce, produce_request, read_values
from tests.support.running_node import running_node
from tests.support.wire_client import connected, only


def two_directories(path: Path) -> dict[str, object]:
    return {"log_dirs": f"{path / 'one'},{path / 'two'}"}


def index_in(path: Path) -> int:
    """The partition of "topic" in a log directory that holds one of two."""
    return int(only([each.name for each in path.iterdir() if each.name.startswith("topic-")]).rpartition("-")[2])


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_failed_log_directory_goes_offline_alone(tmp_path: Path, error: int) -> None:
    disk = FaultyDisk()
    async with running_node(tmp_path, disk=disk, **two_directories(tmp_path)) as node:
        async with connected(node.port) as client:
            await create_topic(client, partitions=2)
            lost, left = index_in(tmp_path / "two"), index_in(tmp_path / "one")
            disk.failing, disk.error = (str(tmp_path / "two"),), error

            # No part of such a failed request is acknowledged: its connection is closed.
            await client.send(produce_request(batch(b"lost"), index=lost), 9)
            await client.expect_close()

        async with connected(node.port) as client:
            for acks in (1, -1):
                answer = await produce(client, batch(b"lost"), index=lost, acks=acks)
                assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
            assert (await fetch(client, indexes=[lost])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await fetch(client, version=5, indexes=[lost])).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await produce(client, batch(b"value"), index=left)).error_code == 0
            assert await read_values(client, indexes=[left]) == [b"value"]
            await create_topic(client, "new", partitions=2)
            assert (await produce(client, batch(b"value"), topic="new", index=1)).error_code == 0

            results = (await client.call(DescribeLogDirsRequest(topics=None), 4)).results
            assert {result.log_dir: result.error_code for result in results} == {
                str(tmp_path / "one"): 0,
                str(tmp_path / "two"): ErrorCode.KAFKA_STORAGE_ERROR,
            }
        assert only(node.traced.of("storage_log_dir_offline"))["path"] == str(tmp_path / "two")


async def test_parked_fetch_completes_when_its_directory_fails(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with (
        running_node(tmp_path, disk=disk, **two_directories(tmp_path)) as node,
        connected(node.port) as reader,
        connected(node.port) as client,
    ):
        await create_topic(client, partitions=2)
        lost = index_in(tmp_path / "two")
        await reader.send(fetch_request(indexes=[lost], max_wait_ms=600_000), 12)
        await reader.expect_silence(0.05)
        disk.failing = (str(tmp_path / "two"),)
        await client.send(produce_request(batch(b"lost"), index=lost), 9)

        answer = only(only((await reader.receive()).responses).partitions)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_repaired_directory_is_used_after_a_restart(tmp_path: Path) -> None:
    disk = FaultyDisk()
    async with running_node(tmp_path, disk=disk, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await create_topic(client, partitions=2)
        lost = index_in(tmp_path / "two")
        await produce(client, batch(b"before"), index=lost)
        disk.failing = (str(tmp_path / "two"),)
        await client.send(produce_request(batch(b"lost"), index=lost), 9)
        await client.expect_close()

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert await read_values(client, indexes=[lost]) == [b"before"]
        assert (await produce(client, batch(b"after"), index=lost)).base_offset == 1


async def test_node_ends_when_its_last_directory_fails(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with trio.fail_after(10), pytest.RaisesGroup(NoLogDirOnline, flatten_subgroups=True):
        async with running_node(tmp_path, disk=disk) as node, connected(node.port) as client:
            await create_topic(client)
            disk.failing = (str(tmp_path / "data" / "topic-0"),)
            await client.send(produce_request(batch(b"lost")), 9)
            await trio.sleep_forever()


async def test_node_ends_when_it_cannot_write_its_metadata(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with trio.fail_after(10), pytest.RaisesGroup(OSError, flatten_subgroups=True):
        async with running_node(tmp_path, disk=disk, **two_directories(tmp_path)) as node:
            async with connected(node.port) as client:
                disk.failing = (str(tmp_path / "one" / "__cluster_metadata-0"),)
                await client.send(MetadataRequest(topics=[], allow_auto_topic_creation=True), 9)
                await client.receive()
                with pytest.raises(
                    (EOFError, AssertionError)
                ):  # the node ends, or responds that it does not lead any more
                    await create_topic(client)
            await trio.sleep_forever()


async def test_failed_fsync_ends_the_node(tmp_path: Path) -> None:
    """It is not known then which records are durable."""
    disk = FaultyDisk()
    with trio.fail_after(10), pytest.RaisesGroup(FsyncFailed, flatten_subgroups=True):
        async with running_node(tmp_path, disk=disk) as node, connected(node.port) as client:
            await create_topic(client, configs={"flush.messages": "1"})
            disk.unsyncable = (str(tmp_path / "data" / "topic-0"),)
            await client.send(produce_request(batch(b"value")), 9)
            await client.expect_close()
            await trio.sleep_forever()

    async with running_node(tmp_path) as node, connected(node.port) as client:
        assert (await fetch(client)).high_watermark in (0, 1)
