"""The periodic work on a node's logs: retention, flushes, checkpoints, expired producers, delayed removals.

With ten thousand idle partitions this must cost next to nothing: each pass takes about a microsecond per log, lets
other tasks run every hundred logs or after a millisecond, and only writes files that change. Blocking work is done in
threads.
"""

from collections.abc import Awaitable, Callable

import trio

from broker.storage.log import Log
from broker.storage.log_dir import LogDir
from broker.storage.log_manager import LogManager
from broker.storage.log_queues import FLUSHING_TASKS
from broker.storage.loop_pacer import LoopPacer
from broker.storage.offline_directories import NoLogDirOnline
from broker.storage.partition_metadata import sync_topic_id
from broker.storage.retention import delete_old_segments
from kraft.env import Env

# The shortest interval of all other work: some of Kafka's intervals may be 0 or negative.
INTERVAL_MIN_MS = 10
# The shortest interval of checks for flush.ms, and the time after which a changed flush.ms is noticed.
FLUSH_SCAN_MIN_MS = 50
FLUSH_SCAN_MAX_MS = 10_000


class Housekeeping:
    """Does the periodic work on the logs of `log_manager` while `run` runs.

    `high_watermark(topic, partition)` returns 0 if it is unknown; retention deletes nothing at or above it.
    `producer_expiration_ms` may be changed at any time.
    """

    def __init__(self, env: Env, log_manager: LogManager, high_watermark: Callable[[str, int], int]) -> None:
        self._env = env
        self._log_manager = log_manager
        self._high_watermark = high_watermark
        self.producer_expiration_ms = log_manager.config.producer_expiration_ms

    async def run(self) -> None:
        """Work until cancelled. Raises NoLogDirOnline or FsyncFailed, in an exception group; the node must end then."""
        config = self._log_manager.config
        periodic = (
            (config.retention_check_interval_ms, self.apply_retention),
            (config.recovery_point_checkpoint_interval_ms, self.checkpoint_recovery_points),
            (config.log_start_offset_checkpoint_interval_ms, self.checkpoint_log_start_offsets),
            (config.high_watermark_checkpoint_interval_ms, self.checkpoint_high_watermarks),
            (config.producer_expiration_check_interval_ms, self.expire_producers),
        )
        async with trio.open_nursery() as nursery:
            for interval_ms, task in periodic:
                nursery.start_soon(self._repeat, interval_ms, task)
            nursery.start_soon(self._flush_by_time)
            for _ in range(FLUSHING_TASKS):
                nursery.start_soon(self._flush_rolled)
            nursery.start_soon(self._tidy)
            await self._log_manager.failed.wait()
            raise NoLogDirOnline(self._log_manager.offline_message())

    async def apply_retention(self) -> None:
        """Delete the segments that retention.ms, retention.bytes or the log start offset make due."""
        now_ms = self._now_ms()
        for directory in self._log_manager.partition_directories():
            with self._log_manager.offline_on_error(directory):
                has_removed = False
                pacer = LoopPacer()
                for key, log in list(directory.logs.items()):
                    if directory.logs.get(key) is log:
                        removed = delete_old_segments(log, now_ms, self._high_watermark(*key))
                        has_removed |= bool(removed)
                        for path in removed:
                            self._log_manager.remove_later(directory, path, delay_ms=log.config.file_delete_delay_ms)
                    await pacer.checkpoint()
                if has_removed:  # otherwise the next start would report them as lost
                    await directory.write_log_start_offsets()

    async def flush_due(self) -> int:
        """Flush the logs whose flush.ms has passed; returns the ms until the next check."""
        now_ms = self._now_ms()
        next_ms = min(self._log_manager.config.flush_scheduler_interval_ms, FLUSH_SCAN_MAX_MS)
        for directory in self._log_manager.partition_directories():
            with self._log_manager.offline_on_error(directory):
                pacer = LoopPacer()
                for key, log in list(directory.logs.items()):
                    next_ms = min(next_ms, log.config.flush_ms)
                    if log.needs_flush(now_ms) and directory.logs.get(key) is log:
                        await log.flush()
                    await pacer.checkpoint()
        return max(next_ms, FLUSH_SCAN_MIN_MS)

    async def checkpoint_recovery_points(self) -> None:
        await self._in_each_directory(LogDir.write_recovery_points)

    async def checkpoint_log_start_offsets(self) -> None:
        await self._in_each_directory(LogDir.write_log_start_offsets)
        await self._in_each_directory(LogDir.write_cleaned_offsets)  # followers notice compaction by their leaders

    async def checkpoint_high_watermarks(self) -> None:
        await self._in_each_directory(lambda directory: directory.write_high_watermarks(self._high_watermark))

    async def expire_producers(self) -> None:
        """Forget the producers that were idle for producer.id.expiration.ms."""
        now_ms = self._now_ms()
        pacer = LoopPacer()
        for log in list(self._log_manager.logs.values()):
            log.producers.expiration_ms = self.producer_expiration_ms
            log.producers.expire(now_ms)
            await pacer.checkpoint()

    async def finish_creations_and_deletions(self) -> None:
        """Make new directories durable, drop deleted partitions from the checkpoints, remove files that are due."""
        await self._sync_created()
        await self._checkpoint_shrunk()
        await self._remove_due()

    async def _repeat(self, interval_ms: int, task: Callable[[], Awaitable[None]]) -> None:
        await trio.sleep(self._log_manager.config.initial_task_delay_ms / 1000)
        while True:
            await task()
            await trio.sleep(max(interval_ms, INTERVAL_MIN_MS) / 1000)

    async def _flush_by_time(self) -> None:
        while True:
            await trio.sleep(await self.flush_due() / 1000)

    async def _flush_rolled(self) -> None:
        """Flush rolled segments; one of several such tasks. Deleted logs are skipped."""
        while True:
            log, directory = await self._log_manager.rolled.next()
            if directory.is_online and log.failure is None:
                with self._log_manager.offline_on_error(directory):
                    await log.durability.flush_rolled()

    async def _tidy(self) -> None:
        while True:
            pending_removals = self._log_manager.pending_removals
            with trio.move_on_at(min((one.due for one in pending_removals), default=float("inf"))):
                await self._log_manager.work.wait()
            self._log_manager.work = trio.Event()
            await self.finish_creations_and_deletions()

    async def _in_each_directory(self, task: Callable[[LogDir], Awaitable[None]]) -> None:
        for directory in self._log_manager.partition_directories():
            with self._log_manager.offline_on_error(directory):
                await task(directory)

    async def _sync_created(self) -> None:
        created = self._log_manager.created
        synced: dict[LogDir, list[Log]] = {}
        while created:
            directory, log = created.pop()
            if not directory.is_online or not log.durability.is_new_directory:
                continue  # a flush has synced it
            with self._log_manager.offline_on_error(directory):
                try:
                    await sync_topic_id(self._env.disk, log.directory)
                except FileNotFoundError:
                    continue  # deleted in the meantime
                synced.setdefault(directory, []).append(log)
        for directory, logs in synced.items():
            with self._log_manager.offline_on_error(directory):
                await self._env.disk.sync_dir(directory.path)
                for log in logs:
                    log.durability.is_new_directory = False

    async def _checkpoint_shrunk(self) -> None:
        # A partition that is created again must not count as flushed up to the end of the deleted one.
        shrunk, self._log_manager.shrunk = self._log_manager.shrunk, set()
        for directory in self._log_manager.partition_directories():
            if directory.path in shrunk:
                with self._log_manager.offline_on_error(directory):
                    await directory.write_recovery_points()
                    await directory.write_log_start_offsets()
                    await directory.write_cleaned_offsets()

    async def _remove_due(self) -> None:
        now = trio.current_time()
        due = [one for one in self._log_manager.pending_removals if one.due <= now]
        self._log_manager.pending_removals = [one for one in self._log_manager.pending_removals if one.due > now]
        for one in due:
            if one.directory.is_online:
                with self._log_manager.offline_on_error(one.directory):
                    await self._env.disk.remove(one.path)

    def _now_ms(self) -> int:
        return int(self._env.wall() * 1000)
