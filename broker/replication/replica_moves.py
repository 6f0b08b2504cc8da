"""Moves replicas between the log directories of this broker, while they are in use (KIP-113, KIP-858).

A move copies the log into a future log in the other directory. When the copy has all records, the controller is told
that the replica is in the new directory. Then the rest is copied, and the future log takes the place of the current
one. Both happen in one turn of the event loop, so no record can be appended in between. Until that turn the current log
is the replica, also after a crash, and the next start goes on with the copy.

In Kafka a start after a crash takes the future log if the controller knows the new directory already. Records that were
acknowledged in the meantime are not in it, so that is not done here while the current log is there.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import attrs
import trio

from broker.replication.log_copy import LogCopy
from broker.replication.partition import Partition
from broker.replication.replica_directories import ReplicaDirectories
from broker.replication.throttles import Throttle
from broker.storage.future_logs import FutureLogs
from broker.storage.log import Log
from broker.storage.log_dir import LogDir, PartitionKey
from broker.storage.log_manager import LogManager
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from kraft.env import Env
from metadata.image import PartitionImage

# The destinations that are kept for replicas that are not on this broker yet. Kafka keeps any number of them; the
# oldest is forgotten here, and its replica is then placed as without it.
DESTINATIONS_MAX: Final = 10_000
# The pause after the current log could not be read, or the controller refused the new directory.
_RETRY_S: Final = 1.0
# The pause before a compaction in progress is looked at again.
_CLEANING_S: Final = 0.05


@lazy_attrs.define(eq=False)
class _Move:
    partition: Partition
    current: Log
    future: Log
    directory: LogDir
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_assigned: bool = False  # whether the controller knows the new directory

    @property
    def key(self) -> PartitionKey:
        return self.partition.topic, self.partition.index


class ReplicaMoves:
    """The moves of this broker. `run` performs them, `threads` at the same time; the others wait.

    `find` returns a replica of this broker, `image` the newest metadata of a replica, `commit_staged` writes what is
    staged. `replace` makes a log the replica's.
    """

    def __init__(
        self,
        log_manager: LogManager,
        directories: ReplicaDirectories,
        image: Callable[[Partition], PartitionImage | None],
        commit_staged: Callable[[], None],
        replace: Callable[[Partition, Log], None],
    ) -> None:
        self._log_manager = log_manager
        self._directories = directories
        self._image = image
        self._commit_staged = commit_staged
        self._replace = replace
        self._moves: dict[PartitionKey, _Move] = {}
        self._waiting: deque[_Move] = deque()
        self._work = trio.Event()
        self._destinations: dict[PartitionKey, str] = {}
        self.futures = FutureLogs(log_manager.env, log_manager)

    def __len__(self) -> int:
        """How many replicas are being moved."""
        return len(self._moves)

    @property
    def max_lag(self) -> int:
        """The largest lag of a copy for another log directory, in offsets; 0 without moves."""
        ends = ((move.current.readable_end_offset, move.future.log_end_offset) for move in self._moves.values())
        return max((max(0, current - future) for current, future in ends), default=0)

    # Requests

    def check(self, key: PartitionKey, destination: str) -> LogDir:
        """The directory with the path `destination`. Raises KafkaError if no replica of `key` can be moved to it."""
        if not self.futures.fits(key):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        if destination not in self._log_manager.config.directories:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {destination} is not found in the config.")
        directory = self._log_manager.directories[destination]
        if not directory.is_online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {destination} is offline")
        if directory.is_cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {destination} is cordoned")
        return directory

    def begin(self, partition: Partition, directory: LogDir) -> None:
        """Move a replica to a directory that `check` has returned; to the current one ends a move.

        Does nothing if the replica is there, or on its way. Raises KafkaError KAFKA_STORAGE_ERROR.
        """
        if partition.log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {partition} is offline")
        key = (partition.topic, partition.index)
        move = self._moves.get(key)
        if move is not None:
            if move.directory is directory:
                return
            self._end(move, "another directory was asked for")
            self.futures.remove(key)
        if self._log_manager.directory_of(*key) is directory:
            return
        if self._log_manager.any_offline:
            # The offline directory may have a future log of the replica, with which the next start would go on.
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create the future log for {partition} because a log directory is offline",
            )
        future = self.futures.create(key, directory)
        if future is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Can not create the future log for {partition}")
        self._begin_copy(partition, partition.log, future, directory)

    def choose_destination(self, key: PartitionKey, destination: str) -> None:
        """Have the replica created in a directory when it is assigned to this broker."""
        self._destinations.pop(key, None)
        self._destinations[key] = destination
        if len(self._destinations) > DESTINATIONS_MAX:
            del self._destinations[next(iter(self._destinations))]

    def take_destination(self, key: PartitionKey) -> str | None:
        """The directory that was chosen for a replica which is created now."""
        return self._destinations.pop(key, None)

    # The replicas of this broker

    def resume(self, partition: Partition) -> None:
        """Go on with the move of a replica whose future log was found at the start."""
        key = (partition.topic, partition.index)
        found, current = self.futures.find(key), partition.log
        if found is None or current is None:
            return
        directory, future = found
        if future.topic_id != partition.topic_id or self._log_manager.directory_of(*key) is directory:
            self.futures.remove(key)
        elif self.futures.can_go_on(key):
            self._begin_copy(partition, current, future.log, directory)
        elif partition.log is current:  # otherwise its directory has failed just now
            self.futures.remove(key)
            log = self.futures.create(key, directory)
            if log is not None:
                partition.trace("replica_move_restarted", topic=partition.topic, path=future.log.directory)
                self._begin_copy(partition, current, log, directory)

    def removed(self, partition: Partition) -> None:
        """The replica is removed from this broker: delete its future log."""
        key = (partition.topic, partition.index)
        move = self._moves.get(key)
        if move is not None:
            self._end(move, "the replica was removed")
        self.futures.remove(key)

    def directory_failed(self) -> None:
        """A directory has failed: end the moves from it and to it. A future log elsewhere stays for the next start."""
        for move in list(self._moves.values()):
            if move.partition.log is not move.current or move.future.failure is not None:
                self._end(move, "a log directory has failed")

    def _begin_copy(self, partition: Partition, current: Log, future: Log, directory: LogDir) -> None:
        partition.trace("replica_move_began", topic=partition.topic, path=future.directory)
        move = _Move(partition, current, future, directory)
        self._moves[move.key] = move
        self._waiting.append(move)
        self._work.set()

    def _end(self, move: _Move, reason: str) -> None:
        """Stop a move that has not completed."""
        if self._moves.get(move.key) is move:
            del self._moves[move.key]
            move.scope.cancel()
            move.partition.trace("replica_move_ended", topic=move.partition.topic, reason=reason)
            self._directories.release(move.partition, self._image(move.partition))

    # Performing the moves

    async def run(self, env: Env, throttle: Throttle, threads: int) -> None:
        """Perform moves until cancelled, at most `threads` at the same time. Raises FsyncFailed, in a group."""
        async with trio.open_nursery() as nursery:
            for _ in range(threads):
                nursery.start_soon(self._work_repeatedly, env, throttle)

    async def _work_repeatedly(self, env: Env, throttle: Throttle) -> None:
        while True:
            while not self._waiting:
                if self._work.is_set():
                    self._work = trio.Event()
                await self._work.wait()
            move = self._waiting.popleft()
            copy = LogCopy(env, move.partition, move.current, move.future, move.directory, throttle)
            with move.scope, self._log_manager.offline_on_error(move.directory):
                await self._perform(move, copy)
            self._end(move, "a log directory has failed")  # unless it has completed, or ended before

    async def _perform(self, move: _Move, copy: LogCopy) -> None:
        """Copy the log, and put the copy in place. Raises OSError if the new directory fails, FsyncFailed."""
        while copy.is_possible:
            try:
                if not await copy.advance() and await self._complete(move, copy):
                    return
            except KafkaError as error:
                move.partition.trace("replica_move_paused", topic=move.partition.topic, reason=str(error))
                await trio.sleep(_RETRY_S)
            await trio.lowlevel.checkpoint()

    async def _complete(self, move: _Move, copy: LogCopy) -> bool:
        """Assign the new directory, and put the copy in place; False if the current log has gone on meanwhile."""
        if not move.is_assigned:
            await copy.make_durable()
            directory_id = move.directory.directory_id
            assert directory_id is not None, "it is formatted when it is claimed"
            move.is_assigned = await self._directories.assign(move.partition, directory_id)
            if not move.is_assigned:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the controller refused the new directory")
            move.partition.trace("replica_move_assigned", topic=move.partition.topic, path=move.future.directory)
        elif copy.current.segments.is_being_cleaned:
            await trio.sleep(_CLEANING_S)
        if self._put_in_place(move, copy):
            return True
        await copy.future.flush()
        return self._put_in_place(move, copy)

    def _put_in_place(self, move: _Move, copy: LogCopy) -> bool:
        """Replace the current log if the copy has all its records; all this happens in one turn of the event loop."""
        self._commit_staged()
        partition, current = move.partition, move.current
        if self._moves.get(move.key) is not move or not copy.is_possible or not copy.finish():
            return False
        producers = current.producers
        producers.snapshots = move.future.producers.snapshots
        move.future.producers = producers
        end_offset, size = move.future.log_end_offset, move.future.size_bytes
        log = self.futures.put_in_place(move.key)
        if log is None:
            return False
        self._replace(partition, log)
        self._directories.moved(partition)
        del self._moves[move.key]
        partition.trace(
            "replica_moved", topic=partition.topic, path=log.directory, end_offset=end_offset, size_bytes=size
        )
        return True
