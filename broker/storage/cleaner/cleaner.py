"""Cleans the logs of compacted topics one after the other, the dirtiest first (Kafka's LogCleaner).

Each broker cleans its own replicas, whether it leads or not. The cleaned offset of each log is checkpointed in its log
directory's `cleaner-offset-checkpoint`. A log that turns out to be damaged is not cleaned any more.
"""

from collections.abc import Callable

import attrs
import trio

from broker.storage.cleaner.cleanable import Cleanable, cleanable
from broker.storage.cleaner.cleaning import Cleaning, CleaningAborted
from broker.storage.cleaner.offset_map import OffsetMap
from broker.storage.cleaner.pace import Pace, Throttle
from broker.storage.log import Log
from broker.storage.log_dir import LogDir, LoopShare, PartitionKey
from broker.storage.log_dirs import LogDirs
from broker.wire.errors import WireError
from kraft.env import Env, FsyncFailed
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key


@attrs.frozen
class CleanerConfig:
    """The settings of the cleaner; sizes are for all cleaning tasks together, which take turns."""

    enable: bool = from_key(BrokerConfigs.log_cleaner_enable)
    threads: int = from_key(BrokerConfigs.log_cleaner_threads)
    dedupe_buffer_bytes: int = from_key(BrokerConfigs.log_cleaner_dedupe_buffer_size)
    dedupe_buffer_load_factor: float = from_key(BrokerConfigs.log_cleaner_io_buffer_load_factor)
    io_buffer_bytes: int = from_key(BrokerConfigs.log_cleaner_io_buffer_size)
    io_max_bytes_per_second: float = from_key(BrokerConfigs.log_cleaner_io_max_bytes_per_second)
    backoff_ms: int = from_key(BrokerConfigs.log_cleaner_backoff_ms)


class Cleaner:
    """Cleans the logs of `log_dirs` while `run` runs. `high_watermark(topic, partition)` is given by the caller."""

    def __init__(
        self, env: Env, log_dirs: LogDirs, high_watermark: Callable[[str, int], int], config: CleanerConfig
    ) -> None:
        self._env = env
        self._log_dirs = log_dirs
        self._high_watermark = high_watermark
        self._changed = trio.Event()
        self._throttle = Throttle(config.io_max_bytes_per_second)
        self._in_progress: set[PartitionKey] = set()
        self._uncleanable: dict[PartitionKey, Log] = {}
        self.config = config

    def configure(self, config: CleanerConfig) -> None:
        """Apply changed settings. A cleaning that is under way starts again, as in Kafka."""
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
                    nursery.start_soon(self._work)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    async def _work(self) -> None:
        while True:
            if not await self.clean_dirtiest():
                await trio.sleep(self.config.backoff_ms / 1000)

    async def clean_dirtiest(self) -> bool:
        """Clean the dirtiest log that is due; returns whether there was one. Raises FsyncFailed."""
        found = await self._dirtiest()
        if found is None:
            return False
        key, log, share = found
        directory = self._log_dirs.directory_of(*key)
        if directory is None or key in self._in_progress:
            return True  # the log has changed meanwhile
        self._in_progress.add(key)
        try:
            with self._log_dirs.offline_on_error(directory):
                await self._clean(directory, key, log, share)
        finally:
            self._in_progress.discard(key)
        return True

    async def _dirtiest(self) -> tuple[PartitionKey, Log, Cleanable] | None:
        """The dirtiest log that is due; a log past max.compaction.lag.ms counts as fully dirty."""
        best: tuple[PartitionKey, Log, Cleanable] | None = None
        now_ms = self._now_ms()
        loop_share = LoopShare()
        for key, log in list(self._log_dirs.logs.items()):
            if log.config.compact_enabled and self._is_available(key, log):
                share = self._look_at(key, log, now_ms)
                if share is not None and (best is None or share.ratio > best[2].ratio):
                    best = key, log, share
            await loop_share.give_way()
        return best

    def _is_available(self, key: PartitionKey, log: Log) -> bool:
        is_sound = log.failure is None and not log.durability.is_unsettled and self._uncleanable.get(key) is not log
        return is_sound and key not in self._in_progress and self._log_dirs.logs.get(key) is log

    def _look_at(self, key: PartitionKey, log: Log, now_ms: int) -> Cleanable | None:
        directory = self._log_dirs.directory_of(*key)
        if directory is None:
            return None
        share: Cleanable | None = None
        with self._log_dirs.offline_on_error(directory):
            try:
                share = cleanable(log, high_watermark=self._high_watermark(*key), now_ms=now_ms)
            except WireError as error:
                self._give_up(key, log, error)
        return share if share is not None and share.is_due(log.config.min_cleanable_dirty_ratio) else None

    async def _clean(self, directory: LogDir, key: PartitionKey, log: Log, share: Cleanable) -> None:
        config = self.config
        cleaning = Cleaning(
            self._env.disk,
            log,
            share,
            OffsetMap(config.dedupe_buffer_bytes // config.threads, config.dedupe_buffer_load_factor),
            Pace(self._throttle),
            buffer_bytes=config.io_buffer_bytes // config.threads // 2,
            now_ms=self._now_ms(),
        )
        try:
            await log.flush()
            await directory.write_recovery_points()
            log.cleaned_offset = await cleaning.run()
        except CleaningAborted:
            self._env.trace("storage_cleaning_aborted", path=log.directory)
        except WireError as error:
            self._give_up(key, log, error)
        except OSError as error:
            if isinstance(error, FsyncFailed) or log.failure is None:
                raise
            # The log was deleted with its files.
        else:
            self._env.trace(
                "storage_log_cleaned",
                path=log.directory,
                first_dirty=share.first_dirty,
                end=log.cleaned_offset,
                bytes_read=cleaning.bytes_read,
                bytes_written=cleaning.bytes_written,
            )
            await directory.write_cleaned_offsets()
        if log.failure is None:
            for path in log.take_discarded():
                self._log_dirs.doom(directory, path, delay_ms=log.config.file_delete_delay_ms)

    def _give_up(self, key: PartitionKey, log: Log, error: Exception) -> None:
        self._env.trace("storage_log_uncleanable", path=log.directory, error=str(error))
        self._uncleanable[key] = log

    def _now_ms(self) -> int:
        return int(self._env.wall() * 1000)
