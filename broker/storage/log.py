"""One partition's log: a directory of segments, the last of which grows.

All of it is synchronous and reaches the page cache, apart from `flush`, `settle` and `close_cleanly`, which reach the
disk. A leader appends in two steps. `append` validates a batch, gives it its offsets and stages the producer's own
buffer; `commit` writes everything staged with one system call. So whatever one wake-up of the node receives for a
partition costs one write. Readers see what is committed. A follower appends what its leader has sent as it is, and
cuts off what its leader does not have.

When the disk fails the log is done for: `failure` says why, appends are refused with KAFKA_STORAGE_ERROR, and its
directory is to be taken offline. What is in memory then may be ahead of the file, which the next start sorts out.
"""

from functools import partial

from broker.storage.append_info import AppendInfo
from broker.storage.checkpoints import CorruptCheckpoint
from broker.storage.closing import close_cleanly
from broker.storage.fetched_batches import UnexpectedGap, fetched_batches
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log_config import LogConfig
from broker.storage.log_store import NOT_CLEANED, LogStore
from broker.storage.producer_replay import observe
from broker.storage.producer_snapshots import ProducerSnapshots
from broker.storage.producer_state import Duplicate, ProducerStates
from broker.storage.recovery import Recovery
from broker.storage.segment import Segment
from broker.storage.segments import LogSlice, Segments
from broker.storage.timestamp_search import TimestampAndOffset
from broker.storage.validation import check_batch, conform
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.records import NO_TIMESTAMP, BatchHeader, CorruptBatch, TimestampType, patch
from broker.wire.records.batch import LOG_APPEND_TIME_FLAG
from kraft.env import Disk, Tracer

__all__ = ["AppendInfo", "Log", "LogSlice", "TimestampAndOffset"]


class Log(LogStore):
    """See the module's docstring.

    `recovery_point` is the end of what is durable.
    """

    __slots__ = ()

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
        cleaned_offset: int = NOT_CLEANED,
        starts_at_start: bool = False,
    ) -> "Log":
        """The log in `directory`, which has to exist; an empty directory becomes an empty log.

        `clean` says that the log was closed cleanly: it is taken as it is if it ends at the checkpointed
        `recovery_point`, or if that is not known. Otherwise what lies behind the recovery point is validated, and the
        log is cut at the first batch that is not intact. `cleaned_offset` is the checkpointed end of what is compacted,
        -1 where nothing is. `starts_at_start` says that `log_start_offset` is of a checkpoint that is written whenever
        segments were deleted, so that a log that begins later has lost some.

        Raises OSError, NotADirectoryError among them.
        """
        names, durable, discarded = disk.list(directory), recovery_point, list[str]()
        try:
            epochs = LeaderEpochCache.load(disk, directory)
        except CorruptCheckpoint as error:
            trace("storage_leader_epochs_corrupt", path=directory, error=str(error))
            epochs, clean, recovery_point = LeaderEpochCache(disk, directory), False, 0
        recovery = Recovery(
            disk, directory, config, epochs, discarded.append, trace, now_ms, cleaned_offset, durable, starts_at_start
        )
        segments, end_offset = recovery.load(
            names, recovery_point=recovery_point, log_start_offset=log_start_offset, clean=clean
        )
        snapshots = ProducerSnapshots(disk, directory, names, discard=discarded.append, trace=trace)
        producers = ProducerStates(snapshots, partition=recovery.partition, expiration_ms=producer_expiration_ms)
        log = cls(disk, directory, config, Segments(segments), epochs, producers, trace)
        log._discarded, log.is_unsettled, log._is_closed = discarded, recovery.has_cut, recovery.has_cut
        log._now_ms, log.cleaned_offset = now_ms, min(cleaned_offset, end_offset)
        log.log_start_offset = max(log_start_offset, segments[0].base_offset)
        log.log_end_offset = log.readable_end_offset = end_offset
        log.recovery_point = end_offset if clean else max(0, min(recovery_point, end_offset))
        if log.recovery_point < end_offset:
            log._unflushed_since_ms = now_ms
        epochs.truncate_from_end(end_offset)
        epochs.truncate_from_start(log.log_start_offset)
        snapshots.retain_for_segments(log.segments.base_offsets)
        log._rebuild_producers(now_ms)
        log.segments.release()
        return log

    # Appending

    def append(self, batches: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append a producer's batch, as the partition's leader of `leader_epoch`.

        Base offset and epoch are written into the buffer, which has to be writable and to stay as it is until `commit`.
        Raises KafkaError, and leaves the log as it was: the codes of `validation` and of `ProducerStates.check`, and
        KAFKA_STORAGE_ERROR.
        """
        if self._is_closed:
            raise self._refusal()
        config = self._config
        header = check_batch(batches, config, self.partition)
        if (
            header.attributes & LOG_APPEND_TIME_FLAG
            or header.max_timestamp > now_ms + config.message_timestamp_after_max_ms
            or not config.stores_as_is
            or not self._glance.finds_sound(batches, header)
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

    def append_as_follower(self, records: memoryview, leader_epoch: int, now_ms: int) -> None:
        """Append and commit what the leader of `leader_epoch` has sent: the very bytes, in one gathered write.

        The batches keep their offsets and epochs. What of `records` is no whole batch, or of a later epoch, is left
        for the next fetch, which begins where the log ends. Raises KafkaError and leaves the log as it was:
        CORRUPT_MESSAGE, NOT_LEADER_OR_FOLLOWER while the log is unsettled, KAFKA_STORAGE_ERROR. Raises OSError, and
        the log has failed.
        """
        if self._is_closed:
            raise self._refusal()
        batches = self._whole_batches(records, leader_epoch)
        if batches and batches[0][1].base_offset < self.log_end_offset:
            self._begin_before_end(batches[0][1])
        for batch, header in batches:
            self._stage_fetched(batch, header, now_ms)
        if batches and self._unflushed_since_ms < 0:
            self._unflushed_since_ms = now_ms
        self.commit()

    def _whole_batches(self, records: memoryview, leader_epoch: int) -> list[tuple[memoryview, BatchHeader]]:
        """Of a leader's log that was compacted in earlier times only, nobody here knows that it has gaps.

        Who is shown the same gap again takes it for one: what was damaged on the way is not so twice.
        """
        check = partial(
            fetched_batches,
            records,
            end_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            partition=self.partition,
        )
        try:
            return check(allows_gaps=self._config.compact_enabled or self.cleaned_offset != NOT_CLEANED)
        except UnexpectedGap as gap:
            if self._doubted_offset != gap.base_offset:
                self._doubted_offset = gap.base_offset
                raise
            return check(allows_gaps=True)

    def _begin_before_end(self, first: BatchHeader) -> None:
        """Let an empty log begin where the batch does that holds its end: records before it were deleted there.

        No need to settle this. What was cut holds no records that count, and ends before the next segment begins.
        """
        if self.log_start_offset < self.log_end_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Fetched for {self.partition}: a batch with base offset {first.base_offset} cannot follow at "
                f"{self.log_end_offset}",
            )
        self.truncate_fully_and_start_at(first.base_offset)
        self.is_unsettled = self._is_closed = False

    def _stage_fetched(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        if header.base_offset > self.log_end_offset and self.cleaned_offset == NOT_CLEANED:
            self.cleaned_offset = self.log_start_offset  # a recovery is not to take the gap for damage
        last_offset, max_timestamp, size = header.last_offset, header.max_timestamp, header.size
        segment = self._segment_for(size, last_offset, max_timestamp, now_ms)
        segment.append(last_offset, max_timestamp, size)
        if header.producer_id >= 0:
            self._observe_producer(header, batch)
        if header.partition_leader_epoch != self._last_epoch:
            self._assign_epoch(header.partition_leader_epoch, header.base_offset)
        self._staged.append(batch)
        self.log_end_offset = last_offset + 1

    def _observe_producer(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            observe(self.producers, header, batch)
        except WireError as error:
            self._trace("storage_replay_incomplete", path=self._directory, error=str(error))

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
            raise self._refusal() from error
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is corrupt: {error}") from error
        return self.segments.active

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

    def _refusal(self) -> KafkaError:
        if self.failure is None:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.partition} was cut and is not settled yet")
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"Error while appending records to {self.partition}: {self.failure}"
        )

    # Closing

    def close(self) -> None:
        """Let go of the files without writing anything: for a log whose disk has failed."""
        self._staged.clear()
        self._is_closed = True
        if self.failure is None:
            self.failure = OSError(f"{self._directory} is closed")
        self.segments.release()

    async def close_cleanly(self) -> None:
        """Commit, complete the indexes and make everything durable, so that the next start can trust it all.

        Raises FsyncFailed, OSError, in an exception group where it is a file that cannot be synced.
        """
        await close_cleanly(self._disk, [self])

    def prepare_to_close(self) -> list[str]:
        """Complete the log's files in the page cache; the paths of those that are not durable yet. Raises OSError."""
        self.commit()
        self.segments.active.seal()
        self.producers.take_snapshot(self.log_end_offset)
        is_flushed = self.recovery_point >= self.log_end_offset
        paths: list[str] = []
        for segment in self.segments.since(self.recovery_point):
            if segment.size_bytes or not is_flushed:
                paths += segment.unsynced_paths()
        return paths + self.producers.snapshots.unsynced_paths() + self.epochs.write_beside()

    def replace_checkpoint(self) -> bool:
        """Put the new leader epochs in the place of the old ones, once they are durable.

        Returns whether the log's directory has entries that are not durable.
        """
        has_replaced = self.epochs.replace()
        is_empty = len(self.segments) == 1 and not self.segments.active.size_bytes
        return has_replaced or (not is_empty and any(segment.is_new for segment in self.segments))

    def close_synced(self) -> None:
        """Close a log that is durable as a whole now."""
        self.recovery_point = max(self.recovery_point, self.log_end_offset)
        self.close()
