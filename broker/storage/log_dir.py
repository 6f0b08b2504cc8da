"""One log directory of a node: its lock and identity, its logs, its checkpoints and clean-shutdown marker."""

import contextlib
import errno
import json
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
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
from broker.storage.clean_shutdown import close_cleanly
from broker.storage.log import NOT_CLEANED, Log
from broker.storage.log_config import MAX_LONG, LogConfig
from broker.storage.log_loader import load_log
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

CLEAN_SHUTDOWN_MARKER = ".kafka_cleanshutdown"
LOCK = ".lock"
NO_BROKER_EPOCH = -1
# A marker is below 50 bytes; a longer text could nest too deeply to be parsed.
_MARKER_BYTES_MAX = 256

# Logs handled before other tasks run; takes less than a millisecond if there is nothing to do.
LOGS_PER_TURN = 100
# If there is more to do, other tasks run after this time. For a log with new records, retention completes the indexes,
# which takes 150 us, or twice that if their files are created: 100 such logs in a row blocked the loop for 30 ms.
TURN_S = 0.001

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
class LogDirUsage:
    """The sizes in bytes of a directory for DescribeLogDirs; -1 if it is offline."""

    path: str
    error: OSError | None
    total_bytes: int
    usable_bytes: int
    log_sizes: dict[PartitionKey, int]


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
        self.clean_broker_epoch = _broker_epoch(content)
        self.was_clean = True

    async def write_clean_shutdown_marker(self, broker_epoch: int) -> None:
        """Write the marker that every log is flushed and closed, with the broker's epoch (KIP-966).

        Raises OSError, FsyncFailed.
        """
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        await replace_durably(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_MARKER}", content.encode())

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
        await self.high_watermarks.write(await self._collect(lambda key, log: high_watermark(*key)))

    async def load(self, config_of: Callable[[str], LogConfig]) -> list[str]:
        """Open every partition's log; returns the directories whose deletion a crash has interrupted. Raises OSError.

        `remove_clean_shutdown_marker` must be called before.
        """
        clean = self.was_clean
        assert clean is not None, "remove_clean_shutdown_marker was called before"
        recovery_points = self.read_checkpoint(self.recovery_points)
        log_start_offsets = self.read_checkpoint(self.log_start_offsets)
        cleaned_offsets = self.read_checkpoint(self.cleaned_offsets)
        leftovers = []
        for index, name in enumerate(self._disk.list(self.path)):
            if index % LOGS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            parsed = parse_partition_directory(name)
            if parsed is None or parsed.topic == METADATA_TOPIC:
                continue
            path = f"{self.path}/{name}"
            if parsed.suffix == "delete":
                leftovers.append(path)
                continue
            if parsed.suffix:
                self._env.trace("storage_directory_skipped", path=path, reason=parsed.suffix)
                continue
            key = (parsed.topic, parsed.partition)
            config, start = config_of(parsed.topic), log_start_offsets.get(key, 0)
            try:
                log = self.open_log(
                    path,
                    config,
                    recovery_point=recovery_points.get(key, 0 if recovery_points else UNKNOWN),
                    log_start_offset=start,
                    clean=clean,
                    cleaned_offset=cleaned_offsets.get(key, NOT_CLEANED),
                    starts_at_start=self.log_start_offsets.was_read,
                )
            except NotADirectoryError:
                self._env.trace("storage_file_ignored", path=path, reason="it is a file, not a partition's directory")
                continue
            self.topic_ids[key] = self._read_topic_id(path)
            self.logs[key] = log
        self.missing = {key: end for key, end in recovery_points.items() if end > 0 and key not in self.logs}
        await self.settle([log for log in self.logs.values() if log.durability.is_unsettled])
        self._env.trace("storage_log_dir_loaded", path=self.path, logs=len(self.logs), clean=clean)
        return leftovers

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
        await close_cleanly(self._disk, list(self.logs.values()))
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

    async def _collect(self, offset_of: Callable[[PartitionKey, Log], int]) -> dict[PartitionKey, int]:
        offsets: dict[PartitionKey, int] = {}
        pacer = LoopPacer()
        for key, log in list(self.logs.items()):
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


def _broker_epoch(marker: bytes) -> int:
    """The broker epoch in a clean-shutdown marker; -1 if it is empty, as before KIP-966, or damaged."""
    if len(marker) > _MARKER_BYTES_MAX:
        return NO_BROKER_EPOCH
    try:
        epoch = json.loads(marker)["brokerEpoch"]
    except (ValueError, TypeError, KeyError):
        return NO_BROKER_EPOCH
    is_epoch = isinstance(epoch, int) and not isinstance(epoch, bool) and 0 <= epoch <= MAX_LONG
    return epoch if is_epoch else NO_BROKER_EPOCH


class LoopPacer:
    """Lets other tasks run during a loop over many logs: after every LOGS_PER_TURN logs, or after TURN_S."""

    def __init__(self) -> None:
        self._begin()

    async def checkpoint(self) -> None:
        """Call this after each log."""
        self._count += 1
        if self._count >= LOGS_PER_TURN or trio.current_time() >= self._end:
            await trio.lowlevel.checkpoint()
            self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._end = trio.current_time() + TURN_S


def offline_advice(errors: Iterable[OSError | None]) -> str:
    """Advise the operator on directories that are offline because of these errors."""
    if any(error is not None and error.errno in (errno.ENOSPC, errno.EDQUOT) for error in errors):
        return "The disk, or its quota, is full: free some room, or enlarge it, and start the node again"
    return (
        "Each named path must be a file or directory that the node's user may read and write, on a disk that works. "
        "Correct this, and start the node again"
    )


def first_error(group: BaseExceptionGroup[OSError]) -> OSError:
    """The first error in a group, or in a group within it."""
    error = group.exceptions[0]
    return error if isinstance(error, OSError) else first_error(error)
