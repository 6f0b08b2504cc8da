"""What a follower does with what its leader answers: append, learn what is committed, drop what the leader lacks.

Each function is told under which leader epoch the leader was asked. A replica that has heard of a later one acts upon
nothing of that: KafkaError is raised, and nothing has changed.
"""

from broker.replication.partition import Partition


def follow_append(
    partition: Partition,
    leader_epoch: int,
    records: memoryview,
    *,
    leader_high_watermark: int,
    leader_log_start_offset: int,
    now_ms: int,
) -> None:
    """Append what the leader has sent, perhaps nothing, and learn from it what is committed and what is deleted.

    Raises KafkaError as `Partition.follower_log` and `Log.append_as_follower` do, OSError.
    """
    log = partition.follower_log(leader_epoch)
    if records:
        log.append_as_follower(records, leader_epoch, now_ms)
    partition.agrees_with_leader = True
    committed = min(leader_high_watermark, log.readable_end_offset)
    if committed > partition.high_watermark:
        partition.follow_high_watermark(log, committed)
    log.advance_log_start_offset(min(leader_log_start_offset, partition.high_watermark))


def truncate(partition: Partition, leader_epoch: int, diverging_epoch: int, end_offset: int) -> int:
    """Drop what the leader does not have, where `diverging_epoch` ends at `end_offset`; where the log ends now.

    What is kept ends where one of the two has no more of the latest epoch that both may have (KIP-595).
    Raises KafkaError as `Partition.follower_log` does, OSError.
    """
    log = partition.follower_log(leader_epoch)
    own_epoch, own_end_offset = log.epochs.end_offset_for(diverging_epoch, log.log_end_offset)
    offset = end_offset if own_epoch < 0 else min(end_offset, own_end_offset)
    _trace_truncation(partition, offset)
    log.truncate_to(offset)
    # Also where it stays: the producers' state was rebuilt and does not know yet which transactions are replicated.
    partition.follow_high_watermark(log, min(partition.high_watermark, log.log_end_offset))
    return log.log_end_offset


def restart_at(partition: Partition, leader_epoch: int, offset: int) -> None:
    """Drop everything, and begin anew at `offset`, where the leader's log begins. Raises KafkaError, OSError."""
    log = partition.follower_log(leader_epoch)
    if offset < log.log_end_offset:
        _trace_truncation(partition, offset)
    log.truncate_fully_and_start_at(offset)
    partition.follow_high_watermark(log, offset)


def _trace_truncation(partition: Partition, offset: int) -> None:
    """No rule has a follower drop what is committed, unless an election was unclean."""
    if offset < partition.high_watermark:
        partition.trace("committed_truncated", offset=offset, high_watermark=partition.high_watermark)
    else:
        partition.trace("partition_truncated", offset=offset)
