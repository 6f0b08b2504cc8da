"""Future logs: copies that are to replace the logs of replicas in other log directories of this node (KIP-113).

A future log is in a directory `<topic>-<partition>.<32 hex>-future`. When it has all records of the current log it is
put in place: its directory gets the partition's name first, and then the directory of the former log is renamed for
deletion. Both happen in one turn of the event loop. After a crash in between, the partition is in two directories, and
the metadata tells which one is right: the controller was told before. A power cut may keep the second rename only.
Then no log has the partition's name, and `recover` puts the future log in place.
"""

from collections.abc import Iterator
from functools import partial
from itertools import count

from broker.storage.copy_marker import is_marked_copied, mark_copied
from broker.storage.duplicate_log_dirs import Belongs
from broker.storage.log import NOT_CLEANED, Log
from broker.storage.log_dir import FutureLog, LogDir, PartitionKey
from broker.storage.log_manager import LogManager
from broker.storage.partition_directory import (
    NAME_MAX,
    deleted_directory_name,
    future_directory_name,
    partition_directory_name,
)
from broker.storage.partition_metadata import write_topic_id
from broker.storage.relocation import relocate
from broker.wire.uuids import new_uuid
from kraft.env import Env


class FutureLogs:
    """The future logs in the directories of `log_manager`."""

    def __init__(self, env: Env, log_manager: LogManager) -> None:
        self._env = env
        self._disk = env.disk
        self._log_manager = log_manager

    def find(self, key: PartitionKey) -> tuple[LogDir, FutureLog] | None:
        """The future log of a partition and its directory; None without one in an online directory."""
        return next(((each, each.futures[key]) for each in self._directories() if key in each.futures), None)

    def fits(self, key: PartitionKey) -> bool:
        """Whether the name of a future log of the partition is not too long for a file system."""
        return len(future_directory_name(*key, bytes(16))) <= NAME_MAX

    def create(self, key: PartitionKey, directory: LogDir) -> Log | None:
        """Create an empty future log in `directory`, which begins where the current log does.

        Returns None if that directory has failed, or the one of the current log.
        """
        current, topic_id = self._log_manager.logs[key], self._log_manager.topic_ids[key]
        assert topic_id is not None, "replicas that are in use have one"
        path = f"{directory.path}/{future_directory_name(*key, new_uuid(self._env.rng.randbytes))}"
        log: Log | None = None
        source = self._log_manager.directory_of(*key)
        assert source is not None, "it has the current log"
        with self._log_manager.offline_on_error(source):
            mark_copied(self._disk, current.directory, path)
        if not source.is_online:
            return None
        with self._log_manager.offline_on_error(directory):
            self._disk.make_dir(path)
            write_topic_id(self._disk, path, topic_id)
            log = directory.open_log(path, current.config, recovery_point=0, log_start_offset=0, clean=True)
            directory.futures[key] = FutureLog(log, topic_id)
            self._log_manager.sync_later(directory, log)
            if current.cleaned_offset != NOT_CLEANED:
                # The part that is compacted now has the same records in the copy. Later compactions may not reach it.
                log.cleaned_offset = current.cleaned_offset
        return log

    def can_go_on(self, key: PartitionKey) -> bool:
        """Whether a future log that was found at the start may be continued.

        False if its current log was compacted since the copy began, or is another one: the directory of the future log
        was absent meanwhile. Then the copy may have records that were deleted, without their tombstones.
        """
        source, found = self._log_manager.directory_of(*key), self.find(key)
        assert source is not None, "the partition has a current log"
        assert found is not None, "the caller has found it"
        current, future = self._log_manager.logs[key], found[1].log
        try:
            return is_marked_copied(self._disk, current.directory, future.directory)
        except OSError as error:
            self._log_manager.mark_offline(source.path, error)
            return False

    def remove(self, key: PartitionKey) -> None:
        """Delete the future log of a partition, if there is one."""
        found = self.find(key)
        if found is not None:
            self._remove_from(found[0], key)

    def _remove_from(self, directory: LogDir, key: PartitionKey) -> None:
        future = directory.futures.pop(key)
        with self._log_manager.offline_on_error(directory):
            future.log.close()
            path = f"{directory.path}/{deleted_directory_name(*key, new_uuid(self._env.rng.randbytes))}"
            self._disk.rename(future.log.directory, path)
            self._log_manager.shrunk.add(directory.path)
            self._log_manager.remove_later(directory, path, delay_ms=0)

    def put_in_place(self, key: PartitionKey) -> Log | None:
        """Make the future log the partition's log; the former log is deleted after file.delete.delay.ms.

        Returns None if the directory has failed.
        """
        found, manager = self.find(key), self._log_manager
        assert found is not None, "the caller has it"
        directory, future = found
        path = f"{directory.path}/{partition_directory_name(*key)}"
        with manager.offline_on_error(directory):
            self._disk.rename(future.log.directory, path)
            del directory.futures[key]
            relocate(future.log, path)
            former = manager.directory_of(*key)
            if former is not None:
                renamed = manager.rename_away(former, key, deleted_directory_name)
                if renamed is not None:
                    manager.remove_later(former, renamed, delay_ms=future.log.config.file_delete_delay_ms)
            manager.remember(directory, key, future.log, future.topic_id)
            manager.sync_later(directory, future.log)
            manager.shrunk.add(directory.path)
        return future.log if directory.is_online else None

    def recover(self, belongs: Belongs) -> None:
        """Put the future logs in place that a power cut has left alone, and remove strays, after a start.

        A partition has two future logs if a log directory failed and was left out of log.dirs for a while, in which the
        replica moved elsewhere. The longest stays: any future log keeps its replica from being compacted.

        While a directory is offline, it may have the current log: then the future logs stay as they are. If the future
        log lacks records, the controller knows that this node did not shut down cleanly, or that its directory is gone.
        """
        for directory in self._directories():
            for key, future in list(directory.futures.items()):
                longest = max((each for each in self._directories() if key in each.futures), key=partial(_end_of, key))
                if directory is not longest or not belongs(key, future.topic_id, None):
                    self._remove_from(directory, key)
                elif key not in self._log_manager.logs and not self._log_manager.any_offline:
                    self._env.trace("storage_future_log_recovered", path=future.log.directory)
                    self.put_in_place(key)

    def _directories(self) -> Iterator[LogDir]:
        return iter(self._log_manager.partition_directories())


def _end_of(key: PartitionKey, directory: LogDir) -> int:
    return directory.futures[key].log.log_end_offset


def delete_hidden_segments(log: Log) -> None:
    """Delete the segments of a future log that end before its start; their files are then in `Log.take_discarded`."""
    segments, start = log.segments, log.log_start_offset
    hidden = next(at for at in count() if at + 1 >= len(segments) or segments[at + 1].base_offset > start)
    if hidden:
        segments.delete_first(hidden)
        log.producers.snapshots.delete_before(segments.first_offset)
