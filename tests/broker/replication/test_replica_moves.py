"""Moves between log directories keep the state of a replica, and crashes and failures at each step lose nothing."""

import time
from pathlib import Path
from shutil import copytree

import pytest
import trio

from broker.client import Producer
from broker.replication.partition import Partition
from broker.storage.log_manager import LogManager
from broker.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from broker.wire.errors import ErrorCode
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_dir_moves import directories, held_move, move, replicas, set_quota, two_directories, until
from tests.support.requests import batch, create_topic, fetch, produce, produce_request, read_values, records_of
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_client import WireClient, connected

READ_COMMITTED = 1


def partition_of(node: RunningNode) -> Partition:
    assert node.node.broker is not None
    return node.node.broker.partitions.get("topic", 0)


def directory_id(node: RunningNode, path: Path) -> bytes:
    assert node.node.broker is not None
    found = node.node.broker._log_manager.directories[str(path)].directory_id
    assert found is not None
    return found


def assigned_directory(node: RunningNode) -> bytes:
    """The directory of the replica by the metadata."""
    assert node.node.broker is not None
    topic = node.node.broker._shared.loader.image.topics.by_name["topic"]
    return topic.partitions[0].directories[0]


def log_manager(node: RunningNode) -> LogManager:
    assert node.node.broker is not None
    return node.node.broker._log_manager


async def moved(node: RunningNode, client: WireClient, destination: Path) -> None:
    before = len(node.traced.of("replica_moved"))
    assert await move(client, destination, 0) == [ErrorCode.NONE]
    await until(lambda: len(node.traced.of("replica_moved")) > before)


async def assign_without_moving(node: RunningNode, path: Path) -> None:
    """Have the controller know the new directory, as in the moment before the log is there."""
    assert node.node.broker is not None
    with trio.fail_after(10):
        assert await node.node.broker.partitions.directories.assign(partition_of(node), directory_id(node, path))
    await until(lambda: assigned_directory(node) == directory_id(node, path))


async def test_retries_are_recognized_after_a_move_even_if_the_records_were_deleted(tmp_path: Path) -> None:
    """The copy has no record of the producer."""
    now_ms = int(time.time() * 1000)  # so that the producer does not expire
    numbered = batch(b"one", b"two", timestamp=now_ms, producer_id=7, producer_epoch=0, base_sequence=0)
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await create_topic(client)
        await produce(client, numbered)
        deleted = DeleteRecordsTopic(name="topic", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        await client.call(DeleteRecordsRequest(topics=[deleted], timeout_ms=1_000), 2)
        await produce(client, batch(b"another producer's"))
        await moved(node, client, tmp_path / "two")
        assert (await produce(client, numbered)).base_offset == 0
        node.crash()

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert (await produce(client, numbered)).base_offset == 0
        following = batch(b"three", producer_id=7, producer_epoch=0, base_sequence=2)
        assert (await produce(client, following)).base_offset == 3
        early = batch(b"four", producer_id=7, producer_epoch=0, base_sequence=9)
        assert (await produce(client, early)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("aborts", [False, True])
async def test_transaction_goes_on_while_its_partition_moves(tmp_path: Path, aborts: bool) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await create_topic(client)
        await produce(client, batch(b"before"))
        address = f"127.0.0.1:{node.port}"
        async with Producer(address, transactional_id="payments") as producer:
            try:
                async with producer.transaction():
                    await producer.send("topic", b"one", partition=0)
                    await moved(node, client, tmp_path / "two")
                    assert await read_values(client, isolation_level=READ_COMMITTED) == [b"before"]
                    await producer.send("topic", b"two", partition=0)
                    if aborts:
                        raise ValueError
            except ValueError:
                assert aborts
            await moved(node, client, tmp_path / "one")
            answer = await fetch(client, isolation_level=READ_COMMITTED)
            values = [record.value for record in records_of(answer) if record.offset in (1, 2)]
            assert values == [b"one", b"two"]
            assert [each.first_offset for each in answer.aborted_transactions or []] == ([1] if aborts else [])
            assert answer.last_stable_offset == answer.high_watermark == 4


async def test_leader_epochs_without_records_move_along(tmp_path: Path) -> None:
    for _ in range(3):
        async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
            if not node.node.broker or not node.node.broker.partitions.topic("topic"):
                await create_topic(client)
                await produce(client, batch(b"value"))
            before = partition_of(node).role.readable_log().epochs.entries
            destination = "one" if (await replicas(client))["topic", 0, False] == "two" else "two"
            await moved(node, client, tmp_path / destination)
            assert partition_of(node).role.readable_log().epochs.entries == before


async def test_coordinator_goes_on_while_its_partition_moves(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await create_topic(client)
        address = f"127.0.0.1:{node.port}"
        async with Producer(address, transactional_id="payments") as producer:
            for round_number in range(4):
                async with producer.transaction():
                    await producer.send("topic", b"%d" % round_number, partition=0)
                destination = tmp_path / ("two", "one")[round_number % 2]
                states = [key for key in await replicas(client) if key[0] == "__transaction_state"]
                codes = await move(client, destination, *(index for _, index, _ in states), topic="__transaction_state")
                assert set(codes) == {ErrorCode.NONE}
        values = await read_values(client, isolation_level=READ_COMMITTED)
        assert [value for value in values if value is not None and len(value) == 1] == [b"0", b"1", b"2", b"3"]


async def test_start_after_a_crash_keeps_the_log_whose_new_directory_the_controller_knew(tmp_path: Path) -> None:
    """The copy lacks a record that was acknowledged in the meantime. Kafka would take it."""
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        await assign_without_moving(node, tmp_path / "two")
        assert (await produce(client, batch(b"acknowledged"))).base_offset == 1
        node.crash()

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert await read_values(client) == [b"first", b"acknowledged"]
        await until(lambda: assigned_directory(node) == directory_id(node, tmp_path / "one"))
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        await until(lambda: assigned_directory(node) == directory_id(node, tmp_path / "two"))
        assert await read_values(client) == [b"first", b"acknowledged"]


async def test_cancelled_move_reports_the_present_directory_again(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        await assign_without_moving(node, tmp_path / "two")
        assert await move(client, tmp_path / "one", 0) == [ErrorCode.NONE]
        await until(lambda: assigned_directory(node) == directory_id(node, tmp_path / "one"))


async def test_cancelled_move_that_waits_for_its_quota_lets_the_next_one_begin(tmp_path: Path) -> None:
    settings = {**two_directories(tmp_path), "num_replica_alter_log_dirs_threads": 1}
    async with running_node(tmp_path, **settings) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        assert await move(client, tmp_path / "one", 0) == [ErrorCode.NONE]
        growth = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="topic", count=2, assignments=None)], timeout_ms=5_000
        )
        assert (await client.call(growth, 3)).results[0].error_code == ErrorCode.NONE
        await until(lambda: ("topic", 1) in log_manager(node).logs)
        there = "two" if (await replicas(client))["topic", 1, False] == "one" else "one"
        assert await move(client, tmp_path / there, 1) == [ErrorCode.NONE]
        await until(lambda: bool(node.traced.of("replica_moved")))  # it is empty, and needs no quota


async def test_controller_learns_that_the_present_directory_failed_before_the_move(tmp_path: Path) -> None:
    """It would otherwise elect this replica, because the directory that it knows works."""
    disk = FaultyDisk()
    log_dirs = ",".join(str(tmp_path / name) for name in ("zero", "one", "two"))
    async with running_node(tmp_path, disk=disk, log_dirs=log_dirs) as node:
        async with connected(node.port) as client:
            await create_topic(client, "other")
            await held_move(node, client, tmp_path)
            await assign_without_moving(node, tmp_path / "two")
            expected = directory_id(node, tmp_path / "one")
            disk.failing = (str(tmp_path / "one"),)
            await client.send(produce_request(batch(b"lost")), 9)
            await client.expect_close()
        await until(lambda: assigned_directory(node) == expected)
        assert node.node.broker is not None
        image = node.node.broker._shared.loader.image
        assert image.topics.by_name["topic"].partitions[0].leader == -1


def rename(path: Path, old_suffix: str, new_name: str) -> None:
    """Rename a directory of topic-0, which ends with a suffix; "" is the log of the replica."""
    (found,) = [
        each
        for each in path.iterdir()
        if each.name.startswith("topic-0")
        and (each.name.endswith(old_suffix) if old_suffix else each.name == "topic-0")
    ]
    found.rename(path / new_name)


async def test_crash_between_the_two_renames_leaves_the_log_of_the_new_directory(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        await until(lambda: assigned_directory(node) == directory_id(node, tmp_path / "two"))
        node.crash()
    rename(tmp_path / "one", "-delete", "topic-0")
    assert directories(tmp_path) == [("", "one"), ("", "two")]

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert await read_values(client) == [b"first"]
        assert (await replicas(client))["topic", 0, False] == "two"
    assert directories(tmp_path) == [("", "two"), ("stray", "one")]


async def test_power_cut_that_keeps_only_the_second_rename_leaves_the_copy(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await held_move(node, client, tmp_path)
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        await until(lambda: assigned_directory(node) == directory_id(node, tmp_path / "two"))
        node.crash()
    rename(tmp_path / "two", "", f"topic-0.{'0' * 32}-future")

    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        assert node.traced.of("storage_future_log_recovered")
        assert await read_values(client) == [b"first"]
        assert (await replicas(client))["topic", 0, False] == "two"
        assert (await produce(client, batch(b"second"))).base_offset == 1


async def test_future_log_of_a_deleted_topic_is_removed_at_the_start(tmp_path: Path) -> None:
    async with running_node(tmp_path, **two_directories(tmp_path)) as node, connected(node.port) as client:
        await create_topic(client)
        stray = tmp_path / "two" / f"gone-0.{'0' * 32}-future"
        stray.mkdir()

    async with running_node(tmp_path, **two_directories(tmp_path)) as node:
        await until(lambda: not [each for each in (tmp_path / "two").iterdir() if each.name.startswith("gone")])


async def test_second_future_log_of_a_replica_is_removed_at_the_start(tmp_path: Path) -> None:
    """It would keep the replica from being compacted. A directory that was not in log.dirs for a while may have it."""
    log_dirs = ",".join(str(tmp_path / name) for name in ("zero", "one", "two"))
    async with running_node(tmp_path, log_dirs=log_dirs) as node, connected(node.port) as client:
        await create_topic(client, "other")
        await held_move(node, client, tmp_path)
        node.crash()
    (future,) = (tmp_path / "two").glob("topic-0.*-future")
    copytree(future, tmp_path / "zero" / f"topic-0.{'0' * 32}-future")

    async with running_node(tmp_path, log_dirs=log_dirs) as node, connected(node.port) as client:
        await set_quota(client, 1 << 30)
        await until(lambda: bool(node.traced.of("replica_moved")))
        await until(lambda: not list(tmp_path.glob("*/topic-0.*-future")))
        assert node.node.broker is not None
        assert not any(each.futures for each in node.node.broker._log_manager.partition_directories())


class DiskFailingAtRename(FaultyDisk):
    """The log directory fails in which a directory whose name ends with a suffix is to be renamed to one that ends with
    another.
    """

    def __init__(self, old_suffix: str, new_suffix: str) -> None:
        super().__init__()
        self._suffixes = old_suffix, new_suffix

    def rename(self, old: str, new: str) -> None:
        if old.endswith(self._suffixes[0]) and new.endswith(self._suffixes[1]):
            self.failing = (str(Path(new).parent),)
        super().rename(old, new)


@pytest.mark.parametrize(
    ("old_suffix", "new_suffix", "left"), [("-future", "/topic-0", "one"), ("/topic-0", "-delete", "two")]
)
async def test_log_directory_that_fails_after_the_controllers_answer_leaves_the_replica_in_the_other(
    tmp_path: Path, old_suffix: str, new_suffix: str, left: str
) -> None:
    """The controller has the replica in the new directory already, and learns of the failure."""
    disk = DiskFailingAtRename(old_suffix, new_suffix)
    log_dirs = ",".join(str(tmp_path / name) for name in ("zero", "one", "two"))
    async with running_node(tmp_path, disk=disk, log_dirs=log_dirs) as node, connected(node.port) as client:
        await create_topic(client, "other")
        await held_move(node, client, tmp_path)
        await set_quota(client, 1 << 30)
        await until(lambda: bool(disk.failing))
        await until(lambda: assigned_directory(node) == directory_id(node, tmp_path / left))
        assert (await replicas(client))["topic", 0, False] == left
        with trio.fail_after(10):
            while (answer := await produce(client, batch(b"second"))).error_code != ErrorCode.NONE:
                await trio.sleep(0.01)
        assert answer.base_offset == 1
        assert await read_values(client) == [b"first", b"second"]
        assert not node.traced.of("handler_failed")
        node.crash()

    async with running_node(tmp_path, log_dirs=log_dirs) as node, connected(node.port) as client:
        assert await read_values(client) == [b"first", b"second"]
