"""Scrubs the small files of a log: its producer snapshots, leader epochs and topic id."""

from functools import partial

from broker.storage.log import Log
from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.partition_metadata import (
    encode_topic_id,
    partition_metadata_path,
    sync_topic_id,
    write_topic_id,
)
from broker.storage.producer_replay import replay_from_snapshot
from broker.storage.producer_snapshots import CorruptSnapshot, ProducerEntry, decode_snapshot
from broker.storage.scrub.statistics import ScrubStatistics
from broker.storage.whole_file import read_whole_from_device, try_to_read
from broker.wire.errors import WireError
from kraft.env import Env


class LogFilesScrub:
    """Compares the small files of logs with what the logs have in memory, and writes them again where they differ."""

    def __init__(self, env: Env, statistics: ScrubStatistics) -> None:
        self._env = env
        self._statistics = statistics

    async def scrub(self, directory: LogDir, key: PartitionKey, log: Log) -> None:
        """Check the files of one log, which may be deleted meanwhile. Raises OSError, FsyncFailed."""
        if log.failure is not None or log.durability.is_unsettled:
            return
        try:
            problem = await log.epochs.restore_file()
            if problem:
                self._rebuilt(log.epochs.path, problem)
            await self._check_topic_id(directory, key, log)
            for offset in tuple(log.producers.snapshots.offsets):
                await self._check_snapshot(log, offset)
        except FileNotFoundError:
            if log.failure is None:
                raise

    async def _check_topic_id(self, directory: LogDir, key: PartitionKey, log: Log) -> None:
        topic_id = directory.topic_ids.get(key)
        if topic_id is None or log.durability.is_new_directory:
            return
        path = partition_metadata_path(log.directory)
        self._statistics.bytes_read += len(encode_topic_id(topic_id))
        reading = partial(try_to_read, self._env.disk, path, read_whole_from_device)
        content, error = await self._env.disk.run_apart(reading)
        if content != encode_topic_id(topic_id) and directory.logs.get(key) is log and log.failure is None:
            write_topic_id(self._env.disk, log.directory, topic_id)
            await sync_topic_id(self._env.disk, log.directory)
            self._rebuilt(path, error or "it does not have the topic id")

    async def _check_snapshot(self, log: Log, offset: int) -> None:
        """Check the producer snapshot of `offset`; a damaged one is made again from the batches."""
        snapshots, disk, truncations = log.producers.snapshots, self._env.disk, log.durability.truncations
        path = snapshots.path(offset)
        found = await disk.run_apart(partial(try_to_read, disk, path, read_whole_from_device))
        self._statistics.bytes_read += len(found.content or b"")
        problem = found.error or snapshot_problem(found.content)
        has_changed = offset not in snapshots.offsets or path != snapshots.path(offset)
        if not problem or has_changed or try_to_read(disk, path, read_whole_from_device) != found:
            return
        try:
            entries = await self._replayed(log, offset)
        except (WireError, OSError):
            return  # a segment was deleted, or is damaged: the next pass tries again
        if log.failure is None and log.durability.truncations == truncations and offset in snapshots.offsets:
            snapshots.rewrite(offset, entries)
            await snapshots.sync()
            await disk.sync_dir(log.directory)
            self._rebuilt(path, problem)

    async def _replayed(self, log: Log, offset: int) -> list[ProducerEntry]:
        """The states of the producers before `offset`, from an earlier snapshot and the batches after it."""
        segments = [(each.path, each.base_offset, each.written) for each in log.segments if each.base_offset < offset]
        earlier = [log.producers.snapshots.path(each) for each in log.producers.snapshots.offsets if each < offset]
        return await self._env.disk.run_apart(
            partial(replay_from_snapshot, self._env.disk, log.directory, segments, earlier, offset)
        )

    def _rebuilt(self, path: str, problem: str) -> None:
        self._statistics.add_rebuilt()
        self._env.trace("storage_file_rebuilt", path=path, error=problem)


def snapshot_problem(content: bytes | None) -> str:
    """The damage to the content of a producer snapshot, as text; "" if it is intact."""
    if content is None:
        return "it is missing"
    try:
        decode_snapshot(content)
    except CorruptSnapshot as error:
        return str(error)
    return ""
