"""One log directory of a node: its lock and identity, its logs, its checkpoints and clean-shutdown marker."""

import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from itertools import count
from typing import Final, TypeAlias

import trio

from broker.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CorruptCheckpoint,
    OffsetCheckpoint,
)
from broker.storage.clean_shutdown import (
    CLEAN_SHUTDOWN_MARKER,
    NO_BROKER_EPOCH,
    close_cleanly,
    decode_marker,
    encode_marker,
)
from broker.storage.log import NOT_CLEANED, Log
from broker.storage.log_config import LogConfig
from broker.storage.log_loader import load_log
from broker.storage.loop_pacer import LOGS_PER_TURN, LoopPacer
from broker.storage.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    MetaPropertiesError,
    decode_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from broker.storage.partition_directory import (
    METADATA_TOPIC,
    parse_partition_directory,
    partition_directory_name,
)
from broker.storage.partition_metadata import CorruptPartitionMetadata, read_topic_id
from broker.storage.recovery import UNKNOWN
from broker.storage.whole_file import read_whole, read_whole_from_device, replace_durably, try_to_read
from kraft import lazy_attrs
from kraft.env import Disk, DiskLock, Env

LOCK = ".lock"

# Logs flushed at the same time, as in a clean shutdown. The file system commits waiting fsyncs together, so this many
# take half the time of two. More would use up Trio's 40 threads. num.recovery.threads.per.data.dir does not apply: it
# is for threads that compute.
SYNCING_TASKS = 32

# Said in the event about an unreadable checkpoint.
_CONSEQUENCES: Final = {
    RECOVERY_POINT_CHECKPOINT: "after a crash, all logs of the directory are validated whole",
    LOG_START_OFFSET_CHECKPOINT: "records that were deleted with DeleteRecords may be read again",
    CLEANER_OFFSET_CHECKPOINT: "compacted logs are compacted again from their start",
    REPLICATION_OFFSET_CHECKPOINT: "high watermarks are not known until replicas in sync have fetched again",
}

PartitionKey: TypeAlias = tuple[str, int]


class LogDirInUse(Exception):
    """Another process, or another node of this process, uses the directory."""


@lazy_attrs.frozen
class FutureLog:
    """A copy that is to replace the log of a replica in another directory (KIP-113)."""

    log: Log
    topic_id: bytes | None


@lazy_attrs.frozen
class _Checkpointed:
    """The offsets that the checkpoints of a directory had when it was loaded."""

    recovery_points: dict[PartitionKey, int]
    log_start_offsets: dict[PartitionKey, int]
    cleaned_offsets: dict[PartitionKey, int]


class LogDir:
    """One directory. `error` is the reason why it is offline, None while it is online.

    A cordoned directory gets no new partitions while there is another one (KIP-1066).
    """

    def __init__(self, env: Env, path: str, *, producer_expiration_ms: int) -> None:
        self._env = env
        self._disk = disk = env.disk
        self._producer_expiration_ms = producer_expiration_ms
        self._lock: DiskLock | None = None
        self._unsynced_parents: list[str] = []
        self.path = path
        self.properties: MetaProperties | None = None  # None until the directory is claimed, and formatted if it is new
        self.error: OSError | None = None
        self.is_cordoned = False
        self.was_clean: bool | None = None  # whether the last shutdown was clean; None until that was read
        self.clean_broker_epoch = NO_BROKER_EPOCH  # which the marker of the last clean shutdown named
        self.logs: dict[PartitionKey, Log] = {}
        self.topic_ids: dict[PartitionKey, bytes | None] = {}
        self.futures: dict[PartitionKey, FutureLog] = {}  # none of them is among `logs`
        self.missing: dict[PartitionKey, int] = {}  # end offsets of logs that the checkpoints name and that are missing
        self.recovery_points = OffsetCheckpoint(disk, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
        self.log_start_offsets = OffsetCheckpoint(disk, f"{path}/{LOG_START_OFFSET_CHECKPOINT}")
        self.cleaned_offsets = OffsetCheckpoint(disk, f"{path}/{CLEANER_OFFSET_CHECKPOINT}")
        self.high_watermarks = OffsetCheckpoint(disk, f"{path}/{REPLICATION_OFFSET_CHECKPOINT}")

    def claim(self) -> None:
        """Create the directory if needed, lock it, and read its properties.

        Raises LogDirInUse, MetaPropertiesError, and OSError if the directory does not work.
        """
        self._unsynced_parents = list(_parents_to_sync(self._disk, self.path))
        self._disk.make_dir(self.path)
        try:
            self._lock = self._disk.lock(f"{self.path}/{LOCK}")
        except BlockingIOError as error:
            raise LogDirInUse(
                f"Failed to acquire lock on file {LOCK} in {self.path}. "
                "A Kafka instance in another process or thread is using this directory."
            ) from error
        self.properties = read_meta_properties(self._disk, self.path)

    @property
    def is_online(self) -> bool:
        return self.error is None

    @property
    def directory_id(self) -> bytes | None:
        """None until the directory is claimed and formatted."""
        return None if self.properties is None else self.properties.directory_id

    async def format(self, properties: MetaProperties) -> None:
        """Write the directory's properties durably. Raises OSError, FsyncFailed."""
        if properties != self.properties:
            if self.properties is None:
                await self._sync_parents()
            await write_meta_properties(self._disk, self.path, properties)
            self.properties = properties

    async def remove_clean_shutdown_marker(self) -> None:
        """Read whether the last shutdown was clean, and remove the marker durably, as it is valid for one start only.

        Raises OSError, FsyncFailed.
        """
        marker = f"{self.path}/{CLEAN_SHUTDOWN_MARKER}"
        try:
            content = read_whole(self._disk, marker)
        except FileNotFoundError:
            # The process before this one may have failed to make its removal durable: a power cut would bring it back.
            await self._disk.sync_dir(self.path)
            self.was_clean = False
            return
        await self._disk.remove(marker)
        await self._disk.sync_dir(self.path)
        self.clean_broker_epoch = decode_marker(content)
        self.was_clean = True

    async def write_clean_shutdown_marker(self, broker_epoch: int) -> None:
        """Write the marker that every log is flushed and closed, with the broker's epoch (KIP-966).

        Raises OSError, FsyncFailed.
        """
        await replace_durably(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_MARKER}", encode_marker(broker_epoch))

    def read_checkpoint(self, checkpoint: OffsetCheckpoint) -> dict[PartitionKey, int]:
        """The offsets of a checkpoint; none if it is damaged, which is traced. Raises OSError."""
        try:
            return checkpoint.read()
        except CorruptCheckpoint as error:
            consequence = _CONSEQUENCES[checkpoint.path.rpartition("/")[2]]
            self._env.trace(
                "storage_checkpoint_corrupt", path=checkpoint.path, error=str(error), consequence=consequence
            )
            return {}

    async def restore_files(self) -> list[tuple[str, str]]:
        """Write the directory's own files again where they are not what was written last.

        Returns the path of each such file, and what was wrong. Raises OSError, FsyncFailed.
        """
        checkpoints = (self.recovery_points, self.log_start_offsets, self.cleaned_offsets, self.high_watermarks)
        found = [(each.path, problem) for each in checkpoints if (problem := await each.restore())]
        if self.properties is not None and (problem := await self._disk.run_apart(self._problem_of_properties)):
            await write_meta_properties(self._disk, self.path, self.properties)
            found.append((f"{self.path}/{META_PROPERTIES}", problem))
        return found

    def _problem_of_properties(self) -> str:
        """The damage to meta.properties, as text; "" if it is intact. May run in a thread. Raises OSError."""
        path = f"{self.path}/{META_PROPERTIES}"
        content, error = try_to_read(self._disk, path, read_whole_from_device)
        try:
            is_intact = content is not None and decode_meta_properties(content, path) == self.properties
        except MetaPropertiesError:
            is_intact = False
        return "" if is_intact else error or "it does not have the properties of the directory"

    async def write_recovery_points(self) -> None:
        """Checkpoint the recovery points. Raises OSError, FsyncFailed."""
        await self.recovery_points.write(await self._collect(lambda key, log: log.durability.recovery_point))

    async def write_log_start_offsets(self) -> None:
        """Checkpoint the log start offsets other than 0. Raises OSError, FsyncFailed."""
        offsets = await self._collect(lambda key, log: log.log_start_offset)
        await self.log_start_offsets.write({key: offset for key, offset in offsets.items() if offset > 0})

    async def write_cleaned_offsets(self) -> None:
        """Checkpoint the ends of the compacted parts of logs. Raises OSError, FsyncFailed."""
        offsets = await self._collect(lambda key, log: log.cleaned_offset)
        await self.cleaned_offsets.write({key: offset for key, offset in offsets.items() if offset != NOT_CLEANED})

    async def write_high_watermarks(self, high_watermark: Callable[[str, int], int]) -> None:
        """Checkpoint the high watermarks. Raises OSError, FsyncFailed."""
        await self.high_watermarks.write(
            await self._collect(lambda key, log: high_watermark(*key), list(self.logs.items()))
        )

    async def load(self, config_of: Callable[[str], LogConfig]) -> list[str]:
        """Open every partition's log; returns the directories whose deletion a crash has interrupted. Raises OSError.

        `remove_clean_shutdown_marker` must be called before.
        """
        clean = self.was_clean
        assert clean is not None, "remove_clean_shutdown_marker was called before"
        found = _Checkpointed(
            self.read_checkpoint(self.recovery_points),
            self.read_checkpoint(self.log_start_offsets),
            self.read_checkpoint(self.cleaned_offsets),
        )
        leftovers: list[str] = []
        futures: list[tuple[PartitionKey, str]] = []
        for index, name in enumerate(self._disk.list(self.path)):
            if index % LOGS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            parsed = parse_partition_directory(name)
            if parsed is None or parsed.topic == METADATA_TOPIC:
                continue
            key, path = (parsed.topic, parsed.partition), f"{self.path}/{name}"
            if parsed.suffix == "delete":
                leftovers.append(path)
            elif parsed.suffix == "future":
                futures.append((key, path))
            elif parsed.suffix:
                self._env.trace("storage_directory_skipped", path=path, reason=parsed.suffix)
            elif (log := self._open_found(key, path, config_of, found)) is not None:
                self.topic_ids[key] = self._read_topic_id(path)
                self.logs[key] = log
        for key, path in futures:
            leftovers += self._load_future(key, path, config_of, found)
        present = self.logs.keys() | self.futures.keys()
        self.missing = {key: end for key, end in found.recovery_points.items() if end > 0 and key not in present}
        await self.settle([log for _, log in self._all_logs() if log.durability.is_unsettled])
        self._env.trace("storage_log_dir_loaded", path=self.path, logs=len(self.logs), clean=clean)
        return leftovers

    def _open_found(
        self,
        key: PartitionKey,
        path: str,
        config_of: Callable[[str], LogConfig],
        found: "_Checkpointed",
        *,
        is_future: bool = False,
    ) -> Log | None:
        """Open a log that was found; None for a file. The start of a future log may have moved unnoticed."""
        try:
            return self.open_log(
                path,
                config_of(key[0]),
                recovery_point=found.recovery_points.get(key, 0 if found.recovery_points else UNKNOWN),
                log_start_offset=found.log_start_offsets.get(key, 0),
                clean=bool(self.was_clean),
                cleaned_offset=found.cleaned_offsets.get(key, NOT_CLEANED),
                starts_at_start=self.log_start_offsets.was_read and not is_future,
            )
        except NotADirectoryError:
            self._env.trace("storage_file_ignored", path=path, reason="it is a file, not a partition's directory")
            return None

    def _load_future(
        self, key: PartitionKey, path: str, config_of: Callable[[str], LogConfig], found: "_Checkpointed"
    ) -> list[str]:
        """Open a future log; returns its path if it is to be deleted, because the directory has another copy."""
        if key in self.logs or key in self.futures:
            return [path]
        log = self._open_found(key, path, config_of, found, is_future=True)
        if log is not None:
            self.futures[key] = FutureLog(log, self._read_topic_id(path))
        return []

    def trace_missing_logs(self, is_wanted: Callable[[PartitionKey], bool]) -> None:
        """Trace the logs that the checkpoints name and that are missing: they start again empty."""
        for key, end_offset in self.missing.items():
            if is_wanted(key):
                path = f"{self.path}/{partition_directory_name(*key)}"
                self._env.trace("storage_log_missing", path=path, end_offset=end_offset)

    def open_log(
        self,
        path: str,
        config: LogConfig,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        cleaned_offset: int = NOT_CLEANED,
        starts_at_start: bool = False,
    ) -> Log:
        """Open the log in a partition's directory, as `load_log` does. Raises OSError."""
        return load_log(
            self._disk,
            path,
            config,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
            now_ms=int(self._env.wall() * 1000),
            producer_expiration_ms=self._producer_expiration_ms,
            trace=self._env.trace,
            cleaned_offset=cleaned_offset,
            starts_at_start=starts_at_start,
        )

    async def settle(self, logs: Collection[Log]) -> None:
        """Make the truncations of these logs durable, so that they take appends again.

        The checkpoints are written first: a log that was cut below its checkpointed recovery point must not have later
        records counted as flushed.

        Raises OSError and FsyncFailed, in an exception group if a log fails.
        """
        if logs:
            await self.write_recovery_points()
            await self.write_log_start_offsets()
            await self.write_cleaned_offsets()
            await _for_each(logs, lambda log: log.durability.settle())

    async def close_cleanly(self, broker_epoch: int) -> None:
        """Flush and close every log, then write the checkpoints and the marker.

        Raises OSError and FsyncFailed, in an exception group if a file cannot be synced.
        """
        await close_cleanly(self._disk, [log for _, log in self._all_logs()])
        await self.write_recovery_points()
        await self.write_log_start_offsets()
        await self.write_cleaned_offsets()
        await self.write_clean_shutdown_marker(broker_epoch)

    def release(self) -> None:
        """Release the directory's lock."""
        if self._lock is not None:
            self._lock.release()

    async def _sync_parents(self) -> None:
        """Make the entries of a new directory, and of its newly created parents, durable.

        A directory that a power cut removes would be created again empty, and its lost records would go unnoticed.
        """
        for parent in self._unsynced_parents:
            with contextlib.suppress(PermissionError):  # a directory we may not open was not created by us
                await self._disk.sync_dir(parent)

    def _read_topic_id(self, path: str) -> bytes | None:
        try:
            return read_topic_id(self._disk, path)
        except CorruptPartitionMetadata as error:
            self._env.trace("storage_partition_metadata_corrupt", path=path, error=str(error))
            return None

    def _all_logs(self) -> list[tuple[PartitionKey, Log]]:
        return [*self.logs.items(), *((key, future.log) for key, future in self.futures.items())]

    async def _collect(
        self,
        offset_of: Callable[[PartitionKey, Log], int],
        logs: Sequence[tuple[PartitionKey, Log]] | None = None,
    ) -> dict[PartitionKey, int]:
        """The offsets of these logs, or of all with the future ones."""
        offsets: dict[PartitionKey, int] = {}
        pacer = LoopPacer()
        for key, log in self._all_logs() if logs is None else logs:
            offsets[key] = offset_of(key, log)
            await pacer.checkpoint()
        await trio.lowlevel.checkpoint()
        return offsets


async def _for_each(logs: Collection[Log], task: Callable[[Log], Awaitable[None]]) -> None:
    """Await `task` for each log, for several at the same time."""
    remaining = deque(logs)

    async def work() -> None:
        for done in count(1):
            if not remaining:
                return
            await task(remaining.popleft())
            if done % LOGS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(min(SYNCING_TASKS, len(logs))):
            nursery.start_soon(work)


def _parents_to_sync(disk: Disk, path: str) -> Iterator[str]:
    """The directories that get a new entry when `path` is created, from its parent upwards; at least the parent."""
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        yield path
        if disk.exists(path):
            return
