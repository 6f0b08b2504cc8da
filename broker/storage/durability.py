"""Tracks how far one log is durable: the recovery point, flushes, and the sync that must follow a truncation.

A log is *settled*, *unsettled* or *failed*, and takes appends only while it is settled. A truncation makes it unsettled
until `settle` has made the cut durable. Without that, a power cut could bring the removed records back, below or after
records that another leader wrote later. An error of the disk makes the log failed, for good: the caller takes its log
directory offline. Memory may then be ahead of the files, and the next start recovers from the files.

Past failures, each with a power cut at the worst moment:

- Recovery cut a log right at its recovery point, and no later flush covered the place. The torn bytes came back below
  newer records. A cut of recovery is now durable before the log is used.
- A process was killed between a truncation and its sync. The next process found a log that looked complete and appended
  to it, and the old tail came back. A marker file now tells the next process (`unsettled_marker`).
- A flush counted an index as durable before its sync had ended, and was cancelled. After a clean shutdown, an aborted
  transaction was missing in the index, and its records were read. A file now counts after its own sync only.
- The content of a new segment was durable and its name was not. The log had a hole that nothing noticed, since a
  compacted log may have gaps. The same happened to the directory of a new partition. Names are now synced with the
  first flush of their content.

So never append to a log that is not settled, never use a log after an error of its disk, and never move the recovery
point past anything whose content and name are not both synced.
"""

from collections.abc import Sequence

from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log_config import MAX_LONG, LogConfig
from broker.storage.partition_metadata import partition_metadata_path, sync_topic_id
from broker.storage.producer_snapshots import ProducerSnapshots
from broker.storage.segment import Segment
from broker.storage.segment_list import SegmentList
from broker.storage.unsettled_marker import mark_unsettled, unmark_unsettled
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Disk, Tracer


class Durability:
    """The durable part of a log with these segments, leader epochs and producer snapshots.

    `recovery_point` is the end of the durable records. `unflushed_since_ms` is the time of the first commit that no
    flush covers, -1 without one. `truncations` counts the truncations so far: a reader that finds it unchanged knows
    that the records it read are still in the log. `failure` is the first error of the disk; a log that has failed takes
    no appends any more. `blocks_appends` is true if the log has failed or is unsettled. `is_new_directory` is true if
    the log's directory or its topic id was created and may not be durable yet.
    """

    __slots__ = (
        "_disk",
        "_epochs",
        "_segments",
        "_snapshots",
        "_trace",
        "blocks_appends",
        "directory",
        "failure",
        "is_new_directory",
        "is_unsettled",
        "recovery_point",
        "truncations",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: SegmentList,
        epochs: LeaderEpochCache,
        snapshots: ProducerSnapshots,
        trace: Tracer,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self._segments = segments
        self._epochs = epochs
        self._snapshots = snapshots
        self._trace = trace
        self.unflushed_since_ms = -1
        self.failure: OSError | None = None
        self.is_unsettled = self.blocks_appends = self.is_new_directory = False
        self.recovery_point = 0
        self.truncations = 0

    def fail(self, error: OSError) -> None:
        """Record that the disk failed under this log."""
        if self.failure is None:
            self._trace("storage_log_failed", path=self.directory, error=str(error))
        self.close(error)

    def close(self, error: OSError) -> None:
        """Refuse appends from now on, with `error` as the reason unless the log failed before; write no checkpoint."""
        self.blocks_appends = True
        self._epochs.close()
        if self.failure is None:
            self.failure = error

    def refusal(self, partition: str) -> KafkaError:
        """The error for an append while `blocks_appends`; `partition` is for the message."""
        if self.failure is None:
            return KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} was truncated, and the truncation is not durable yet"
            )
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"Error while appending records to {partition}: {self.failure}"
        )

    # Flushes

    def needs_flush(self, end_offset: int, config: LogConfig, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms require a flush up to `end_offset`, or a rolled segment waits for it."""
        unflushed = end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        return (
            unflushed >= config.flush_messages
            or (config.flush_ms != MAX_LONG and 0 <= self.unflushed_since_ms <= now_ms - config.flush_ms)
            or self.recovery_point < self._segments.active.base_offset
        )

    async def flush(self, end_offset: int) -> None:
        """Make the committed records durable and move the recovery point to `end_offset`, where they end.

        Raises FsyncFailed, OSError.
        """
        if end_offset > self.recovery_point:
            self.unflushed_since_ms = -1
            await self._flush(self._segments.since(self.recovery_point), end_offset)

    def begin_at(self, recovery_point: int, end_offset: int, now_ms: int) -> None:
        """Begin with a log that was loaded: it is durable up to `recovery_point`, but for indexes that were rebuilt."""
        self.recovery_point = recovery_point
        self.include_rebuilt_indexes()
        if self.recovery_point < end_offset:
            self.unflushed_since_ms = now_ms

    def include_rebuilt_indexes(self) -> None:
        """Move the recovery point back to the first segment whose transaction index was rebuilt and is not durable.

        Otherwise no flush would sync that index, and the next start, with a later snapshot, would not rebuild it.
        """
        rebuilt = (each.base_offset for each in self._segments if not each.transaction_index.is_synced)
        self.recovery_point = min(self.recovery_point, next(rebuilt, self.recovery_point))

    async def flush_rolled(self) -> None:
        """Make the rolled segments durable and move the recovery point to the start of the active segment.

        Kafka does this in the background after each roll (UnifiedLog.roll). Raises FsyncFailed, OSError.
        """
        end_offset = self._segments.active.base_offset
        if end_offset <= self.recovery_point:
            return
        since = self._segments.since(self.recovery_point)
        rolled = [segment for segment in since if segment.base_offset < end_offset]
        await self._flush(rolled, end_offset)
        for segment in rolled:
            if segment is not self._segments.active:  # a truncation meanwhile may have made it active again
                segment.release()

    async def _flush(self, segments: list[Segment], end_offset: int) -> None:
        truncations = self.truncations
        await self._sync(segments)
        if truncations == self.truncations:  # otherwise these offsets may hold other records by now
            self.recovery_point = max(self.recovery_point, end_offset)

    # Truncations

    def mark_unsettled(self) -> None:
        """Leave a marker in the directory before the log is cut: a restart then settles it again. Raises OSError."""
        mark_unsettled(self._disk, self.directory)

    def truncated_to(self, end_offset: int) -> None:
        """Record that the log was cut and now ends at `end_offset`. It takes no appends until `settle` is done."""
        self.recovery_point = min(self.recovery_point, end_offset)
        self.truncations += 1
        self.is_unsettled = self.blocks_appends = True

    def mark_settled(self) -> None:
        """Take appends again, unless the log has failed: the truncation is durable, or it removed no records."""
        self.is_unsettled = False
        self.blocks_appends = self.failure is not None

    async def settle(self) -> None:
        """Make the last truncation durable, whether recovery made it or a leader change; appends are possible again.

        A later flush is not enough: it begins at the segment of the recovery point, and the log may have been cut
        there and rolled since. A power cut would then bring the removed records back: records of other leaders, at
        offsets that follow. For the same reason the checkpointed recovery point must be lowered before the next append
        if the log now ends before it (`LogDir.settle`). Raises FsyncFailed, OSError.
        """
        while self.is_unsettled:
            truncations = self.truncations
            await self._sync(self._segments.unsettled())
            await self._disk.sync_dir(self.directory)
            if truncations != self.truncations:
                continue
            await unmark_unsettled(self._disk, self.directory)
            if truncations == self.truncations:
                self.mark_settled()
            else:
                self.mark_unsettled()

    async def _sync(self, segments: Sequence[Segment]) -> None:
        """Sync these segments and the files beside them. A file may vanish meanwhile if its segment is deleted."""
        for segment in segments:
            try:
                await segment.sync()
            except FileNotFoundError:
                if self.failure is None and segment in self._segments:
                    raise
        try:
            if self.failure is None:
                await self._sync_checkpoints(segments)
        except FileNotFoundError:
            if self.failure is None:
                raise

    async def _sync_checkpoints(self, segments: Sequence[Segment]) -> None:
        await self._epochs.flush()
        await self._snapshots.sync()
        # the files are listed before the sync, which may miss those that are created meanwhile
        new = [file for segment in segments for file in (segment, segment.transaction_index) if file.is_new]
        if new:
            await self._disk.sync_dir(self.directory)
            for file in new:
                file.is_new = False
        if self.is_new_directory:  # housekeeping may come too late: a power cut would remove all that was flushed
            await sync_topic_id(self._disk, self.directory)
            await self._disk.sync_dir(self.directory.rpartition("/")[0])
            self.is_new_directory = False

    # A clean shutdown (see `clean_shutdown`)

    def unsynced_paths(self, end_offset: int) -> list[str]:
        """Write what is in memory to the files; returns the paths of the files that are not durable. Raises OSError."""
        is_flushed = self.recovery_point >= end_offset
        paths: list[str] = []
        for segment in self._segments.since(self.recovery_point):
            if segment.size_bytes or not is_flushed:
                paths += segment.unsynced_paths()
        if self.is_new_directory:
            paths.append(partition_metadata_path(self.directory))
        return paths + self._snapshots.unsynced_paths() + self._epochs.write_beside()

    def replace_checkpoint(self) -> bool:
        """Move the new leader epoch checkpoint, which is durable, over the old one.

        Returns whether the log's directory has entries that are not durable.
        """
        has_replaced = self._epochs.replace()
        return (
            has_replaced
            or self.is_new_directory
            or (not self._segments.is_empty and any(map(_has_new_files, self._segments)))
        )


def _has_new_files(segment: Segment) -> bool:
    """Whether the directory entry of one of the segment's files is not durable yet."""
    return segment.is_new or segment.transaction_index.is_new
