"""Applies a leader's fetch responses to a follower: append, take over the high watermark, truncate.

Each function gets the leader epoch under which the leader was asked. A replica that knows a later epoch by now must not
act on the response: the functions raise KafkaError then and change nothing.
"""

from broker.replication.partition import Partition
from broker.storage.log import Log


def append_fetched(
    partition: Partition,
    leader_epoch: int,
    records: memoryview,
    *,
    leader_high_watermark: int,
    leader_log_start_offset: int,
    now_ms: int,
) -> None:
    """Append the fetched records, which may be empty, and take over the leader's high watermark and log start offset.

    Raises KafkaError as `Partition.follower_log` and `Log.append_as_follower` do, OSError.
    """
    log = partition.follower_log(leader_epoch)
    if records:
        segments = log.segments
        before = segments.records_written, segments.bytes_written
        log.append_as_follower(records, leader_epoch, now_ms)
        partition.replication_bytes_in += segments.bytes_written - before[1]
        segments.records_written, segments.bytes_written = before  # these count what clients append
    partition.agrees_with_leader = True
    committed = min(leader_high_watermark, log.readable_end_offset)
    if committed > partition.high_watermark:
        partition.move_high_watermark(log, committed)
    log.advance_log_start_offset(min(leader_log_start_offset, partition.high_watermark))


def truncate(partition: Partition, leader_epoch: int, diverging_epoch: int, end_offset: int) -> int:
    """Drop the records that the leader does not have; returns the new log end offset.

    In the leader's log `diverging_epoch` ends at `end_offset`. The follower keeps its log up to there, or up to the end
    of that epoch in its own log if that comes first (KIP-595). Raises KafkaError as `Partition.follower_log` does,
    OSError.
    """
    log = partition.follower_log(leader_epoch)
    offset = _truncation_offset(log, diverging_epoch, end_offset)
    _trace_truncation(partition, offset)
    log.truncate_to(offset)
    # Needed even if the offset stays: the producers' states were reloaded and do not know what is replicated.
    partition.move_high_watermark(log, min(partition.high_watermark, log.log_end_offset))
    return log.log_end_offset


def _truncation_offset(log: Log, diverging_epoch: int, end_offset: int) -> int:
    own_epoch, own_end_offset = log.epochs.end_offset_for(diverging_epoch, log.log_end_offset)
    return end_offset if own_epoch < 0 else min(end_offset, own_end_offset)


def restart_at(partition: Partition, leader_epoch: int, offset: int) -> None:
    """Drop all records, and start again at `offset`, where the leader's log begins. Raises KafkaError, OSError."""
    log = partition.follower_log(leader_epoch)
    if offset < log.log_end_offset:
        _trace_truncation(partition, offset)
    log.truncate_fully_and_start_at(offset)
    partition.move_high_watermark(log, offset)


def _trace_truncation(partition: Partition, offset: int) -> None:
    """Trace a truncation; one below the high watermark only follows an unclean election."""
    if offset < partition.high_watermark:
        partition.trace("committed_truncated", offset=offset, high_watermark=partition.high_watermark)
    else:
        partition.trace("partition_truncated", offset=offset)
