"""Periodic work on a node's log directories: failures, flushes, retention, checkpoints and sizes."""

import errno
import os

import attrs
import pytest
import trio

from benchmarks.loop_holds import LoopHolds
from broker.storage.log_dir_usage import LogUsage, usage_of_directories
from broker.storage.offline_directories import NoLogDirOnline
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import FsyncFailed
from tests.support.storage_node import CONFIG, ORDERS, Node, produce


@pytest.fixture
def node(tmp_path) -> Node:
    return Node(tmp_path)


class TestFailure:
    async def test_failed_directory_takes_only_its_own_partitions_offline(self, node):
        log_manager = await node.start()
        for partition in range(3):
            log_manager.create("orders", ORDERS, partition, CONFIG)
        heard = []
        log_manager.on_offline = lambda path, partitions, error: heard.append((path, partitions, error.errno))
        log_manager.log_failed("orders", 2, OSError(errno.ENOSPC, "No space left on device"))
        assert heard == [(str(node.a), [("orders", 0), ("orders", 2)], errno.ENOSPC)]
        assert list(log_manager.logs) == [("orders", 1)]
        assert not log_manager.is_online(str(node.a))
        assert log_manager.is_online(str(node.b))

    async def test_directory_failure_is_reported_once(self, node):
        log_manager = await node.start()
        heard = []
        log_manager.on_offline = lambda path, partitions, error: heard.append(path)
        for _ in range(2):
            log_manager.mark_offline(str(node.a), OSError(errno.EIO, "Input/output error"))
        assert heard == [str(node.a)]

    async def test_partition_that_may_be_in_a_failed_directory_is_not_created_again(self, node):
        log_manager = await node.start()
        log_manager.create("orders", ORDERS, 0, CONFIG)
        log_manager.mark_offline(str(node.a), OSError(errno.EIO, "Input/output error"))
        with pytest.raises(KafkaError) as caught:
            log_manager.create("orders", ORDERS, 0, CONFIG, is_new=False)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        with pytest.raises(KafkaError) as caught:
            log_manager.delete("orders", 0)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    async def test_new_partition_is_created_in_an_online_directory(self, node):
        log_manager = await node.start()
        node.disk.broken.add(str(node.a))
        log_manager.create("orders", ORDERS, 0, CONFIG)
        assert node.partitions() == ["b/orders-0"]
        assert not log_manager.is_online(str(node.a))

    async def test_creating_a_partition_without_an_online_directory_is_a_storage_error(self, node):
        log_manager = await node.start()
        node.disk.broken |= {str(node.a), str(node.b)}
        with pytest.raises(KafkaError) as caught:
            log_manager.create("orders", ORDERS, 0, CONFIG)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    async def test_directory_that_fails_at_the_start_is_offline(self, node):
        node.disk.broken.add(str(node.a))
        log_manager = await node.start()
        assert not log_manager.is_online(str(node.a))
        assert [usage.error is None for usage in usage_of_directories(log_manager, node.disk)] == [False, True]
        assert len(log_manager.directory_ids) == 1

    async def test_node_without_an_online_directory_does_not_start(self, node):
        node.disk.broken |= {str(node.a), str(node.b)}
        with pytest.raises(NoLogDirOnline):
            await node.start()

    async def test_node_ends_when_its_last_directory_fails(self, node):
        log_manager = await node.start()
        with pytest.RaisesGroup(NoLogDirOnline):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: unwrapped(node.housekeeping().run))
                for directory in (node.a, node.b):
                    log_manager.mark_offline(str(directory), OSError(errno.EIO, "Input/output error"))

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    async def test_message_about_a_full_disk_asks_for_room(self, node, number):
        log_manager = await node.start()
        for directory in (node.a, node.b):
            log_manager.mark_offline(str(directory), OSError(number, os.strerror(number)))
        assert "free some room, or enlarge it, and start the node again" in log_manager.offline_message()

    async def test_node_ends_when_its_metadata_directory_fails(self, node):
        node.config = attrs.evolve(node.config, metadata_directory=str(node.a))
        log_manager = await node.start()
        log_manager.mark_offline(str(node.a), OSError(errno.EIO, "Input/output error"))
        with pytest.RaisesGroup(NoLogDirOnline):
            await node.housekeeping().run()

    async def test_failed_fsync_ends_the_node(self, node):
        await node.start()
        node.disk.unsyncable.add(str(node.a))
        with pytest.raises(FsyncFailed):
            await node.housekeeping().checkpoint_recovery_points()

    async def test_failed_fsync_of_a_closed_log_ends_the_node(self, node):
        log = (await node.start()).create("orders", ORDERS, 0, CONFIG)
        produce(log, 3)
        node.disk.unsyncable.add(str(node.a / "orders-0"))
        with pytest.RaisesGroup(FsyncFailed):
            await node.stop()
        assert not (node.a / ".kafka_cleanshutdown").exists()


async def unwrapped(run) -> None:
    """Run, and raise the only error of an exception group directly."""
    try:
        await run()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


class TestHousekeeping:
    async def test_flush_ms_moves_the_recovery_point(self, node):
        log_manager = await node.start()
        log = log_manager.create("orders", ORDERS, 0, attrs.evolve(CONFIG, flush_ms=1000))
        produce(log, 3)
        housekeeping = node.housekeeping()
        assert await housekeeping.flush_due() == 1000
        assert log.durability.recovery_point == 0
        node.now_ms += 1000
        await housekeeping.flush_due()
        assert log.durability.recovery_point == 3

    async def test_without_flush_ms_nothing_is_flushed(self, node):
        log_manager = await node.start()
        log = log_manager.create("orders", ORDERS, 0, CONFIG)
        produce(log, 3)
        node.now_ms += 10**9
        assert await node.housekeeping().flush_due() == 10_000
        assert log.durability.recovery_point == 0

    async def test_retention_of_many_logs_with_new_records_lets_other_tasks_run(self, node):
        """The indexes of 100 logs were completed in one turn, which blocked the event loop for 30 ms."""
        log_manager = await node.start()
        logs = [log_manager.create("orders", ORDERS, partition, CONFIG) for partition in range(200)]
        for log in logs:
            produce(log)
        holds = LoopHolds()
        trio.lowlevel.add_instrument(holds)
        await trio.lowlevel.checkpoint()
        await node.housekeeping().apply_retention()
        await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(holds)
        assert holds.longest_s < 0.01

    async def test_retention_ms_removes_segments_below_the_high_watermark(self, node):
        log_manager = await node.start()
        config = attrs.evolve(CONFIG, retention_ms=1000, file_delete_delay_ms=0)
        log = log_manager.create("orders", ORDERS, 0, config)
        produce(log, 3)
        log.roll()
        node.now_ms += 10_000
        housekeeping = node.housekeeping()
        await housekeeping.apply_retention()
        assert log.log_start_offset == 3
        await housekeeping.finish_creations_and_deletions()
        assert not [entry.name for entry in (node.a / "orders-0").iterdir() if entry.name.endswith(".deleted")]

    async def test_log_start_moved_by_delete_records_survives_a_crash(self, node):
        log_manager = await node.start()
        log = log_manager.create("orders", ORDERS, 0, CONFIG)
        produce(log, 1)
        produce(log, 1)
        log.advance_log_start_offset(1)
        await node.housekeeping().checkpoint_log_start_offsets()
        node.crash()
        assert (await node.start()).logs["orders", 0].log_start_offset == 1

    async def test_high_watermarks_are_checkpointed(self, node):
        log_manager = await node.start()
        produce(log_manager.create("orders", ORDERS, 0, CONFIG), 2)
        await node.housekeeping().checkpoint_high_watermarks()
        node.crash()
        assert (await node.start()).read_high_watermarks() == {("orders", 0): 2}

    async def test_usage_counts_bytes_by_partition(self, node):
        log_manager = await node.start()
        log = log_manager.create("orders", ORDERS, 0, CONFIG)
        produce(log)
        first, second = usage_of_directories(log_manager, node.disk)
        assert first.logs == {("orders", 0): LogUsage(log.size_bytes)}
        assert second.logs == {}
        assert 0 < first.usable_bytes <= first.total_bytes
