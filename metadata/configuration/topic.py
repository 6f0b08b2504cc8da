"""The keys of a topic. Most are keys of the broker under another name; the broker's value is then the default."""

from metadata.configuration.broker import BrokerConfigs
from metadata.configuration.definition import ConfigDef, ConfigValues, from_broker, key, synonym
from metadata.configuration.validators import at_least, throttled_replicas
from metadata.configuration.vocabulary import (
    BOOLEAN,
    DAY_MS,
    HOUR_MS,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    MEDIUM,
    MINUTE_MS,
)


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class TopicConfigs(ConfigValues):
    """The keys of a topic."""

    segment_bytes = from_broker(BrokerConfigs.log_segment_bytes,
        doc="Size at which a segment is closed and a new one begun. Retention and compaction work on closed segments.")
    segment_ms = key(LONG, 7 * DAY_MS, at_least(1), MEDIUM,
        "Age in ms at which a segment that holds records is closed, full or not, so that retention can reach it.",
        synonyms=(synonym(BrokerConfigs.log_roll_ms), synonym(BrokerConfigs.log_roll_hours, HOUR_MS)))
    segment_jitter_ms = key(LONG, 0, at_least(0), MEDIUM,
        "Up to this many ms, at random, are taken off segment.ms, so that segments do not all roll at once.",
        synonyms=(synonym(BrokerConfigs.log_roll_jitter_ms), synonym(BrokerConfigs.log_roll_jitter_hours, HOUR_MS)))
    segment_index_bytes = from_broker(BrokerConfigs.log_index_size_max_bytes)
    flush_messages = from_broker(BrokerConfigs.log_flush_interval_messages,
        doc="After this many records the log is fsynced. Replication is the usual protection.")
    flush_ms = key(LONG, LONG_MAX, at_least(0), MEDIUM,
        "Records reach the disk by fsync after at most this many ms. Replication is the usual protection.",
        synonyms=(synonym(BrokerConfigs.log_flush_interval_ms), synonym(BrokerConfigs.log_flush_scheduler_interval_ms)))
    retention_bytes = from_broker(BrokerConfigs.log_retention_bytes)
    retention_ms = key(LONG, 7 * DAY_MS, at_least(-1), MEDIUM,
        "Age in ms above which segments are deleted; -1 is no limit.",
        synonyms=(
            synonym(BrokerConfigs.log_retention_ms),
            synonym(BrokerConfigs.log_retention_minutes, MINUTE_MS),
            synonym(BrokerConfigs.log_retention_hours, HOUR_MS),
        ))
    max_message_bytes = from_broker(BrokerConfigs.message_max_bytes,
        doc="Largest record batch that is accepted, as it is stored: compressed where it is compressed.")
    max_decompressed_message_bytes = from_broker(BrokerConfigs.max_decompressed_message_bytes)
    index_interval_bytes = from_broker(BrokerConfigs.log_index_interval_bytes)
    delete_retention_ms = from_broker(BrokerConfigs.log_cleaner_delete_retention_ms,
        doc="How long in ms compaction keeps a tombstone, so that a reader from the start still sees the deletion.")
    min_compaction_lag_ms = from_broker(BrokerConfigs.log_cleaner_min_compaction_lag_ms)
    max_compaction_lag_ms = from_broker(BrokerConfigs.log_cleaner_max_compaction_lag_ms)
    file_delete_delay_ms = from_broker(BrokerConfigs.log_segment_delete_delay_ms)
    min_cleanable_dirty_ratio = from_broker(BrokerConfigs.log_cleaner_min_cleanable_ratio)
    cleanup_policy = from_broker(BrokerConfigs.log_cleanup_policy)
    unclean_leader_election_enable = from_broker(BrokerConfigs.unclean_leader_election_enable)
    min_insync_replicas = from_broker(BrokerConfigs.min_insync_replicas)
    compression_type = from_broker(BrokerConfigs.compression_type)
    compression_gzip_level = from_broker(BrokerConfigs.compression_gzip_level)
    compression_lz4_level = from_broker(BrokerConfigs.compression_lz4_level)
    compression_zstd_level = from_broker(BrokerConfigs.compression_zstd_level)
    preallocate = from_broker(BrokerConfigs.log_preallocate)
    message_timestamp_type = from_broker(BrokerConfigs.log_message_timestamp_type)
    message_timestamp_before_max_ms = from_broker(BrokerConfigs.log_message_timestamp_before_max_ms)
    message_timestamp_after_max_ms = from_broker(BrokerConfigs.log_message_timestamp_after_max_ms)
    leader_replication_throttled_replicas = key(LIST, (), throttled_replicas, MEDIUM,
        "Replicas whose replication is throttled at the leader, as partition:broker, or *.", may_repeat=True)
    follower_replication_throttled_replicas = key(LIST, (), throttled_replicas, MEDIUM,
        "Replicas whose replication is throttled at the follower, as partition:broker, or *.", may_repeat=True)
    remote_storage_enable = key(BOOLEAN, False, None, MEDIUM,
        "Whether closed segments are copied to the remote tier.",
        takes_effect=False)
    local_retention_ms = from_broker(BrokerConfigs.log_local_retention_ms,
        doc="With a remote tier, age in ms above which local segments are deleted; -2 takes retention.ms.",
        takes_effect=False)
    local_retention_bytes = from_broker(BrokerConfigs.log_local_retention_bytes,
        doc="With a remote tier, size above which local segments are deleted; -2 takes retention.bytes.",
        takes_effect=False)
    remote_copy_lag_ms = from_broker(BrokerConfigs.log_remote_copy_lag_ms,
        doc="With a remote tier, age in ms from which on closed segments are copied; -1 takes local.retention.ms.",
        takes_effect=False)
    remote_copy_lag_bytes = from_broker(BrokerConfigs.log_remote_copy_lag_bytes,
        doc="With a remote tier, size of newer data from which on closed segments are copied; -1 takes "
        "local.retention.bytes.", takes_effect=False)
    errors_deadletterqueue_group_enable = key(BOOLEAN, False, None, MEDIUM,
        "Whether share groups may use the topic as their dead-letter queue (KIP-1191).")
    remote_log_copy_disable = key(BOOLEAN, False, None, MEDIUM,
        "With a remote tier, stop copying to it: what is there becomes read-only.", takes_effect=False)
    remote_log_delete_on_disable = key(BOOLEAN, False, None, MEDIUM,
        "Whether turning the remote tier off deletes what it holds of this topic.", takes_effect=False)
    internal_segment_bytes = key(INT, None, None, MEDIUM,
        "Segment size for tests, below what segment.bytes allows.", internal=True)
# fmt: on

TOPIC_CONFIGS = ConfigDef(TopicConfigs)
