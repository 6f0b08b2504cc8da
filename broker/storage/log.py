"""One partition's log: a directory of segments, of which only the last one, the active segment, grows.

A log consists of its segments, its durability (flushes, the recovery point), its leader epochs and the states of its
producers. All methods are synchronous and write to the page cache, except `flush` and those of `Durability`,
which wait for the disk. `log_loader` opens a log, `clean_shutdown` closes it.

A leader appends in two steps. `append` validates a batch, assigns its offsets and stages the producer's own buffer.
`commit` writes all staged batches with one system call, so that the batches which the node receives for a partition in
one turn of its event loop cost one write. Readers see committed batches only. A follower appends the batches of its
leader unchanged, and truncates records that the leader does not have.

After an error of the disk the log has failed: `failure` holds the error, appends are refused with KAFKA_STORAGE_ERROR,
and the caller takes its log directory offline. Memory may then be ahead of the file; the next start recovers from the
file.
"""

from collections.abc import Callable, Sequence
from typing import Final

from broker.storage.append_info import AppendInfo, duplicate_info
from broker.storage.durability import Durability
from broker.storage.fetched_batches import FetchedBatches
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log_config import LogConfig
from broker.storage.producer_replay import check_coordinator_batch, load_producers, replay_or_trace
from broker.storage.producer_state import ProducerStates
from broker.storage.segment import Segment
from broker.storage.segment_list import LogSlice, SegmentList, unreadable
from broker.storage.validation import adapt_batch, check_batch
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.records import NO_TIMESTAMP, BatchHeader, CorruptBatch, PartialCheck, patch
from broker.wire.records.batch import FOREIGN_ATTRIBUTES
from kraft.env import Tracer

__all__ = ["AppendInfo", "Log", "LogSlice"]

NO_EPOCH: Final = -1
NOT_CLEANED: Final = -1


class Log:
    """See the module's docstring.

    `log_start_offset` is the first offset that may be read, `log_end_offset` the next one to be assigned, and
    `readable_end_offset` the end of what is written to the file. `cleaned_offset` is the end of the compacted part,
    NOT_CLEANED if there is none. `on_start_moved` is called after records were deleted from the front, `on_rolled`
    after a segment was rolled, which is then to be flushed.
    """

    __slots__ = (
        "_last_epoch",
        "_now_ms",
        "_partial_check",
        "_staged",
        "_trace",
        "cleaned_offset",
        "config",
        "directory",
        "durability",
        "epochs",
        "fetched",
        "log_end_offset",
        "log_start_offset",
        "on_rolled",
        "on_start_moved",
        "partition",
        "producers",
        "readable_end_offset",
        "segments",
    )

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        segments: SegmentList,
        durability: Durability,
        epochs: LeaderEpochCache,
        producers: ProducerStates,
        trace: Tracer,
        *,
        now_ms: int,
    ) -> None:
        self.directory = directory
        self.partition = directory.rpartition("/")[2]  # "topic-0", for messages
        self.segments = segments
        self.durability = durability
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = 0
        self.log_end_offset = self.readable_end_offset = 0
        self.cleaned_offset = NOT_CLEANED
        self.on_start_moved: Callable[[], None] | None = None
        self.on_rolled: Callable[[], None] | None = None
        self.config = config
        self.fetched = FetchedBatches(self.partition)
        self._partial_check = PartialCheck()
        self._last_epoch = NO_EPOCH
        self._now_ms = now_ms
        self._staged: list[memoryview] = []
        self._trace = trace

    # Config and state

    def configure(self, config: LogConfig) -> None:
        """Apply a changed topic config."""
        self.config = config
        self.segments.configure(config)

    @property
    def allows_gaps(self) -> bool:
        """Whether there may be gaps between offsets, because the log is or was compacted."""
        return self.config.compact_enabled or self.cleaned_offset != NOT_CLEANED

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def failure(self) -> OSError | None:
        """The first error of the disk; the log is not used any more after it."""
        return self.durability.failure

    @property
    def staged(self) -> bool:
        """Whether `commit` has batches to write, or must raise because staged batches were lost."""
        return bool(self._staged) or self.durability.failure is not None

    # Reading

    def read(self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool) -> LogSlice:
        """The committed batches of one segment from the one with `offset` on, below `upper_bound`.

        Returns at most `max_bytes`, or one whole batch if that is larger and `min_one_batch` is set; size 0 if there
        is nothing to read. Raises KafkaError: OFFSET_OUT_OF_RANGE, or KAFKA_STORAGE_ERROR if the file is unreadable.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.partition}, "
                f"but we only have log segments in the range {self.log_start_offset} to {self.log_end_offset}.",
            )
        end_offset = min(upper_bound, self.readable_end_offset)
        if offset >= end_offset:
            return LogSlice(self.segments.active, self.segments.active.written, 0, 0)
        bound = end_offset if end_offset < self.readable_end_offset else None
        try:
            return self.segments.slice(offset, bound, max_bytes, min_one_batch=min_one_batch)
        except (OSError, CorruptBatch) as error:
            raise unreadable(self.partition, error) from error

    # Appending

    def append(self, batches: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append a producer's batch as the partition's leader of `leader_epoch`.

        Base offset and epoch are written into the buffer, which must be writable and stay unchanged until `commit`.
        Raises KafkaError and leaves the log as it was: the codes of `validation` and of `ProducerStates.check`, and
        KAFKA_STORAGE_ERROR.
        """
        if self.durability.blocks_appends:
            raise self.durability.refusal(self.partition)
        config = self.config
        header = check_batch(batches, config, self.partition)
        if (
            header.attributes & FOREIGN_ATTRIBUTES
            or header.max_timestamp > now_ms + config.message_timestamp_after_max_ms
            or not config.stores_as_is
            or not self._partial_check.accepts(batches, header)
        ):
            batches, header = adapt_batch(batches, header, config, now_ms=now_ms, partition=self.partition)
        first_offset = header.base_offset = self.log_end_offset
        if header.producer_id >= 0:
            duplicate = self.producers.check(header)
            if duplicate is not None:
                return duplicate_info(duplicate, self.log_start_offset, config)
        last_offset = first_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        size = len(batches)
        segment = self.segments.active
        if segment.should_roll(size, last_offset, max_timestamp, now_ms):
            segment = self._load_or_roll(size, last_offset, max_timestamp, now_ms)
        patch(batches, 0, first_offset, leader_epoch)
        segment.append(last_offset, max_timestamp, size)
        if header.producer_id >= 0:
            self.producers.update(header)
        if leader_epoch != self._last_epoch:
            self._assign_epoch(leader_epoch, first_offset)
        self._now_ms = now_ms
        self._staged.append(batches)
        self.log_end_offset = last_offset + 1
        log_append_time_ms = NO_TIMESTAMP if config.keeps_create_time else max_timestamp
        return AppendInfo(first_offset, last_offset, log_append_time_ms, self.log_start_offset)

    def append_as_follower(self, records: memoryview, leader_epoch: int, now_ms: int) -> None:
        """Append and commit the batches that the leader of `leader_epoch` sent, unchanged and in one gathered write.

        A batch that is incomplete or of a later epoch is left for the next fetch, which begins where the log ends.
        Raises KafkaError and leaves the log as it was: CORRUPT_MESSAGE, NOT_LEADER_OR_FOLLOWER while the log is
        unsettled, KAFKA_STORAGE_ERROR. Raises OSError if the write fails; the log has then failed.
        """
        if self.durability.blocks_appends:
            raise self.durability.refusal(self.partition)
        batches = self.fetched.split(
            records,
            end_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            allows_gaps=self.allows_gaps,
        )
        if batches and batches[0][1].base_offset < self.log_end_offset:
            self._restart_before_end(batches[0][1])
        for batch, header in batches:
            self._stage_fetched(batch, header, now_ms)
        self.commit()

    def _restart_before_end(self, first: BatchHeader) -> None:
        """Let an empty log begin where `first` begins, if its leader deleted the records of that batch up to here.

        This needs no settling: the log holds no records, and the cut ends before the next segment begins.
        """
        if self.log_start_offset < self.log_end_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Fetched for {self.partition}: a batch with base offset {first.base_offset} cannot follow at "
                f"{self.log_end_offset}",
            )
        self.truncate_fully_and_start_at(first.base_offset)
        self.durability.mark_settled()

    def _stage_fetched(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        if header.base_offset > self.log_end_offset and self.cleaned_offset == NOT_CLEANED:
            self.cleaned_offset = self.log_start_offset  # so that a recovery does not take the gap for damage
        last_offset = header.base_offset + header.last_offset_delta
        max_timestamp, size = header.max_timestamp, len(batch)
        segment = self.segments.active
        if segment.should_roll(size, last_offset, max_timestamp, now_ms):
            segment = self._load_or_roll(size, last_offset, max_timestamp, now_ms)
        segment.append(last_offset, max_timestamp, size)
        if header.producer_id >= 0:
            self._observe_producer(header, batch)
        if header.partition_leader_epoch != self._last_epoch:
            self._assign_epoch(header.partition_leader_epoch, header.base_offset)
        self._now_ms = now_ms
        self._staged.append(batch)
        self.log_end_offset = last_offset + 1

    def append_as_coordinator(
        self, batch: memoryview, leader_epoch: int, now_ms: int, *, transaction_version: int
    ) -> AppendInfo:
        """Append a batch of a coordinator of this broker as it is. Raises KafkaError (`check_coordinator_batch`)."""
        if self.durability.blocks_appends:
            raise self.durability.refusal(self.partition)
        patch(batch, 0, self.log_end_offset, leader_epoch)
        header = check_coordinator_batch(self.producers, batch, self.config, transaction_version)
        self._stage_fetched(batch, header, now_ms)
        return AppendInfo(header.base_offset, self.log_end_offset - 1, NO_TIMESTAMP, self.log_start_offset)

    def _observe_producer(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            ended = replay_or_trace(self.producers, header, batch, self.directory, self._trace)
            self.segments.active.transaction_index.extend(ended)
        except OSError as error:
            self._fail(error)
            raise self.durability.refusal(self.partition) from error

    def _load_or_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The segment for a batch that the active segment does not take; it may only need its indexes loaded."""
        try:
            self.segments.active.load_for_appends()
            if self.segments.active.should_roll(size, last_offset, max_timestamp, now_ms):
                self.roll(now_ms)
        except OSError as error:
            self._fail(error)
            raise self.durability.refusal(self.partition) from error
        except CorruptBatch as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is corrupt: {error}") from error
        return self.segments.active

    def _assign_epoch(self, leader_epoch: int, first_offset: int) -> None:
        if leader_epoch >= 0:
            self.epochs.assign(leader_epoch, first_offset)
        self._last_epoch = leader_epoch

    # Writing

    def commit(self) -> None:
        """Write the staged batches with one gathered write; they can be read then.

        Raises OSError if the write fails, and also for a log that failed earlier.
        """
        staged, durability = self._staged, self.durability
        if not staged:
            if durability.failure is not None:
                raise durability.failure
            return
        try:
            size = self.segments.active.write(staged)
        except OSError as error:
            self._fail(error)
            raise
        staged.clear()
        if durability.unflushed_since_ms < 0:
            durability.unflushed_since_ms = self._now_ms
        self.segments.remember_written(self.readable_end_offset, self.log_end_offset, size)
        self.readable_end_offset = self.log_end_offset

    def roll(self, now_ms: int | None = None) -> None:
        """Commit, then begin a new segment unless the active one is empty. Raises OSError; the log has then failed.

        `now_ms` is the new segment's time of creation, by default the time of the last append.
        """
        self.commit()
        self._now_ms = self._now_ms if now_ms is None else now_ms
        if self.segments.active.size_bytes == 0:
            return
        try:
            self.segments.roll(self.log_end_offset, self.config, self._now_ms)
            self.producers.take_snapshot(self.log_end_offset)
        except OSError as error:
            self._fail(error)
            raise
        if self.on_rolled is not None:
            self.on_rolled()

    def _fail(self, error: OSError) -> None:
        self._staged.clear()
        self.durability.fail(error)

    # Durability

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms require a flush, or a rolled segment waits for one."""
        return self.durability.needs_flush(self.readable_end_offset, self.config, now_ms)

    async def flush(self) -> None:
        """Make the committed batches durable and move the recovery point. Raises FsyncFailed, OSError."""
        await self.durability.flush(self.readable_end_offset)

    # Shrinking

    def advance_log_start_offset(self, offset: int) -> bool:
        """Hide the records before `offset`, which must not exceed the high watermark; False if it changes nothing.

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
        self.producers.advance_log_start_offset(offset)
        if self.on_start_moved is not None:
            self.on_start_moved()
        return True

    def take_discarded(self) -> list[str]:
        """The files, renamed to `.deleted`, that were discarded since the last call and are to be removed."""
        discarded = self.segments.discarded[:]
        self.segments.discarded.clear()
        return discarded

    def replace_segments(self, segments: Sequence[Segment]) -> None:
        """Replace segments by the one cleaned from them (`SegmentList.replace`). Raises OSError; the log has failed."""
        try:
            self.segments.replace(segments, self.config)
            self.producers.snapshots.delete_some([segment.base_offset for segment in segments[1:]])
        except OSError as error:
            self._fail(error)
            raise

    def truncate_to(self, offset: int) -> bool:
        """Drop the batch that contains `offset` and everything after it; False if there was nothing to drop.

        The log then ends where that batch began (see `truncation`), and must be settled. Raises OSError.
        """
        self.commit()
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            self._last_epoch = NO_EPOCH
            return False
        if offset < self.segments.first_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        point = self.segments.find_truncation_point(offset, self.log_end_offset, allows_gaps=self.allows_gaps)
        self.durability.mark_unsettled()
        self.segments.truncate_at(point, self.config, self._now_ms)
        self._truncated_to(end_offset := point.end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_from_end(end_offset)
        self.reload_producers(point.damaged_from)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything; `offset` becomes the next offset. The log must be settled then. Raises OSError."""
        self._staged.clear()
        self.durability.mark_unsettled()
        self.segments.restart_at(offset, self.config, self._now_ms)
        self._truncated_to(offset)
        self.log_start_offset = offset
        self.epochs.clear()
        self.producers.truncate_fully()
        self.reload_producers()

    def _truncated_to(self, end_offset: int) -> None:
        self.log_end_offset = self.readable_end_offset = end_offset
        self.cleaned_offset = min(self.cleaned_offset, end_offset)
        self.durability.truncated_to(end_offset)
        self._last_epoch = NO_EPOCH

    def reload_producers(self, damaged_from: int | None = None) -> None:
        """Load the producers from the log, in which batches are damaged from `damaged_from` on. Raises OSError."""
        start, end = self.log_start_offset, self.log_end_offset
        load_producers(self.producers, self.segments, start, end, self._now_ms, self._trace, damaged_from)
        self.durability.include_rebuilt_indexes()

    # Closing

    def close(self) -> None:
        """Close the files without writing anything. For a clean shutdown see `clean_shutdown.close_cleanly`."""
        self._staged.clear()
        self.durability.close(OSError(f"{self.directory} is closed"))
        self.segments.release()
