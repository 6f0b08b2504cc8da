"""Cleans the logs of compacted topics one after the other, the dirtiest first (Kafka's LogCleaner).

Each broker cleans its own replicas, whether it leads or not. The cleaned offset of each log is checkpointed in its log
directory's `cleaner-offset-checkpoint`. A log that turns out to be damaged is not cleaned until the damage is repaired.
"""

from collections.abc import Callable
from typing import Final

import trio

from broker.storage.cleaner.log_to_clean import LogToClean, find_log_to_clean
from broker.storage.cleaner.pacing import CleaningPacer, Throttle
from broker.storage.copy_marker import unmark_copied
from broker.storage.log import Log
from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.log_manager import LogManager
from broker.storage.loop_pacer import LoopPacer
from broker.wire.errors import WireError
from kraft import lazy_attrs
from kraft.env import Env, FsyncFailed
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key

# A pass over 10,000 logs takes about this long. Without a pause, it would take half of the node's time.
_BACKOFF_MIN_MS: Final = 10


@lazy_attrs.frozen
class CleanerConfig:
    """The settings of the cleaner. Sizes are totals of all cleaning tasks."""

    enable: bool = from_key(BrokerConfigs.log_cleaner_enable)
    threads: int = from_key(BrokerConfigs.log_cleaner_threads)
    dedupe_buffer_bytes: int = from_key(BrokerConfigs.log_cleaner_dedupe_buffer_size)
    dedupe_buffer_load_factor: float = from_key(BrokerConfigs.log_cleaner_io_buffer_load_factor)
    io_buffer_bytes: int = from_key(BrokerConfigs.log_cleaner_io_buffer_size)
    io_max_bytes_per_second: float = from_key(BrokerConfigs.log_cleaner_io_max_bytes_per_second)
    backoff_ms: int = from_key(BrokerConfigs.log_cleaner_backoff_ms)


class Cleaner:
    """Cleans the logs of `log_manager` while `run` runs. `high_watermark` returns that of a topic and partition."""

    def __init__(
        self, env: Env, log_manager: LogManager, high_watermark: Callable[[str, int], int], config: CleanerConfig
    ) -> None:
        self._env = env
        self._log_manager = log_manager
        self._high_watermark = high_watermark
        self._changed = trio.Event()
        self._throttle = Throttle(config.io_max_bytes_per_second)
        self._in_progress: set[PartitionKey] = set()
        self._uncleanable: dict[PartitionKey, tuple[Log, int]] = {}
        self.config = config

    def configure(self, config: CleanerConfig) -> None:
        """Apply changed settings. A compaction in progress starts again, as in Kafka."""
        if config != self.config:
            self.config = config
            self._throttle = Throttle(config.io_max_bytes_per_second)
            self._changed.set()

    async def run(self) -> None:
        """Clean until cancelled. Raises FsyncFailed, in an exception group; the node must end then."""
        while True:
            self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for _ in range(self.config.threads if self.config.enable else 0):
                    nursery.start_soon(self._clean_repeatedly)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    async def _clean_repeatedly(self) -> None:
        while True:
            if not await self.clean_dirtiest():
                await trio.sleep(max(self.config.backoff_ms, _BACKOFF_MIN_MS) / 1000)

    async def clean_dirtiest(self) -> bool:
        """Clean the dirtiest log that is due; returns whether there was one. Raises FsyncFailed."""
        found = await self._dirtiest()
        if found is None:
            return False
        key, log, to_clean = found
        directory = self._log_manager.directory_of(*key)
        if directory is None or key in self._in_progress:
            return True  # the log has changed meanwhile
        self._in_progress.add(key)
        log.segments.is_being_cleaned = True
        try:
            with self._log_manager.offline_on_error(directory):
                await self._clean(directory, key, log, to_clean)
        finally:
            log.segments.is_being_cleaned = False
            self._in_progress.discard(key)
        return True

    async def _dirtiest(self) -> tuple[PartitionKey, Log, LogToClean] | None:
        """The dirtiest log that is due; a log past max.compaction.lag.ms counts as fully dirty."""
        best: tuple[PartitionKey, Log, LogToClean] | None = None
        now_ms = self._now_ms()
        pacer = LoopPacer()
        for key, log in list(self._log_manager.logs.items()):
            if log.config.compact_enabled and self._is_available(key, log):
                to_clean = self._find_if_due(key, log, now_ms)
                if to_clean is not None and (best is None or to_clean.ratio > best[2].ratio):
                    best = key, log, to_clean
            await pacer.checkpoint()
        return best

    def _is_available(self, key: PartitionKey, log: Log) -> bool:
        is_sound = log.failure is None and not log.durability.is_unsettled and log.segments.damaged is None
        is_sound = is_sound and self._uncleanable.get(key) != (log, log.segments.replacements)
        # A copy that is being made for another directory would mix records from before and after a compaction.
        is_moving = any(key in each.futures for each in self._log_manager.partition_directories())
        return is_sound and not is_moving and key not in self._in_progress and self._log_manager.logs.get(key) is log

    def _find_if_due(self, key: PartitionKey, log: Log, now_ms: int) -> LogToClean | None:
        directory = self._log_manager.directory_of(*key)
        if directory is None:
            return None
        to_clean: LogToClean | None = None
        with self._log_manager.offline_on_error(directory):
            try:
                to_clean = find_log_to_clean(log, high_watermark=self._high_watermark(*key), now_ms=now_ms)
            except WireError as error:
                self._give_up(key, log, error)
        return to_clean if to_clean is not None and to_clean.is_due(log.config.min_cleanable_dirty_ratio) else None

    async def _clean(self, directory: LogDir, key: PartitionKey, log: Log, to_clean: LogToClean) -> None:
        from broker.storage.cleaner.compaction import Compaction, CompactionAborted  # for start-up time
        from broker.storage.cleaner.offset_map import OffsetMap

        config = self.config
        compaction = Compaction(
            self._env.disk,
            log,
            to_clean,
            OffsetMap(config.dedupe_buffer_bytes // config.threads, config.dedupe_buffer_load_factor),
            CleaningPacer(self._throttle),
            buffer_bytes=config.io_buffer_bytes // config.threads // 2,
            now_ms=self._now_ms(),
        )
        try:
            await log.flush()
            await directory.write_recovery_points()
            await unmark_copied(self._env.disk, log.directory)
            log.cleaned_offset = await compaction.run()
        except CompactionAborted:
            self._env.trace("storage_cleaning_aborted", path=log.directory)
        except WireError as error:
            self._give_up(key, log, error)
        except OSError as error:
            if isinstance(error, FsyncFailed) or log.failure is None:
                raise
            # The log and its files were deleted.
        else:
            self._env.trace(
                "storage_log_cleaned",
                path=log.directory,
                first_dirty=to_clean.first_dirty,
                end=log.cleaned_offset,
                bytes_read=compaction.bytes_read,
                bytes_written=compaction.bytes_written,
            )
            await directory.write_cleaned_offsets()
        if log.failure is None:
            for path in log.take_discarded():
                self._log_manager.remove_later(directory, path, delay_ms=log.config.file_delete_delay_ms)

    def _give_up(self, key: PartitionKey, log: Log, error: Exception) -> None:
        self._env.trace("storage_log_uncleanable", path=log.directory, error=str(error))
        self._uncleanable[key] = log, log.segments.replacements

    def _now_ms(self) -> int:
        return int(self._env.wall() * 1000)
