"""All log directories of a node: opening and closing them, and taking failed ones offline.

`open` claims the directories and reads whether they were closed cleanly. `load` opens the log of every partition, once
the topics' configs are known. `Housekeeping` does the periodic work. `close_cleanly` closes the logs so that the next
start need not recover them; `close_unloaded` does so for a node that stops before `load`.

A directory that fails with an OSError goes offline until the next start, as in Kafka: its logs leave `logs`,
`on_offline` is called, and its partitions answer KAFKA_STORAGE_ERROR. If none is left, or the metadata log's directory
fails, `Housekeeping` raises and the node ends. A failed fsync (FsyncFailed) is not caught anywhere, because it is
unknown then what is durable.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import attrs
import trio

from broker.storage.clean_shutdown import NO_BROKER_EPOCH
from broker.storage.duplicate_log_dirs import Belongs, DuplicateLogDir, find_stray
from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.log_manager_config import LogManagerConfig
from broker.storage.log_queues import RolledLogs, SuspectLogs
from broker.storage.meta_properties import MetaProperties, verify_meta_properties
from broker.storage.offline_directories import NoLogDirOnline, first_error, offline_message, offline_paths
from broker.storage.partition_directory import (
    deleted_directory_name,
    partition_directory_name,
    stray_directory_name,
)
from broker.storage.partition_metadata import write_topic_id
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.uuids import encode_uuid, new_uuid
from kraft import lazy_attrs
from kraft.env import Env, FsyncFailed


@lazy_attrs.frozen
class PendingRemoval:
    """A file or directory that is to be removed at `due`, a time of Trio's clock."""

    due: float
    path: str
    directory: LogDir


class LogManager:
    """The logs of a node by (topic, partition), in all its directories.

    `topic_ids` has the same keys. A value is None if a power cut has left a directory without its topic id; the
    metadata then decides whether it is a stray. `on_offline(path, partitions, error)` is called when a directory fails.
    """

    def __init__(self, env: Env, config: LogManagerConfig, directories: Sequence[LogDir]) -> None:
        self.env = env
        self._disk = env.disk
        self.config = config
        self.directories = {directory.path: directory for directory in directories}
        self.logs: dict[PartitionKey, Log] = {}
        self.topic_ids: dict[PartitionKey, bytes | None] = {}
        self.on_offline: Callable[[str, Sequence[PartitionKey], OSError], None] | None = None
        self.pending_removals: list[PendingRemoval] = []
        self.created: list[tuple[LogDir, Log]] = []  # logs whose new directories may not be durable yet
        self.shrunk: set[str] = set()  # directories whose checkpoints still name deleted partitions
        self.work = trio.Event()
        self.rolled = RolledLogs()
        self.suspects = SuspectLogs()
        self.failed = trio.Event()

    @classmethod
    async def open(
        cls,
        env: Env,
        config: LogManagerConfig,
        *,
        cluster_id: str,
        found_metadata: Callable[[], Awaitable[None]] | None = None,
    ) -> "LogManager":
        """Claim every directory, format the new ones, and remove the markers of the last clean shutdown.

        `found_metadata` creates an empty metadata log before a new metadata directory counts as formatted.

        A directory that does not work starts offline. From here on only `close_cleanly` and `close_unloaded` write
        markers.

        Raises LogDirInUse, MetaPropertiesError (InconsistentClusterId, InconsistentNodeId), DuplicateLogDir, and
        NoLogDirOnline.
        """
        paths = list(config.directories)
        if config.metadata_directory is not None and config.metadata_directory not in paths:
            paths.append(config.metadata_directory)
        if len(set(paths)) != len(paths):
            raise DuplicateLogDir(f"Duplicate log directory found: {', '.join(paths)}")
        log_manager = cls(
            env, config, [LogDir(env, path, producer_expiration_ms=config.producer_expiration_ms) for path in paths]
        )
        try:
            await log_manager._claim(cluster_id, found_metadata)
        except BaseException:
            log_manager.release()
            raise
        return log_manager

    async def load(
        self, config_of: Callable[[str], LogConfig], belongs: Belongs = lambda key, topic_id, directory_id: True
    ) -> None:
        """Open the log of every partition; `config_of` returns a topic's effective config.

        If a partition exists twice, the copy that does not belong to it is renamed. Raises DuplicateLogDir,
        NoLogDirOnline; the directories are released then.
        """
        try:
            for directory in self.partition_directories():
                with self.offline_on_error(directory):
                    await self._load_directory(directory, config_of, belongs)
            self._check_any_online()
            for directory in self.partition_directories():
                directory.trace_missing_logs(lambda key: key not in self.logs and belongs(key, None, None))
        except BaseException:
            self.release()
            raise

    def partition_directories(self) -> list[LogDir]:
        """The online directories that may hold partitions, in the order of the config."""
        found = (self.directories[path] for path in self.config.directories)
        return [directory for directory in found if directory.is_online]

    @property
    def any_offline(self) -> bool:
        return len(self.partition_directories()) < len(self.config.directories)

    def directory_of(self, topic: str, partition: int) -> LogDir | None:
        """The directory with a partition's log; None if no online directory has it."""
        key = (topic, partition)
        return next((directory for directory in self.partition_directories() if key in directory.logs), None)

    def create(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        config: LogConfig,
        *,
        is_new: bool = True,
        destination: str | None = None,
    ) -> Log:
        """The partition's log; without one, a new log in `destination`, or in the directory with the fewest partitions.

        A directory that is cordoned gets it only if all are, also if it was chosen as the destination before.
        `is_new` says that the partition was just assigned to this broker. Otherwise its log may be in an offline
        directory, and must not be created again. A new directory is durable soon after this returns, and at the latest
        when the log is flushed.

        Raises KafkaError INCONSISTENT_TOPIC_ID or KAFKA_STORAGE_ERROR.
        """
        log = self.logs.get((topic, partition))
        if log is not None:
            self._adopt(log, topic, topic_id, partition)
            return log
        if not is_new and self.any_offline:
            offline = self._offline_paths()
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {topic}-{partition} because log directories {offline} are offline",
            )

        def preference(each: LogDir) -> tuple[bool, bool, int]:
            return each.is_cordoned, each.path != destination, len(each.logs)

        for directory in sorted(self.partition_directories(), key=preference):
            with self.offline_on_error(directory):
                return self._create_in(directory, topic, topic_id, partition, config)
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"No log directories available. Tried {', '.join(self.config.directories)}",
        )

    def delete(self, topic: str, partition: int) -> None:
        """Remove a partition from `logs` and rename its directory, which is deleted after file.delete.delay.ms.

        Does nothing without a log. Raises KafkaError KAFKA_STORAGE_ERROR if the log may be in an offline directory.
        """
        directory = self.directory_of(topic, partition)
        if directory is None:
            if self.any_offline:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"Failed to delete log for {topic}-{partition} because it may be in one of the offline directories "
                    f"{self._offline_paths()}",
                )
            return
        delay_ms = self.logs[topic, partition].config.file_delete_delay_ms
        path = self.rename_away(directory, (topic, partition), deleted_directory_name)
        if path is not None:
            self.remove_later(directory, path, delay_ms=delay_ms)

    def rename_stray(self, topic: str, partition: int) -> None:
        """Remove a partition that is unknown to the metadata from `logs` and rename its directory, without deleting it.

        As in Kafka, the records stay in case the metadata is wrong, for example after its directory was lost.
        """
        directory = self.directory_of(topic, partition)
        assert directory is not None, f"{topic}-{partition} is in logs"
        self.rename_away(directory, (topic, partition), stray_directory_name)

    def rename_away(
        self, directory: LogDir, key: PartitionKey, new_name: Callable[[str, int, bytes], str]
    ) -> str | None:
        """Remove a log from `logs` and rename its directory; returns the new path, None if the directory failed."""
        self.forget(directory, key).close()
        old = f"{directory.path}/{partition_directory_name(*key)}"
        new = f"{directory.path}/{new_name(*key, new_uuid(self.env.rng.randbytes))}"
        with self.offline_on_error(directory):
            self._disk.rename(old, new)
            self.shrunk.add(directory.path)
            self.env.trace("storage_log_renamed", topic=key[0], partition=key[1], path=new)
        return new if directory.is_online else None

    async def settle(self, keys: Sequence[PartitionKey]) -> None:
        """Make the truncations of these partitions durable, so that they take appends again; unknown ones are ignored.

        A directory that fails goes offline. Raises FsyncFailed.
        """
        for directory in self.partition_directories():
            logs = [log for key in keys if (log := directory.logs.get(key)) is not None and log.durability.is_unsettled]
            with self.offline_on_error(directory):
                await directory.settle(logs)

    def remove_later(self, directory: LogDir, path: str, *, delay_ms: int) -> None:
        """Remove a renamed file or directory in the background, `delay_ms` from now."""
        self.pending_removals.append(PendingRemoval(trio.current_time() + delay_ms / 1000, path, directory))
        self.work.set()

    def log_failed(self, topic: str, partition: int, error: OSError) -> None:
        """Take the directory of a log that raised `error` offline."""
        directory = self.directory_of(topic, partition)
        if directory is not None:
            self.mark_offline(directory.path, error)

    def mark_offline(self, path: str, error: OSError) -> None:
        """Stop using a directory and close its logs; does nothing if it is offline already."""
        directory = self.directories[path]
        if not directory.is_online:
            return
        directory.error = error
        keys = list(directory.logs)
        self.env.trace("storage_log_dir_offline", path=path, error=str(error), partitions=len(keys))
        for key in keys:
            log = self.forget(directory, key)
            with contextlib.suppress(OSError):
                log.close()
        for future in directory.futures.values():
            with contextlib.suppress(OSError):
                future.log.close()
        directory.futures.clear()
        directory.release()
        if self.on_offline is not None:
            self.on_offline(path, keys, error)
        if self._is_lost:
            self.failed.set()

    def is_online(self, path: str) -> bool:
        directory = self.directories.get(path)
        return directory is not None and directory.is_online

    @property
    def directory_ids(self) -> list[bytes]:
        """The ids of the online directories, for the broker's registration (KIP-858)."""
        found = (directory.properties for directory in self.partition_directories())
        return [properties.directory_id for properties in found if properties and properties.directory_id]

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch under which all directories were cleanly closed; -1 if they differ (KIP-966)."""
        epochs = {directory.clean_broker_epoch for directory in self.partition_directories()}
        return epochs.pop() if len(epochs) == 1 and not self.any_offline else NO_BROKER_EPOCH

    def read_high_watermarks(self) -> dict[PartitionKey, int]:
        """The checkpointed high watermarks of all partitions."""
        offsets: dict[PartitionKey, int] = {}
        for directory in self.partition_directories():
            with self.offline_on_error(directory):
                offsets |= directory.read_checkpoint(directory.high_watermarks)
        return offsets

    async def close_cleanly(self, *, broker_epoch: int = -1) -> None:
        """Flush and close every log, write the checkpoints and clean-shutdown markers, and release the directories.

        A directory that fails on the way gets no marker, and is recovered at the next start.
        """
        try:
            for directory in self.partition_directories():
                with self.offline_on_error(directory):
                    await directory.close_cleanly(broker_epoch)
        finally:
            self.release()

    async def close_unloaded(self, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Write the clean-shutdown markers again, for directories that were closed cleanly before and were not loaded.

        `broker_epoch` is the epoch of the broker's registration in the meantime. The directories are released then.
        """
        try:
            for directory in self.partition_directories():
                if directory.was_clean:
                    with self.offline_on_error(directory):
                        await directory.write_clean_shutdown_marker(max(broker_epoch, directory.clean_broker_epoch))
        finally:
            self.release()

    def release(self) -> None:
        """Release the directories without markers, as a crash would; for a node that fails to start."""
        for directory in self.directories.values():
            directory.release()

    @contextlib.contextmanager
    def offline_on_error(self, directory: LogDir) -> Iterator[None]:
        """Take the directory offline if an OSError is raised within; the error ends here."""
        try:
            yield
        except OSError as error:
            if isinstance(error, FsyncFailed):
                raise
            self.mark_offline(directory.path, error)
        except BaseExceptionGroup as group:
            failures, others = group.split(OSError)
            if failures is None or others is not None or failures.subgroup(FsyncFailed) is not None:
                raise
            self.mark_offline(directory.path, first_error(failures))

    @property
    def _is_lost(self) -> bool:
        metadata = self.config.metadata_directory
        return not self.partition_directories() or (metadata is not None and not self.is_online(metadata))

    def _check_any_online(self) -> None:
        if self._is_lost:
            raise NoLogDirOnline(self.offline_message())

    def offline_message(self) -> str:
        """The message for the operator if all directories, or the metadata log's, are offline."""
        return offline_message(self.directories.values())

    def _offline_paths(self) -> str:
        return offline_paths(self.directories.values())

    async def _claim(self, cluster_id: str, found_metadata: Callable[[], Awaitable[None]] | None) -> None:
        for directory in self.directories.values():
            with self.offline_on_error(directory):
                directory.claim()
        stored = {path: directory.properties for path, directory in self.directories.items() if directory.properties}
        verify_meta_properties(stored, cluster_id=cluster_id, node_id=self.config.node_id)
        for directory in self.directories.values():
            if directory.is_online:
                with self.offline_on_error(directory):
                    is_new = directory.properties is None and directory.path == self.config.metadata_directory
                    if is_new and found_metadata is not None:
                        await found_metadata()
                    await self._format(directory, cluster_id)
                    await directory.remove_clean_shutdown_marker()
        self._check_any_online()

    async def _format(self, directory: LogDir, cluster_id: str) -> None:
        properties = directory.properties or MetaProperties(cluster_id, self.config.node_id, None)
        if properties.directory_id is None:
            properties = attrs.evolve(properties, directory_id=new_uuid(self.env.rng.randbytes))
        await directory.format(properties)

    async def _load_directory(self, directory: LogDir, config_of: Callable[[str], LogConfig], belongs: Belongs) -> None:
        for path in await directory.load(config_of):
            self.remove_later(directory, path, delay_ms=0)
        for key, log in list(directory.logs.items()):
            other = self.directory_of(*key) if key in self.logs else None
            if other is not None:
                self.rename_away(find_stray(key, directory, other, belongs), key, stray_directory_name)
            if key in directory.logs and key not in self.logs:
                self.remember(directory, key, log, directory.topic_ids[key])

    def _create_in(self, directory: LogDir, topic: str, topic_id: bytes, partition: int, config: LogConfig) -> Log:
        path = f"{directory.path}/{partition_directory_name(topic, partition)}"
        self._disk.make_dir(path)
        write_topic_id(self._disk, path, topic_id)
        log = directory.open_log(path, config, recovery_point=0, log_start_offset=0, clean=True)
        self.remember(directory, (topic, partition), log, topic_id)
        self.sync_later(directory, log)
        return log

    def _adopt(self, log: Log, topic: str, topic_id: bytes, partition: int) -> None:
        key = (topic, partition)
        stored = self.topic_ids[key]
        if stored == topic_id:
            return
        if stored is not None:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"Tried to assign topic ID {encode_uuid(topic_id)} to log for topic partition {topic}-{partition}, "
                f"but log already contained topic ID {encode_uuid(stored)}",
            )
        directory = self.directory_of(topic, partition)
        assert directory is not None, f"{key} is in logs"
        path = f"{directory.path}/{partition_directory_name(topic, partition)}"
        with self.offline_on_error(directory):
            write_topic_id(self._disk, path, topic_id)
            self.remember(directory, key, log, topic_id)
            self.sync_later(directory, log)
            return
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Error while writing partition metadata file in {path}")

    def sync_later(self, directory: LogDir, log: Log) -> None:
        """Make a log's new directory entry durable in the background, or with the next flush of the log."""
        log.durability.is_new_directory = True
        self.created.append((directory, log))
        self.work.set()

    def remember(self, directory: LogDir, key: PartitionKey, log: Log, topic_id: bytes | None) -> None:
        """Make a log in `directory` the partition's."""
        self.logs[key] = directory.logs[key] = log
        self.topic_ids[key] = directory.topic_ids[key] = topic_id
        log.on_rolled = partial(self.rolled.add, log, directory)
        log.segments.on_suspect = partial(self.suspects.add, key)

    def forget(self, directory: LogDir, key: PartitionKey) -> Log:
        """Remove a log from the directory, and from `logs` if it is the partition's."""
        if self.logs.get(key) is directory.logs[key]:
            del self.logs[key], self.topic_ids[key]
        del directory.topic_ids[key]
        return directory.logs.pop(key)
