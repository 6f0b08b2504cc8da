"""One partition's log: a directory of segments, the last of which grows.

All of it is synchronous and reaches the page cache, apart from `flush` and `close_cleanly`, which reach the disk.
Appending has two steps. `append` validates a batch, gives it its offsets and stages the producer's own buffer; `commit`
writes everything staged with one system call. So whatever one wake-up of the node receives for a partition costs one
write. Readers see what is committed.

When the disk fails the log is done for: `failure` says why, appends are refused with KAFKA_STORAGE_ERROR, and its
directory is to be taken offline. What is in memory then may be ahead of the file, which the next start sorts out.
"""

from typing import Final

from broker.storage.append_info import AppendInfo
from broker.storage.checkpoints import CorruptCheckpoint
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log_config import MAX_LONG, LogConfig
from broker.storage.producer_replay import replay
from broker.storage.producer_snapshots import ProducerSnapshots
from broker.storage.producer_state import Duplicate, ProducerStates
from broker.storage.recovery import Recovery
from broker.storage.retention import deletable_segments
from broker.storage.segment import Segment
from broker.storage.segments import LogSlice, Segments
from broker.storage.timestamp_search import TimestampAndOffset, find_max_timestamp, find_timestamp
from broker.storage.validation import check_batch, conform
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.records import NO_TIMESTAMP, CorruptBatch, TimestampType, patch
from broker.wire.records.batch import LOG_APPEND_TIME_FLAG
from kraft.env import Disk, Tracer

__all__ = ["AppendInfo", "Log", "LogSlice", "TimestampAndOffset"]

NO_EPOCH: Final = -1


class Log:
    """See the module's docstring.

    `log_start_offset` is the first offset anyone may read, `log_end_offset` the next one to be given out,
    `readable_end_offset` the end of what is committed to the file, `recovery_point` the end of what is durable.
    """

    __slots__ = (
        "_config",
        "_directory",
        "_discarded",
        "_disk",
        "_is_unsettled",
        "_last_epoch",
        "_now_ms",
        "_staged",
        "_trace",
        "_truncations",
        "_unflushed_since_ms",
        "epochs",
        "failure",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producers",
        "readable_end_offset",
        "recovery_point",
        "segments",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        segments: Segments,
        epochs: LeaderEpochCache,
        producers: ProducerStates,
        trace: Tracer,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._trace = trace
        self._staged: list[memoryview] = []
        self._discarded: list[str] = []
        self._is_unsettled = False
        self._last_epoch = NO_EPOCH
        self._now_ms = 0
        self._truncations = 0
        self._unflushed_since_ms = -1
        self.segments = segments  # from the oldest to the active one
        self.partition = directory.rpartition("/")[2]
        self.epochs = epochs
        self.producers = producers
        self.failure: OSError | None = None
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.readable_end_offset = 0
        self.recovery_point = 0

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        recovery_point: int,
        log_start_offset: int,
        clean: bool,
        now_ms: int,
        producer_expiration_ms: int,
        trace: Tracer,
    ) -> "Log":
        """The log in `directory`, which has to exist; an empty directory becomes an empty log.

        `clean` says that the log was closed cleanly: it is taken as it is. Otherwise what lies behind the checkpointed
        `recovery_point` is validated, and the log is cut at the first batch that is not intact.

        Raises OSError, NotADirectoryError among them.
        """
        names = disk.list(directory)
        discarded: list[str] = []
        try:
            epochs = LeaderEpochCache.load(disk, directory)
        except CorruptCheckpoint as error:
            trace("storage.leader_epochs_corrupt", path=directory, error=str(error))
            epochs, clean, recovery_point = LeaderEpochCache(disk, directory), False, 0
        recovery = Recovery(disk, directory, config, epochs, discarded.append, trace, now_ms)
        segments, end_offset = recovery.load(
            names, recovery_point=recovery_point, log_start_offset=log_start_offset, clean=clean
        )
        snapshots = ProducerSnapshots(disk, directory, names, discard=discarded.append, trace=trace)
        partition = directory.rpartition("/")[2]
        producers = ProducerStates(snapshots, partition=partition, expiration_ms=producer_expiration_ms)
        log = cls(disk, directory, config, Segments(segments), epochs, producers, trace)
        log._discarded, log._is_unsettled = discarded, recovery.has_cut
        log._now_ms = now_ms
        log.log_start_offset = max(log_start_offset, segments[0].base_offset)
        log.log_end_offset = log.readable_end_offset = end_offset
        log.recovery_point = end_offset if clean else min(recovery_point, end_offset)
        if log.recovery_point < end_offset:
            log._unflushed_since_ms = now_ms
        epochs.truncate_from_end(end_offset)
        epochs.truncate_from_start(log.log_start_offset)
        epochs.write()
        snapshots.retain_for_segments(log.segments.base_offsets)
        log._rebuild_producers(now_ms)
        for segment in segments:
            segment.release()
        return log

    # Properties

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.segments.configure(config)

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def staged(self) -> bool:
        """Whether `commit` has something to do, or to say: that what was staged is lost."""
        return bool(self._staged) or self.failure is not None

    # Appending

    def append(self, batches: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append a producer's batch, as the partition's leader of `leader_epoch`.

        Base offset and epoch are written into the buffer, which has to be writable and to stay as it is until `commit`.
        Raises KafkaError, and leaves the log as it was: the codes of `validation` and of `ProducerStates.check`, and
        KAFKA_STORAGE_ERROR.
        """
        if self.failure is not None:
            raise self._storage_error()
        config = self._config
        header = check_batch(batches, config, self.partition)
        if (
            header.attributes & LOG_APPEND_TIME_FLAG
            or header.max_timestamp > now_ms + config.message_timestamp_after_max_ms
            or not config.stores_as_is
        ):
            batches, header = conform(batches, header, config, now_ms=now_ms, partition=self.partition)
        first_offset = header.base_offset = self.log_end_offset
        if header.producer_id >= 0:
            duplicate = self.producers.check(header)
            if duplicate is not None:
                return self._duplicate_info(duplicate)
        last_offset = first_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        size = len(batches)
        segment = self.segments.active
        if (
            size > segment.room
            or max_timestamp > segment.rolls_after_timestamp
            or last_offset > segment.offset_max
            or now_ms > segment.rolls_after_ms
        ):
            segment = self._segment_for(size, last_offset, max_timestamp, now_ms)
        patch(batches, 0, first_offset, leader_epoch)
        segment.append(last_offset, max_timestamp, size)
        if header.producer_id >= 0:
            self.producers.update(header)
        if leader_epoch != self._last_epoch:
            self._assign_epoch(leader_epoch, first_offset)
        if self._unflushed_since_ms < 0:
            self._unflushed_since_ms = now_ms
        self._now_ms = now_ms
        self._staged.append(batches)
        self.log_end_offset = last_offset + 1
        log_append_time_ms = NO_TIMESTAMP if config.keeps_create_time else max_timestamp
        return AppendInfo(first_offset, last_offset, log_append_time_ms, self.log_start_offset)

    def commit(self) -> None:
        """Write what is staged, in one gathered write; then it may be read. Raises OSError, and the log has failed."""
        staged = self._staged
        if not staged:
            if self.failure is not None:
                raise self.failure
            return
        try:
            self.segments.active.write(staged)
            if self.epochs.dirty:
                self.epochs.write()
        except OSError as error:
            self._fail(error)
            raise
        staged.clear()
        self.readable_end_offset = self.log_end_offset
        self.segments.remember(self.log_end_offset)

    def roll(self) -> None:
        """Begin a new segment, unless the active one is empty. Raises OSError, and the log has failed."""
        self.commit()
        if self.segments.active.size_bytes == 0:
            return
        try:
            self._roll()
        except OSError as error:
            self._fail(error)
            raise

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The segment a batch goes into that the active one may have no place for."""
        try:
            has_room = self.segments.active.has_room_for(
                size, last_offset=last_offset, max_timestamp=max_timestamp, now_ms=now_ms
            )
            self._now_ms = now_ms
            if not has_room:
                self.roll()
        except OSError as error:
            self._fail(error)
            raise self._storage_error() from error
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is corrupt: {error}") from error
        return self.segments.active

    def _roll(self) -> None:
        base_offset = self.log_end_offset
        self.segments.active.seal()
        self.segments.active.release()
        segment = Segment.create(self._disk, self._directory, base_offset, self._config, now_ms=self._now_ms)
        self.segments.add(segment)
        self.producers.take_snapshot(base_offset)
        self._trace("storage.segment_rolled", path=segment.path)

    def _assign_epoch(self, leader_epoch: int, first_offset: int) -> None:
        if leader_epoch >= 0:
            self.epochs.assign(leader_epoch, first_offset)
        self._last_epoch = leader_epoch

    def _duplicate_info(self, duplicate: Duplicate) -> AppendInfo:
        is_append_time = self._config.timestamp_type is TimestampType.LOG_APPEND_TIME
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp if is_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            duplicate=True,
        )

    def _fail(self, error: OSError) -> None:
        self._staged.clear()
        if self.failure is None:
            self.failure = error
            self._trace("storage.log_failed", path=self._directory, error=str(error))

    def _storage_error(self) -> KafkaError:
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"Error while appending records to {self.partition}: {self.failure}"
        )

    # Reading

    def read(self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool) -> LogSlice:
        """The committed batches from the one with `offset` on, below `upper_bound`, from one segment.

        At most `max_bytes`, but at least a first batch with `min_one_batch`; size 0 where there is nothing to read.
        Raises KafkaError OFFSET_OUT_OF_RANGE outside of the log, KAFKA_STORAGE_ERROR where the file cannot be read.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.partition}, "
                f"but we only have log segments in the range {self.log_start_offset} to {self.log_end_offset}.",
            )
        end_offset = min(upper_bound, self.readable_end_offset)
        if offset >= end_offset:
            return LogSlice(self.segments.active, self.segments.active.written, 0)
        bound = end_offset if end_offset < self.readable_end_offset else None
        try:
            return self.segments.slice(offset, bound, max_bytes, min_one_batch=min_one_batch)
        except (OSError, CorruptBatch) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Exception while reading from {self.partition}: {error}")

    def offset_for_timestamp(self, timestamp: int, *, upper_bound: int) -> TimestampAndOffset | None:
        """The first record below `upper_bound` with a timestamp of at least `timestamp` (ms); None without one.

        Raises KafkaError KAFKA_STORAGE_ERROR where the files cannot be read.
        """
        try:
            found = find_timestamp(self.segments, timestamp, log_start_offset=self.log_start_offset)
        except (OSError, CorruptBatch) as error:
            raise self._unreadable(error) from error
        return found if found is not None and found.offset < upper_bound else None

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of all; None in a log without timestamps (KIP-734).

        Raises KafkaError KAFKA_STORAGE_ERROR where the files cannot be read.
        """
        try:
            return find_max_timestamp(self.segments)
        except (OSError, CorruptBatch) as error:
            raise self._unreadable(error) from error

    # Durability

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for a flush, or a rolled segment waits for it."""
        unflushed = self.readable_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        config = self._config
        return (
            unflushed >= config.flush_messages
            or (config.flush_ms != MAX_LONG and 0 <= self._unflushed_since_ms <= now_ms - config.flush_ms)
            or self.recovery_point < self.segments.active.base_offset
        )

    async def flush(self) -> None:
        """Make durable what is committed, and move the recovery point. Raises FsyncFailed, OSError."""
        end_offset = self.readable_end_offset
        if end_offset <= self.recovery_point:
            return
        self._unflushed_since_ms = -1 if end_offset == self.log_end_offset else self._now_ms
        truncations = self._truncations
        await self._sync(self.segments.since(self.recovery_point))
        if truncations == self._truncations:  # otherwise there may be other records by now at these offsets
            self.recovery_point = max(self.recovery_point, end_offset)

    async def settle(self) -> None:
        """Make durable what recovery has cut off; to be awaited before anything is appended.

        A later flush would not do it: it begins with the segment of the recovery point, and the log may have been cut
        right there and rolled since. What was cut would be back after a power cut, below records that came later.
        Raises FsyncFailed, OSError.
        """
        if self._is_unsettled:
            await self._sync([self.segments.active])
            await self._disk.sync_dir(self._directory)
            self._is_unsettled = False

    async def _sync(self, segments: list[Segment]) -> None:
        for segment in segments:
            try:
                await segment.sync()
            except FileNotFoundError:
                if self.failure is None and segment in self.segments:
                    raise
        if self.failure is not None:
            return  # closed in the meantime
        await self.epochs.flush()
        await self.producers.snapshots.sync()
        new = [segment for segment in segments if segment.is_new]
        if new:
            await self._disk.sync_dir(self._directory)
            for segment in new:
                segment.is_new = False

    # Shrinking

    def advance_log_start_offset(self, offset: int) -> bool:
        """Hide what lies before `offset`, which must not exceed the high watermark; whether that changed anything.

        Retention removes the segments later. Raises KafkaError OFFSET_OUT_OF_RANGE, OSError.
        """
        if offset > self.readable_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.partition} "
                f"since it is larger than the log's end {self.readable_end_offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.epochs.write()
        self.producers.advance_log_start_offset(offset)
        return True

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> list[str]:
        """Delete the segments that retention or the log start offset have overtaken.

        Returns the files, already renamed to `.deleted`, that are to be removed from the disk after
        file.delete.delay.ms; whatever else the log has discarded since the last call is among them. Raises OSError.
        """
        if len(self.segments) > 1 or self.segments.active.size_bytes:
            self._delete_due_segments(now_ms, high_watermark)
            if not self._staged:
                self.segments.release()  # or every segment that was ever read would keep a descriptor
        return self.take_discarded()

    def take_discarded(self) -> list[str]:
        """Files that are no part of the log any more, and are to be removed from the disk."""
        discarded, self._discarded = self._discarded, []
        return discarded

    def _delete_due_segments(self, now_ms: int, high_watermark: int) -> None:
        count = deletable_segments(
            self.segments,
            self._config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        if count == 0:
            return
        if count == len(self.segments):
            self._now_ms = now_ms
            self.roll()
        self.advance_log_start_offset(self.segments[count].base_offset)
        self._delete_segments(0, count)
        self.producers.snapshots.delete_before(self.segments.first_offset)

    def _delete_segments(self, first: int, end: int) -> None:
        for segment in self.segments.remove(first, end):
            self._discarded += segment.delete()
            self._trace("storage.segment_deleted", path=segment.path)

    def truncate_to(self, offset: int) -> bool:
        """Drop the batch that holds `offset` and everything behind it; whether anything was dropped.

        The log then ends where that batch began. Raises OSError, CorruptBatch.
        """
        self.commit()
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            self.epochs.write()
            self._last_epoch = NO_EPOCH
            return False
        if offset < self.segments.first_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self._delete_segments(self.segments.floor_index(offset) + 1, len(self.segments))
        self.segments.active.truncate_to(offset)
        end_offset = min(offset, self.segments.active.load_end())
        self._set_end(end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.epochs.write()
        self._rebuild_producers(self._now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, and begin again with `offset` as the next one. Raises OSError."""
        self._staged.clear()
        self._delete_segments(0, len(self.segments))
        self.segments.add(Segment.create(self._disk, self._directory, offset, self._config, now_ms=self._now_ms))
        self._set_end(offset)
        self.log_start_offset = offset
        self.epochs.clear()
        self.epochs.write()
        self.producers.truncate_fully()
        self._rebuild_producers(self._now_ms)

    def _set_end(self, end_offset: int) -> None:
        self.log_end_offset = self.readable_end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self._truncations += 1
        self.segments.forget_positions()
        self._last_epoch = NO_EPOCH

    def _rebuild_producers(self, now_ms: int) -> None:
        offset = self.producers.truncate_and_reload(self.log_start_offset, self.log_end_offset, now_ms=now_ms)
        if offset < self.log_end_offset:
            try:
                replay(self.producers, self.segments.since(offset), offset)
            except WireError as error:
                self._trace("storage.replay_incomplete", path=self._directory, error=str(error))

    # Closing

    def close(self) -> None:
        """Let go of the files without writing anything: for a log whose disk has failed."""
        self._staged.clear()
        if self.failure is None:
            self.failure = OSError(f"{self._directory} is closed")
        self.segments.release()

    async def close_cleanly(self) -> None:
        """Commit, complete the indexes and make everything durable, so that the next start can trust it all.

        Raises FsyncFailed, OSError.
        """
        self.commit()
        self.segments.active.seal()
        self.producers.take_snapshot(self.log_end_offset)
        if self.recovery_point < self.log_end_offset:
            await self.flush()
        if self.segments.active.size_bytes:
            await self._sync([self.segments.active])
        self.close()
