"""Finds the part of a log that may be cleaned, and whether that is due, by the rules of Kafka's LogCleanerManager."""

from collections.abc import Sequence

from broker.storage.log import Log
from broker.storage.log_config import MAX_LONG
from broker.storage.segment import Segment
from kraft import lazy_attrs


@lazy_attrs.frozen
class LogToClean:
    """The part of a log that can be cleaned: up to `end`, with the dirty part from `first_dirty` on.

    Both are offsets; `end` is the start of a segment. Sizes are those of segments; a partly dirty segment counts as
    dirty.
    """

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        """The dirty share of the part that can be cleaned."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, min_ratio: float) -> bool:
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > min_ratio)


def find_log_to_clean(log: Log, *, high_watermark: int, now_ms: int) -> LogToClean:
    """The part of a log that can be cleaned now. Raises OSError, CorruptBatch."""
    first_dirty = log.cleaned_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    segments = log.segments
    end_at = segments.floor_index(_stable_offset(log, high_watermark))
    first_at = min(segments.floor_index(first_dirty), end_at)
    dirty = [segments[at] for at in range(first_at, end_at)]
    end_at = first_at + _old_enough(dirty, log, now_ms)
    dirty = dirty[: end_at - first_at]
    return LogToClean(
        first_dirty=first_dirty,
        end=segments[end_at].base_offset,
        clean_bytes=sum(segments[at].size_bytes for at in range(first_at)),
        dirty_bytes=sum(segment.size_bytes for segment in dirty),
        is_overdue=_is_overdue(dirty, log, now_ms),
    )


def _stable_offset(log: Log, high_watermark: int) -> int:
    """The end of the records that are committed and not part of an open transaction; later ones are not cleaned."""
    unstable = log.producers.first_unstable_offset
    committed = min(high_watermark, log.readable_end_offset)
    return committed if unstable is None else min(committed, unstable)


def _old_enough(segments: Sequence[Segment], log: Log, now_ms: int) -> int:
    """The number of segments, from the first on, whose records are all older than min.compaction.lag.ms."""
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for count, segment in enumerate(segments):
            if segment.retention_timestamp > now_ms - lag_ms:
                return count
    return len(segments)


def _is_overdue(segments: Sequence[Segment], log: Log, now_ms: int) -> bool:
    """Whether a segment has been dirty for longer than max.compaction.lag.ms."""
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == MAX_LONG:
        return False
    return any(0 < segment.first_timestamp() < now_ms - lag_ms for segment in segments)
