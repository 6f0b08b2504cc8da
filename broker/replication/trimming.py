"""Deleting records from the front of a partition, on all of its replicas (KIP-107)."""

from broker.replication.partition import Partition
from broker.storage.log import Log
from broker.wire.errors import ErrorCode, KafkaError


def low_watermark(partition: Partition, log: Log) -> int:
    """Where the records begin on the replica that has deleted the fewest, of those that are alive.

    What lies before it is gone, and does not come back whoever leads. One that is away deletes when it comes back.
    """
    lowest = log.log_start_offset
    if partition.in_sync is not None:
        for follower in partition.in_sync.followers.values():
            broker = partition.surroundings.broker(follower.broker_id)
            if broker is not None and not broker.fenced:
                lowest = min(lowest, follower.log_start_offset)
    return lowest


def delete_before(partition: Partition, log: Log, offset: int) -> None:
    """Have the leader's log begin here, and its followers hear of that at once.

    Raises KafkaError OFFSET_OUT_OF_RANGE for what is not committed, and OSError.
    """
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the high watermark of {partition}")
    log.advance_log_start_offset(offset)
    partition.wake_tailing()
