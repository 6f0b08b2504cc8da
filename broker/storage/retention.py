"""Deletes a log's oldest segments by retention.ms, retention.bytes and the log start offset.

The rules are those of Kafka's UnifiedLog.deleteOldSegments. Only a prefix of the segments is deleted, and only below
the high watermark: records that are not replicated yet are kept, however old they are.
"""

from collections.abc import Callable

from broker.storage.log import Log
from broker.storage.log_config import LogConfig
from broker.storage.segment_list import SegmentList


def delete_old_segments(log: Log, now_ms: int, high_watermark: int) -> list[str]:
    """Delete the segments that retention or the log start offset make due.

    Returns `Log.take_discarded`, whose files are to be removed after file.delete.delay.ms. Raises OSError.
    """
    if not log.segments.is_empty:
        _delete_due_segments(log, now_ms, high_watermark)
        if not log.staged:
            log.segments.release()  # otherwise every segment that was ever read would keep a file descriptor
    return log.take_discarded()


def _delete_due_segments(log: Log, now_ms: int, high_watermark: int) -> None:
    count = deletable_segments(
        log.segments,
        log.config,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )
    if count == 0:
        return
    if count == len(log.segments):
        log.roll(now_ms)
    log.advance_log_start_offset(log.segments[count].base_offset)
    log.segments.delete_first(count)
    log.producers.snapshots.delete_before(log.segments.first_offset)


def deletable_segments(
    segments: SegmentList,
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """The number of oldest segments that may be deleted; includes the active one only if it holds records.

    A segment is due if it ends before the log start offset. If cleanup.policy contains "delete", it is also due if the
    log without it is still larger than retention.bytes, or if its records are all older than retention.ms.
    Raises OSError.
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
