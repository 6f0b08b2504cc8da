"""The offset at which a share group begins in a partition, by `share.auto.offset.reset` (KIP-932, KIP-1106)."""

from collections.abc import Generator

from broker.replication.partition import Partition
from broker.share_partitions.settings import DeliverySettings
from broker.storage.timestamp_search import search_timestamp
from broker.wire.errors import ErrorCode, KafkaError


def find_start_offset(
    partition: Partition, leader_epoch: int, settings: DeliverySettings, wall_ms: int
) -> Generator[None, None, int]:
    """Find the offset, in steps. A time after the last record stands for the end of the committed records.

    Raises KafkaError: as `Partition.leader_log` does, and OFFSET_NOT_AVAILABLE while a new leader does not know the
    high watermark yet (KIP-207).
    """
    log = partition.leader_log(leader_epoch)
    if settings.offset_reset == "earliest":
        return log.log_start_offset
    duration_ms = settings.reset_before_ms
    found = None if duration_ms is None else (yield from search_timestamp(log, max(0, wall_ms - duration_ms)))
    partition.leader_log(leader_epoch)
    end = partition.high_watermark
    if found is not None and found.offset < end:
        return found.offset
    if not partition.role.knows_committed:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition} has a new leader")
    return end
