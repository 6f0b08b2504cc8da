"""Deletes records from the front of a partition, on all its replicas (KIP-107)."""

from broker.replication.leader_role import LeaderRole
from broker.replication.partition import Partition
from broker.storage.log import Log
from broker.wire.errors import ErrorCode, KafkaError


def low_watermark(partition: Partition, log: Log) -> int:
    """The lowest log start offset of the leader and its followers whose brokers are not fenced.

    The records before it are gone from all these replicas, so it does not matter which of them becomes the leader. A
    fenced broker's replica deletes them when it follows again.
    """
    lowest = log.log_start_offset
    if isinstance(partition.role, LeaderRole):
        for follower in partition.role.in_sync.followers.values():
            broker = partition.context.broker(follower.broker_id)
            if broker is not None and not broker.fenced:
                lowest = min(lowest, follower.log_start_offset)
    return lowest


def delete_before(partition: Partition, log: Log, offset: int) -> None:
    """Move the log start offset of the leader's log to `offset`, and let followers fetch it at once.

    Raises KafkaError OFFSET_OUT_OF_RANGE if `offset` is above the high watermark, and OSError.
    """
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the high watermark of {partition}")
    log.advance_log_start_offset(offset)
    partition.waiters.notify_log_end(partition)
