"""Copies the log of a replica into its future log in another log directory, and keeps up with it (KIP-113).

The current log goes on meanwhile: it is appended to, its front is deleted, and a follower's is truncated. Records are
read up to its end, committed or not, as a follower reads them from its leader. If it was truncated, the leader epochs
tell how much of the copy is still right (KIP-101).
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from broker.replication.partition import Partition
from broker.replication.throttles import Throttle
from broker.storage.fetched_batches import UnexpectedGap
from broker.storage.future_logs import delete_hidden_segments
from broker.storage.leader_epochs import EPOCH_MAX
from broker.storage.log import Log, LogSlice
from broker.storage.log_dir import LogDir
from broker.storage.segment_list import unreadable
from broker.wire.errors import ErrorCode, KafkaError
from kraft.env import Env

# The size of a read, as in Kafka (replica.fetch.max.bytes). Other tasks run in between.
PIECE_BYTES: Final = 1024 * 1024
# A copy without quota waits this long before it looks at the quota again, which may have been changed.
_QUOTA_WAIT_MAX_S: Final = 1.0
_QUOTA_WAIT_MIN_S: Final = 0.01


class LogCopy:
    """Copies `current` to `future`, which is in `directory`. Nothing else changes `future`."""

    def __init__(
        self, env: Env, partition: Partition, current: Log, future: Log, directory: LogDir, throttle: Throttle
    ) -> None:
        self._env = env
        self._partition = partition
        self._directory = directory
        self._throttle = throttle
        self._truncations: int | None = None  # of the current log, when the logs were compared
        self.current, self.future = current, future

    @property
    def is_possible(self) -> bool:
        """Whether both logs are still in use."""
        return self._partition.log is self.current and self.future.failure is None and self.current.failure is None

    @property
    def _agrees(self) -> bool:
        """Whether the copy is known to be a part of the current log, which may be continued."""
        is_same = self._truncations == self.current.durability.truncations
        return is_same and self.current.log_start_offset <= self.future.log_end_offset

    async def advance(self) -> bool:
        """Copy a piece; returns False if the copy has all records.

        Raises KafkaError if the current log is damaged there, OSError if the disk of the copy fails, FsyncFailed.
        """
        current, future = self.current, self.future
        if future.config is not current.config:
            future.configure(current.config)
        if not self._agrees:
            await self._compare()
        elif future.log_end_offset < current.readable_end_offset:
            await self._wait_for_quota()
            await self._copy_piece()
        else:
            await self._follow_start()
            return False
        return True

    def finish(self) -> bool:
        """Copy the rest at once; returns whether the future log has all that the current one has, as durable.

        Everything must be written to the current log. Raises as `advance` does.
        """
        current, future = self.current, self.future
        if not self._agrees or current.durability.blocks_appends or current.segments.is_being_cleaned:
            return False
        if future.log_end_offset < current.readable_end_offset:
            try:
                part = self._next_part(PIECE_BYTES)
                data = part.file.read(part.position, part.size)
            except OSError as error:  # of the current log's directory, not of the one that the caller takes offline
                raise self._unreadable(error) from error
            self._append(data)
        if future.log_end_offset != current.log_end_offset:
            return False
        # Otherwise a power cut would lose records for which flush.messages was awaited.
        if future.durability.recovery_point < current.durability.recovery_point:
            return False
        future.advance_log_start_offset(current.log_start_offset)
        self._copy_epochs()
        return True

    async def make_durable(self) -> None:
        """Flush the copy, with the states of all producers that the current log knows, and write its checkpoints.

        Producers whose records were deleted are in no copied record. Raises OSError, FsyncFailed.
        """
        current, future = self.current, self.future
        producers, snapshots = current.producers, future.producers.snapshots
        offset = future.log_end_offset
        if self._agrees and offset == current.log_end_offset and producers.snapshots.incomplete_from is None:
            self._copy_epochs()
            entries = [state.entry() for state in producers.active()]
            if offset > snapshots.latest_offset:
                snapshots.write(offset, entries)
            elif offset in snapshots.offsets:
                snapshots.rewrite(offset, entries)
        await future.flush()
        await self._directory.write_recovery_points()
        await self._directory.write_log_start_offsets()
        await self._directory.write_cleaned_offsets()

    async def _compare(self) -> None:
        """Drop what the current log does not have."""
        current, future = self.current, self.future
        self._truncations = current.durability.truncations
        end = common_end_offset(
            current.epochs.entries, current.log_end_offset, future.epochs.entries, future.log_end_offset
        )
        if end < current.log_start_offset or (end <= future.log_start_offset < future.log_end_offset):
            self._restart()
        elif end < future.log_end_offset:
            self._partition.trace("future_log_truncated", offset=end, end_offset=future.log_end_offset)
            future.truncate_to(end)
        if future.durability.is_unsettled:
            await self._directory.settle([future])
        await self._remove_discarded()

    def _restart(self) -> None:
        future = self.future
        is_empty = future.log_start_offset == future.log_end_offset
        future.truncate_fully_and_start_at(self.current.log_start_offset)
        if is_empty:
            future.durability.mark_settled()  # no removed record can come back

    async def _wait_for_quota(self) -> None:
        while self._throttle.allowance <= 0:
            await trio.sleep(min(_QUOTA_WAIT_MAX_S, max(_QUOTA_WAIT_MIN_S, self._throttle.wait_ms / 1000)))

    async def _copy_piece(self) -> None:
        future = self.future
        if not self.is_possible or not self._agrees:
            return
        size = int(min(PIECE_BYTES, max(self._throttle.allowance, 1)))
        try:
            part = self._next_part(size)
            # The file stays open while it is read, and its batches are not changed in place.
            data = await self._env.disk.run_apart(partial(part.file.read, part.position, part.size))
        except OSError as error:
            raise self._unreadable(error) from error
        if self.is_possible and self._agrees:
            self._append(data)
            await future.durability.flush_rolled()
            await self._follow_start()

    def _next_part(self, max_bytes: int) -> LogSlice:
        """The next batches to copy. Raises KafkaError if they are damaged."""
        current, offset = self.current, self.future.log_end_offset
        part = current.read(offset, max_bytes, upper_bound=current.readable_end_offset, min_one_batch=True)
        if not part.size:
            raise self._damaged(f"there are no records at offset {offset}")
        return part

    def _append(self, data: bytes) -> None:
        """Append the batches that were read from the current log. Raises KafkaError if they are damaged."""
        segments, offset = self.future.segments, self.future.log_end_offset
        before = segments.records_written, segments.bytes_written
        try:
            self.future.append_as_follower(memoryview(data), EPOCH_MAX, int(self._env.wall() * 1000))
        except UnexpectedGap:
            return  # it is accepted the second time
        except KafkaError:
            self._suspect()
            raise
        finally:
            segments.records_written, segments.bytes_written = before  # these count what clients append
        self._throttle.record(len(data))
        if self.future.log_end_offset == offset:  # an incomplete batch is left for the next read, which finds no more
            raise self._damaged(f"the batch at offset {offset} is longer than its file")

    def _unreadable(self, error: OSError) -> KafkaError:
        self._suspect()
        return unreadable(self.current.partition, error)

    def _damaged(self, reason: str) -> KafkaError:
        self._suspect()
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, reason)

    def _suspect(self) -> None:
        self._partition.tasks.check_log(self._partition, self.future.log_end_offset)

    async def _follow_start(self) -> None:
        """Delete the records that were deleted from the front of the current log."""
        future = self.future
        future.advance_log_start_offset(min(self.current.log_start_offset, future.readable_end_offset))
        delete_hidden_segments(future)
        await self._remove_discarded()

    async def _remove_discarded(self) -> None:
        for path in self.future.take_discarded():
            await self._env.disk.remove(path)

    def _copy_epochs(self) -> None:
        """Take over the leader epochs, also those of which no batch is left."""
        epochs = self.future.epochs
        if epochs.entries != self.current.epochs.entries:
            epochs.clear()
            for epoch, start_offset in self.current.epochs.entries:
                epochs.assign(epoch, start_offset)


def common_end_offset(
    epochs: Sequence[tuple[int, int]], end_offset: int, other_epochs: Sequence[tuple[int, int]], other_end_offset: int
) -> int:
    """The end of the records that another log has in common with one; both are given by their leader epochs and ends.

    An epoch has one leader, so two logs have the same records of an epoch as far as both have it. Without leader
    epochs the shorter log is taken for a part of the longer one.
    """
    starts_of_next = [*(start for _, start in epochs[1:]), end_offset]
    ends = {epoch: end for (epoch, _), end in zip(epochs, starts_of_next, strict=False)}
    other_end = other_end_offset
    for epoch, start in reversed(other_epochs):
        end = min(other_end, ends.get(epoch, start))
        if end > start:
            return end
        other_end = min(other_end, start)
    return min(other_end, end_offset)
