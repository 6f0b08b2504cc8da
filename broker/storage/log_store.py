"""How one partition's log lives on the disk: staged writes, new segments, flushes, and how it becomes shorter."""

from collections.abc import Callable, Sequence
from typing import Final

from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log_config import MAX_LONG, LogConfig
from broker.storage.producer_replay import replay
from broker.storage.producer_state import ProducerStates
from broker.storage.readable_log import ReadableLog
from broker.storage.retention import deletable_segments
from broker.storage.segment import Segment
from broker.storage.segments import Segments
from broker.storage.swapping import swap_in
from broker.storage.unsettled import mark_unsettled, unmark_unsettled
from broker.wire.errors import ErrorCode, KafkaError, WireError
from broker.wire.records import Glance
from kraft.env import Disk, Tracer

NO_EPOCH: Final = -1
NOT_CLEANED: Final = -1


class LogStore(ReadableLog):
    """`recovery_point` is the end of what is durable, `cleaned_offset` the end of what is compacted, -1 if nothing is.

    When the disk fails the log is done for, and `failure` says why. What is in memory then may be ahead of the file,
    which the next start sorts out. A log that was cut takes no appends until it is settled.
    """

    __slots__ = (
        "_config",
        "_directory",
        "_discarded",
        "_disk",
        "_doubted_offset",
        "_glance",
        "_is_closed",
        "_last_epoch",
        "_now_ms",
        "_staged",
        "_trace",
        "_truncations",
        "_unflushed_since_ms",
        "cleaned_offset",
        "epochs",
        "failure",
        "is_unsettled",
        "on_rolled",
        "on_start_moved",
        "producers",
        "recovery_point",
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
        super().__init__(directory.rpartition("/")[2], segments)
        self._disk = disk
        self._directory = directory
        self._config = config
        self._trace = trace
        self._staged: list[memoryview] = []
        self._discarded: list[str] = []
        self._glance = Glance()
        self._is_closed = False  # to appends: it has failed, or is unsettled
        self._last_epoch = NO_EPOCH
        self._now_ms = 0
        self._truncations = 0
        self._doubted_offset = -1  # behind a gap that nobody had expected
        self._unflushed_since_ms = -1
        self.epochs = epochs
        self.producers = producers
        self.failure: OSError | None = None
        self.is_unsettled = False  # something was cut off, which `settle` is to make final
        self.recovery_point = 0
        self.cleaned_offset = NOT_CLEANED
        self.on_start_moved: Callable[[], None] | None = None  # called when records have been deleted from the front
        self.on_rolled: Callable[[], None] | None = None  # called when a segment was rolled, and is to be flushed

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
    def truncations(self) -> int:
        """How often it was cut: whether what somebody has read of it is there still."""
        return self._truncations

    @property
    def staged(self) -> bool:
        """Whether `commit` has something to do, or to say: that what was staged is lost."""
        return bool(self._staged) or self.failure is not None

    # Writing

    def commit(self) -> None:
        """Write what is staged, in one gathered write; then it may be read. Raises OSError, and the log has failed."""
        staged = self._staged
        if not staged:
            if self.failure is not None:
                raise self.failure
            return
        try:
            self.segments.active.write(staged)
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

    def _roll(self) -> None:
        base_offset = self.log_end_offset
        self.segments.active.seal()
        self.segments.active.release()
        segment = Segment.create(self._disk, self._directory, base_offset, self._config, now_ms=self._now_ms)
        self.segments.add(segment)
        self.producers.take_snapshot(base_offset)
        self._trace("storage_segment_rolled", path=segment.path)
        if self.on_rolled is not None:
            self.on_rolled()

    def _fail(self, error: OSError) -> None:
        self._staged.clear()
        self._is_closed = True
        if self.failure is None:
            self.failure = error
            self._trace("storage_log_failed", path=self._directory, error=str(error))

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
        await self._flush(self.segments.since(self.recovery_point), end_offset)

    async def flush_rolled(self) -> None:
        """Make the segments durable that no batch follows, and move the recovery point to where the active one begins.

        Kafka does so in the background after each roll (UnifiedLog.roll). Raises FsyncFailed, OSError.
        """
        end_offset = self.segments.active.base_offset
        if end_offset <= self.recovery_point:
            return
        since = self.segments.since(self.recovery_point)
        rolled = [segment for segment in since if segment.base_offset < end_offset]
        await self._flush(rolled, end_offset)
        for segment in rolled:
            if segment is not self.segments.active:  # which it is again where the log was truncated
                segment.release()

    async def _flush(self, segments: list[Segment], end_offset: int) -> None:
        truncations = self._truncations
        await self._sync(segments)
        if truncations == self._truncations:  # otherwise there may be other records by now at these offsets
            self.recovery_point = max(self.recovery_point, end_offset)

    async def settle(self) -> None:
        """Make durable what was cut off, by recovery or since; only then may anything be appended again.

        A later flush would not do it: it begins with the segment of the recovery point, and the log may have been cut
        right there and rolled since. What was cut would be back after a power cut, below records that came later, or
        behind them: of other leaders, and yet with offsets that follow. For the same reason the checkpointed recovery
        point has to follow before the log is appended to, if the log now ends before it.

        Raises FsyncFailed, OSError.
        """
        while self.is_unsettled:
            truncations = self._truncations
            await self._sync([self.segments.active])
            await self._disk.sync_dir(self._directory)
            if truncations != self._truncations:
                continue
            await unmark_unsettled(self._disk, self._directory)
            if truncations == self._truncations:
                self.is_unsettled = False
                self._is_closed = self.failure is not None
            else:
                mark_unsettled(self._disk, self._directory)

    async def _sync(self, segments: list[Segment]) -> None:
        for segment in segments:
            try:
                await segment.sync()
            except FileNotFoundError:
                if self.failure is None and segment in self.segments:
                    raise
        try:
            if self.failure is None:
                await self._sync_the_rest([segment for segment in segments if segment.is_new])
        except FileNotFoundError:
            if self.failure is None:
                raise

    async def _sync_the_rest(self, new: list[Segment]) -> None:
        await self.epochs.flush()
        await self.producers.snapshots.sync()
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
        self.producers.advance_log_start_offset(offset)
        if self.on_start_moved is not None:
            self.on_start_moved()
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
            self._trace("storage_segment_deleted", path=segment.path)

    def replace_segments(self, segments: Sequence[Segment]) -> None:
        """Put the cleaned segment in the place of these (`swapping`), which are neighbours, and not active.

        Its files have to be durable; that they are in place is durable after a sync of the directory. Raises OSError,
        and the log has failed.
        """
        first = self.segments.index(segments[0])
        assert first is not None, "who calls has looked"
        try:
            opened_ms = max(segment.retention_timestamp for segment in segments)
            self._discarded += swap_in(self._disk, segments)
            base_offset = segments[0].base_offset
            cleaned = Segment.open(self._disk, self._directory, base_offset, self._config, now_ms=opened_ms)
            self.segments.replace(first, first + len(segments), cleaned)
            self.producers.snapshots.delete_some([segment.base_offset for segment in segments[1:]])
        except OSError as error:
            self._fail(error)
            raise
        self._trace("storage_segments_cleaned", path=cleaned.path, segments=len(segments), bytes=cleaned.size_bytes)

    def truncate_to(self, offset: int) -> bool:
        """Drop the batch that holds `offset` and everything behind it; whether anything was dropped.

        The log then ends where that batch began, and is to be settled. Raises OSError, CorruptBatch.
        """
        self.commit()
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            self._last_epoch = NO_EPOCH
            return False
        if offset < self.segments.first_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        mark_unsettled(self._disk, self._directory)
        self._delete_segments(self.segments.floor_index(offset) + 1, len(self.segments))
        self.segments.active.truncate_to(offset)
        end_offset = min(offset, self.segments.active.load_end())
        self._set_end(end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.epochs.truncate_from_end(end_offset)
        self._rebuild_producers(self._now_ms)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything, and begin again with `offset` as the next one; to be settled then. Raises OSError."""
        self._staged.clear()
        mark_unsettled(self._disk, self._directory)
        self._delete_segments(0, len(self.segments))
        self.segments.add(Segment.create(self._disk, self._directory, offset, self._config, now_ms=self._now_ms))
        self._set_end(offset)
        self.log_start_offset = offset
        self.epochs.clear()
        self.producers.truncate_fully()
        self._rebuild_producers(self._now_ms)

    def _set_end(self, end_offset: int) -> None:
        self.log_end_offset = self.readable_end_offset = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        self.cleaned_offset = min(self.cleaned_offset, end_offset)
        self._truncations += 1
        self.is_unsettled = self._is_closed = True
        self.segments.forget_positions()
        self._last_epoch = NO_EPOCH

    def _rebuild_producers(self, now_ms: int) -> None:
        offset = self.producers.truncate_and_reload(self.log_start_offset, self.log_end_offset, now_ms=now_ms)
        if offset < self.log_end_offset:
            try:
                replay(self.producers, self.segments.since(offset), offset)
            except WireError as error:
                self._trace("storage_replay_incomplete", path=self._directory, error=str(error))
