"""The settings of a node's storage: its log directories, and how often their logs are checked and checkpointed."""

from kraft import lazy_attrs
from metadata.configuration import BrokerConfigs
from metadata.configuration.settings import from_key


@lazy_attrs.frozen
class LogManagerConfig:
    """`directories` are absolute. Partitions are stored in `metadata_directory` only if `directories` has it."""

    directories: tuple[str, ...]
    node_id: int
    metadata_directory: str | None = None
    initial_task_delay_ms: int = from_key(BrokerConfigs.log_initial_task_delay_ms)
    retention_check_interval_ms: int = from_key(BrokerConfigs.log_retention_check_interval_ms)
    flush_scheduler_interval_ms: int = from_key(BrokerConfigs.log_flush_scheduler_interval_ms)
    recovery_point_checkpoint_interval_ms: int = from_key(BrokerConfigs.log_flush_offset_checkpoint_interval_ms)
    log_start_offset_checkpoint_interval_ms: int = from_key(BrokerConfigs.log_flush_start_offset_checkpoint_interval_ms)
    high_watermark_checkpoint_interval_ms: int = from_key(BrokerConfigs.replica_high_watermark_checkpoint_interval_ms)
    producer_expiration_ms: int = from_key(BrokerConfigs.producer_id_expiration_ms)
    producer_expiration_check_interval_ms: int = from_key(BrokerConfigs.producer_id_expiration_check_interval_ms)
