"""Recovers the files of one log, so that it can be opened.

First it finishes what a crash has interrupted: files of deleted segments and of unfinished cleanings are renamed to be
deleted, and a finished cleaning (`.swap`) replaces its segments. Then, unless the log was closed cleanly, it reads
every segment from the recovery point on: it rebuilds the indexes and leader epochs, and cuts the log at the first batch
that is not intact or does not follow its predecessor. Bytes that are not a batch, such as zeros or half a write, also
end the log.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

from broker.storage.batch_scan import scan_batches
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.log_config import MAX_LONG, LogConfig
from broker.storage.lost_records import Cut, LostRecords, cut_before, cut_within
from broker.storage.segment import Segment
from broker.storage.segment_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from broker.storage.swapping import CLEANED_SUFFIX, SWAP_SUFFIX
from broker.storage.unsettled_marker import is_marked_unsettled, mark_unsettled
from broker.wire.records import BatchHeader, CorruptBatch
from kraft import lazy_attrs
from kraft.env import Disk, Tracer

# The recovery point if no checkpoint has it.
UNKNOWN: Final = -1
_OFFSET_DIGITS: Final = 20


@lazy_attrs.define
class Recovery:
    """The recovery of one log. `discard` is called with files that were renamed to `.deleted` and are to be removed.

    `cleaned_offset` is the checkpointed end of the compacted part, negative if the log is not compacted. `durable_end`
    is the checkpointed recovery point, UNKNOWN without one. `starts_at_start` says that a log whose first segment
    begins after its start has lost records. `has_cut` says that something was removed, now or by the process before;
    the log is marked as unsettled then.
    """

    disk: Disk
    directory: str
    config: LogConfig
    epochs: LeaderEpochCache
    discard: Callable[[str], None]
    trace: Tracer
    now_ms: int
    cleaned_offset: int
    durable_end: int
    starts_at_start: bool = False
    has_cut: bool = False
    _cut: Cut | None = None

    @property
    def partition(self) -> str:
        return self.directory.rpartition("/")[2]

    @property
    def allows_gaps(self) -> bool:
        """Whether there may be gaps between offsets, because the log is or was compacted."""
        return self.config.compact_enabled or self.cleaned_offset >= 0

    def load(
        self, names: Collection[str], *, recovery_point: int, log_start_offset: int, clean: bool
    ) -> tuple[list[Segment], int]:
        """The log's segments, at least one, and its end offset. Raises OSError.

        Lost records are traced in one event for the operator.
        """
        self.has_cut = was_cut = is_marked_unsettled(names)
        bases = self.finish_interrupted(names)
        segments = [Segment.open(self.disk, self.directory, base, self.config, now_ms=self.now_ms) for base in bases]
        end_offset = self._end_of_clean(segments) if clean else None
        if end_offset is None:
            end_offset = self._recover_from(segments, 0 if clean else recovery_point)
        if end_offset < self.durable_end:
            self._mark()  # later appends must not count as durable
        if self._cut is not None:
            self._cut.trace_loss(self.trace, self.partition, self.durable_end)
        elif end_offset < self.durable_end and not was_cut:
            reason = f"the log ends at offset {end_offset}, before its recovery point {self.durable_end}"
            self._trace_missing_records(end_offset, self.durable_end, reason)
        if self.starts_at_start and segments and log_start_offset < segments[0].base_offset:
            reason = f"the log starts at offset {log_start_offset}, and its first segment at {segments[0].base_offset}"
            self._trace_missing_records(log_start_offset, segments[0].base_offset, reason)
        if segments and end_offset < log_start_offset:
            self.trace(
                "storage_log_ends_before_start",
                partition=self.partition,
                path=self.directory,
                end=end_offset,
                log_start_offset=log_start_offset,
            )
            self._drop(segments, 0)
            self.epochs.clear()
        if not segments:
            end_offset = log_start_offset
            segments.append(Segment.create(self.disk, self.directory, end_offset, self.config, now_ms=self.now_ms))
        return segments, end_offset

    def finish_interrupted(self, names: Iterable[str]) -> list[int]:
        """Finish what a crash has interrupted; returns the segments' base offsets, ascending. Raises OSError."""
        present = set(names)
        for name in sorted(present):
            if name.endswith(DELETED_SUFFIX):
                self.discard(f"{self.directory}/{name}")
                present.discard(name)
        cleaned = sorted(name for name in present if name.endswith(CLEANED_SUFFIX))
        swaps = sorted(name for name in present if name.endswith(SWAP_SUFFIX))
        # A cleaning that was still writing at some offset has not finished the segments it swaps in from there on.
        unfinished_from = min((base for name in cleaned if (base := _base_offset(name)) is not None), default=None)
        for name in (*cleaned, *swaps):
            base = _base_offset(name)
            if name in cleaned or base is None or (unfinished_from is not None and base >= unfinished_from):
                self._rename_and_delete(name)
                present.discard(name)
        self._swap_in([name for name in swaps if name in present], present)
        for name in sorted(present):
            base = _base_offset(name)
            is_index = name.endswith((OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX))
            if base is not None and is_index and segment_file_name(base, LOG_SUFFIX) not in present:
                self.trace("storage_index_orphaned", path=f"{self.directory}/{name}")
                self._rename_and_delete(name)
        logs = sorted(name for name in present if name.endswith(LOG_SUFFIX))
        for name in logs:
            if _base_offset(name) is None:
                self.trace("storage_file_ignored", path=f"{self.directory}/{name}", reason="no segment has this name")
        return [base for name in logs if (base := _base_offset(name)) is not None]

    def _swap_in(self, swaps: list[str], present: set[str]) -> None:
        """Replace segments by the cleaned segments that were made from them."""
        for name in swaps:
            if not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                continue
            first = _base_offset(name)
            assert first is not None, "files with other names were set aside"
            end, error = self._end_of_swapped(name, first)
            path = f"{self.directory}/{name}"
            if error and segment_file_name(first, LOG_SUFFIX) in present:
                # The oldest segment is renamed first: as long as it exists, so do the others.
                self.trace("storage_swap_corrupt", path=path, error=error, consequence="it is dropped, nothing is lost")
                self._drop_swap(first, present)
                continue
            if error:
                self.trace("storage_swap_corrupt", path=path, error=error, consequence="what follows it may be lost")
            for old in sorted(present):
                base = _base_offset(old)
                if base is not None and first <= base < end and old.endswith(SEGMENT_SUFFIXES):
                    self._rename_and_delete(old)
                    present.discard(old)
        for name in swaps:
            if name not in present:
                continue
            final = name.removesuffix(SWAP_SUFFIX)
            self.disk.rename(f"{self.directory}/{name}", f"{self.directory}/{final}")
            present.discard(name)
            present.add(final)
            self.trace("storage_swap_finished", path=f"{self.directory}/{final}")

    def _drop_swap(self, base_offset: int, present: set[str]) -> None:
        for name in sorted(present):
            if name.endswith(SWAP_SUFFIX) and _base_offset(name) == base_offset:
                self._rename_and_delete(name)
                present.discard(name)

    def _end_of_swapped(self, name: str, first: int) -> tuple[int, str]:
        """The end offset of a cleaned segment, and the error if it is damaged."""
        file = self.disk.open(f"{self.directory}/{name}")
        end = first
        try:
            for _, header in scan_batches(file, 0, file.size()):
                end = header.next_offset
        except CorruptBatch as error:
            return end, str(error)
        finally:
            file.close()
        return end, ""

    def _end_of_clean(self, segments: list[Segment]) -> int | None:
        """The end offset of a cleanly closed log; None if it was not closed cleanly after all.

        A clean shutdown checkpoints the log's end as its recovery point, so the two must be equal.
        """
        end_offset, error = 0, ""
        if segments:
            try:
                end_offset = segments[-1].load_end()
            except CorruptBatch as corrupt:
                error = str(corrupt)
        if not error and self.durable_end not in (UNKNOWN, end_offset):
            error = f"the log was closed at offset {self.durable_end}, and ends at {end_offset}"
        if error:
            self.trace("storage_clean_log_corrupt", path=self.directory, error=error)
            return None
        self._trace_holes(segments)
        return end_offset

    def _recover_from(self, segments: list[Segment], recovery_point: int) -> int:
        """Recover the part that may not have been flushed; returns the end offset of the log."""
        first = next((at for at in reversed(range(len(segments))) if segments[at].base_offset <= recovery_point), 0)
        end_offset = segments[first].base_offset if segments else 0
        self._trace_holes(segments[: first + 1])
        # The epoch checkpoint may be older than the log; the epochs of this part are taken from the batches.
        self.epochs.truncate_from_end(end_offset)
        for at in range(first, len(segments)):
            segment = segments[at]
            is_apart = segment.base_offset > end_offset
            if segment.base_offset < end_offset or (is_apart and not self._may_be_apart(segments[at - 1], segment)):
                reason = (
                    f"the segment begins at offset {segment.base_offset}, and the one before it ends at {end_offset}"
                )
                self._cut = cut_before(segments[at:], end_offset, reason)
                self._drop(segments, at)
                break
            end_offset, cut = self._recover_segment(segment, segments[at + 1 :])
            if cut:
                self.trace("storage_segment_cut", path=segment.path, end_offset=end_offset, bytes=cut)
                self._drop(segments, at + 1)
                break
            if at + 1 < len(segments):
                segment.seal()
                segment.release()
        return end_offset

    def _trace_holes(self, segments: Sequence[Segment]) -> None:
        """Trace records that are missing between trusted segments, for example after a file was deleted.

        Nothing is cut: the segments after the hole are intact, and were durable.
        """
        if self.allows_gaps:
            return
        for before, after in pairwise(segments):
            try:
                end_offset = before.load_end()
            except CorruptBatch as error:
                self.trace(
                    "storage_segment_damaged",
                    partition=self.partition,
                    from_offset=before.base_offset,
                    to_offset=after.base_offset - 1,
                    path=before.path,
                    reason=str(error),
                )
                continue
            finally:
                before.release()  # a log may have more segments than the process has file descriptors
            if end_offset < after.base_offset:
                reason = f"{before.path} ends at offset {end_offset}, and {after.path} begins at {after.base_offset}"
                self._trace_missing_records(end_offset, after.base_offset, reason)

    def _may_be_apart(self, before: Segment, segment: Segment) -> bool:
        """Whether a gap between two segments is a gap that compaction has left.

        Otherwise the first segment has lost its end, at the end of a batch. Only durable segments are compacted, and
        only once the recovery point is after them.
        """
        if not self.allows_gaps:
            return False
        is_durable = self.durable_end == UNKNOWN or segment.base_offset <= self.durable_end
        return is_durable or before.base_offset < self.cleaned_offset

    def _recover_segment(self, segment: Segment, later: Sequence[Segment]) -> tuple[int, int]:
        """Read a segment, and cut it at the first bad batch; returns its end and the bytes cut. Raises OSError."""
        segment.begin_recovery()
        segment.is_new = True  # the process that created it may have ended before its directory was synced
        end_offset = segment.base_offset
        # Compaction leaves gaps between offsets, but never in the last segment. Elsewhere a gap is damage to a base
        # offset, which is the part of a batch that its checksum does not cover.
        allows_gaps = self.allows_gaps or bool(later)
        reason = ""
        try:
            for _, header in scan_batches(segment.file, 0, segment.written):
                _check_follows(header, end_offset, segment, allows_gaps=allows_gaps)
                segment.append(header.last_offset, header.max_timestamp, header.size)
                end_offset = header.next_offset
                if header.partition_leader_epoch > self.epochs.latest_epoch:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        except CorruptBatch as error:
            reason = str(error)
        if segment.size_bytes < segment.written:
            self._cut = cut_within(segment, later, end_offset, reason)
            self._mark()
        return end_offset, segment.finish_recovery()

    def _drop(self, segments: list[Segment], first: int) -> None:
        for segment in segments[first:]:
            self._mark()
            self.trace("storage_segment_dropped", path=segment.path)
            for path in segment.delete():
                self.discard(path)
        del segments[first:]

    def _trace_missing_records(self, from_offset: int, to_offset: int, reason: str) -> None:
        lost = LostRecords(from_offset, to_offset, is_known=True)
        self.trace(
            "storage_records_missing", partition=self.partition, lost=str(lost), path=self.directory, reason=reason
        )

    def _mark(self) -> None:
        if not self.has_cut:
            mark_unsettled(self.disk, self.directory)
            self.has_cut = True

    def _rename_and_delete(self, name: str) -> None:
        path = f"{self.directory}/{name}"
        self.disk.rename(path, path + DELETED_SUFFIX)
        self.discard(path + DELETED_SUFFIX)


def _check_follows(header: BatchHeader, end_offset: int, segment: Segment, *, allows_gaps: bool) -> None:
    if header.base_offset < end_offset or (header.base_offset > end_offset and not allows_gaps):
        raise CorruptBatch(f"A batch with base offset {header.base_offset} cannot follow at {end_offset}")
    if header.last_offset_delta < 0 or header.count < 0 or header.count > header.last_offset_delta + 1:
        raise CorruptBatch(f"A batch claims {header.count} records and a last offset delta {header.last_offset_delta}")
    if header.last_offset > segment.offset_max:
        raise CorruptBatch(f"Offset {header.last_offset} is out of the range of the segment {segment.base_offset}")


def _base_offset(name: str) -> int | None:
    """The offset at the start of a file's name; None if it is not the name of a segment file."""
    digits = name[:_OFFSET_DIGITS]
    is_offset = len(digits) == _OFFSET_DIGITS and digits.isdecimal() and digits.isascii()
    if not is_offset or name[_OFFSET_DIGITS : _OFFSET_DIGITS + 1] != ".":
        return None
    offset = int(digits)
    return offset if offset < MAX_LONG else None
