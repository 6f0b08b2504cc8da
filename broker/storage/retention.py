"""Which of a log's oldest segments are due for deletion, by the rules of Kafka's UnifiedLog.deleteOldSegments.

Only a prefix of the segments goes, and of that only what lies below the high watermark: what is not replicated yet is
not deleted, however old.
"""

from collections.abc import Callable

from broker.storage.log_config import LogConfig
from broker.storage.segments import Segments


def deletable_segments(
    segments: Segments,
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many segments from the first on may be deleted; all of them only if the active one holds records.

    Three reasons count, one after the other: they lie before the log start offset; the log is larger than
    retention.bytes without them; all their records are older than retention.ms. The latter two only where
    cleanup.policy says delete. Raises OSError.
    """

    def prefix(first: int, is_due: Callable[[int], bool]) -> int:
        count = first
        for at in range(first, len(segments)):
            is_last = at + 1 == len(segments)
            end_offset = log_end_offset if is_last else segments[at + 1].base_offset
            if end_offset > high_watermark or (is_last and segments[at].size_bytes == 0) or not is_due(at):
                break
            count = at + 1
        return count

    count = prefix(0, lambda at: at + 1 < len(segments) and segments[at + 1].base_offset <= log_start_offset)
    if not config.delete_enabled:
        return count
    if config.retention_bytes >= 0:
        excess = segments.size_bytes - sum(segments[at].size_bytes for at in range(count)) - config.retention_bytes

        def is_excess(at: int) -> bool:
            nonlocal excess
            excess -= segments[at].size_bytes
            return excess >= 0

        count = prefix(count, is_excess)
    if config.retention_ms >= 0:
        count = prefix(count, lambda at: now_ms - segments[at].retention_timestamp > config.retention_ms)
    return count
