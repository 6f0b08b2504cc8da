"""Flushes of logs for flush.messages, while a log moves to another directory."""

from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from broker.config.effective import TopicConfig
from broker.replication.log_flusher import LogFlusher
from broker.storage.log_config import LogConfig
from tests.support.faulty_disk import FaultyDisk
from tests.support.logs import NOW_MS, append, open_log
from tests.support.partition_harness import Harness


async def test_flush_of_the_former_log_does_not_count_after_a_move(tmp_path: Path) -> None:
    """The records are durable in the old directory only, which is deleted soon."""
    disk = FaultyDisk()
    harness = Harness(tmp_path, disk=disk)
    harness.become()
    harness.partition.configure(TopicConfig(LogConfig(flush_messages=1), 1))
    harness.append()
    harness.to_flush.clear()
    copy = open_log(tmp_path / "copy", disk=disk)
    append(copy, b"value")
    failed: list[OSError] = []
    flusher = LogFlusher(lambda: NOW_MS, lambda partition, error: failed.append(error))
    disk.held = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        flusher.add(harness.partition)
        await wait_all_tasks_blocked()
        harness.partition.replace_log(copy)
        disk.held.set()
        with trio.fail_after(10):
            while not harness.to_flush:
                await trio.sleep(0.005)
        nursery.cancel_scope.cancel()
    assert harness.leader.flushed_end == 0
    assert harness.to_flush == [harness.partition]
    assert failed == []
