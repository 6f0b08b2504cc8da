"""What a node's storage is configured with: where its log directories are, and how often its logs are looked after."""

import attrs

from broker.storage.log_config import MAX_LONG


@attrs.frozen
class LogDirsConfig:
    """Where the logs are and how often they are looked after; Kafka's names of the configs beside each."""

    directories: tuple[str, ...]  # log.dirs; absolute
    node_id: int  # node.id
    metadata_directory: str | None = None  # metadata.log.dir; claimed too, and partitions go there only if in log.dirs
    initial_task_delay_ms: int = 30_000  # log.initial.task.delay.ms
    retention_check_interval_ms: int = 300_000  # log.retention.check.interval.ms
    flush_scheduler_interval_ms: int = MAX_LONG  # log.flush.scheduler.interval.ms
    recovery_point_checkpoint_interval_ms: int = 60_000  # log.flush.offset.checkpoint.interval.ms
    log_start_offset_checkpoint_interval_ms: int = 60_000  # log.flush.start.offset.checkpoint.interval.ms
    high_watermark_checkpoint_interval_ms: int = 5_000  # replica.high.watermark.checkpoint.interval.ms
    producer_expiration_ms: int = 86_400_000  # producer.id.expiration.ms
    producer_expiration_check_interval_ms: int = 600_000  # producer.id.expiration.check.interval.ms
