"""The remote tier (RemoteLogManagerConfig in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least, between, non_empty
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    GIB,
    INT,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    MINUTE_MS,
    STRING,
)


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class RemoteLogConfigs(ConfigValues):
    """The remote tier."""

    remote_log_storage_system_enable = key(BOOLEAN, False, None, MEDIUM,
        "Whether the remote tier (KIP-405) is on.", takes_effect=False)
    remote_log_storage_manager_impl_prefix = key(STRING, "rsm.config.", non_empty, MEDIUM,
        "Prefix of the configuration that the storage manager gets.", takes_effect=False)
    remote_log_metadata_manager_impl_prefix = key(STRING, "rlmm.config.", non_empty, MEDIUM,
        "Prefix of the configuration that the metadata manager gets.", takes_effect=False)
    remote_log_storage_manager_class_name = key(STRING, None, non_empty, MEDIUM,
        "The class that stores segments in the remote tier.", takes_effect=False)
    remote_log_storage_manager_class_path = key(STRING, None, None, MEDIUM,
        "Class path of the storage manager.", takes_effect=False)
    remote_log_metadata_manager_class_name = key(STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", non_empty, MEDIUM,
        "The class that keeps account of the remote tier.", takes_effect=False)
    remote_log_metadata_manager_class_path = key(STRING, None, None, MEDIUM,
        "Class path of the metadata manager.", takes_effect=False)
    remote_log_metadata_manager_listener_name = key(STRING, None, non_empty, MEDIUM,
        "Listener over which the metadata manager connects.", takes_effect=False)
    remote_log_metadata_custom_metadata_max_bytes = key(INT, 128, at_least(0), LOW,
        "Largest metadata of a storage manager's own that is kept for a segment.", takes_effect=False)
    remote_log_index_file_cache_total_size_bytes = key(LONG, GIB, at_least(1), LOW,
        "Disk space for indexes fetched from the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_log_index_file_cache_ttl_ms = key(LONG, 15 * MINUTE_MS, at_least(-1), LOW,
        "How long in ms an unused index of the remote tier stays in the cache; -1 is no limit.", internal=True,
        takes_effect=False)
    remote_log_manager_follower_thread_pool_size = key(INT, 2, at_least(1), MEDIUM,
        "Threads in Apache Kafka for what followers do about the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_log_manager_thread_pool_size = key(INT, 2, at_least(1), MEDIUM,
        "Threads that plan the work of the remote tier.", takes_effect=False)
    remote_log_manager_copier_thread_pool_size = key(INT, 10, at_least(1), MEDIUM,
        "Threads that copy segments to the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_log_manager_expiration_thread_pool_size = key(INT, 10, at_least(1), MEDIUM,
        "Threads that delete segments from the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_log_manager_task_interval_ms = key(LONG, 30_000, at_least(1), LOW,
        "How often in ms the remote tier's work is done.", takes_effect=False)
    remote_log_manager_task_retry_backoff_ms = key(LONG, 500, at_least(1), LOW,
        "First pause in ms after the remote tier's work has failed.", internal=True, takes_effect=False)
    remote_log_manager_task_retry_backoff_max_ms = key(LONG, 30_000, at_least(1), LOW,
        "Longest pause in ms after the remote tier's work has failed.", internal=True, takes_effect=False)
    remote_log_manager_task_retry_jitter = key(DOUBLE, 0.2, between(0, 0.5), LOW,
        "Share of random time that is added to or taken off that pause.", internal=True, takes_effect=False)
    remote_log_reader_threads = key(INT, 10, at_least(1), MEDIUM,
        "Threads that read from the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_log_reader_max_pending_tasks = key(INT, 100, at_least(1), MEDIUM,
        "Reads of the remote tier that may wait.", takes_effect=False)
    log_local_retention_ms = key(LONG, -2, at_least(-2), MEDIUM,
        "With a remote tier, age in ms above which local segments go; -2 takes log.retention.ms.", CLUSTER_WIDE,
        takes_effect=False)
    log_local_retention_bytes = key(LONG, -2, at_least(-2), MEDIUM,
        "With a remote tier, size above which local segments go; -2 takes log.retention.bytes.", CLUSTER_WIDE,
        takes_effect=False)
    log_remote_copy_lag_ms = key(LONG, 0, at_least(-1), MEDIUM,
        "With a remote tier, age in ms from which on closed segments are copied; -1 takes log.local.retention.ms.",
        CLUSTER_WIDE, takes_effect=False)
    log_remote_copy_lag_bytes = key(LONG, -1, at_least(-1), MEDIUM,
        "With a remote tier, size of newer data from which on closed segments are copied; -1 takes "
        "log.local.retention.bytes.", CLUSTER_WIDE, takes_effect=False)
    remote_log_manager_copy_max_bytes_per_second = key(LONG, LONG_MAX, at_least(1), MEDIUM,
        "Bytes per second that are copied to the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_log_manager_copy_quota_window_num = key(INT, 11, at_least(1), MEDIUM,
        "Samples that are kept for that limit.", takes_effect=False)
    remote_log_manager_copy_quota_window_size_seconds = key(INT, 1, at_least(1), MEDIUM,
        "Length in seconds of such a sample.", takes_effect=False)
    remote_log_manager_fetch_max_bytes_per_second = key(LONG, LONG_MAX, at_least(1), MEDIUM,
        "Bytes per second that are fetched from the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_log_manager_fetch_quota_window_num = key(INT, 11, at_least(1), MEDIUM,
        "Samples that are kept for that limit.", takes_effect=False)
    remote_log_manager_fetch_quota_window_size_seconds = key(INT, 1, at_least(1), MEDIUM,
        "Length in seconds of such a sample.", takes_effect=False)
    remote_fetch_max_wait_ms = key(INT, 500, at_least(1), MEDIUM,
        "How long in ms a fetch waits for the remote tier.", CLUSTER_WIDE, takes_effect=False)
    remote_list_offsets_request_timeout_ms = key(LONG, 30_000, at_least(1), MEDIUM,
        "How long in ms a ListOffsets request waits for the remote tier.", CLUSTER_WIDE, takes_effect=False)
# fmt: on
