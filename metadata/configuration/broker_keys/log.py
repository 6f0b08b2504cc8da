"""Logs, their retention and their compaction (ServerLogConfigs and CleanerConfig in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least, between, each_of, no_empty_elements, no_empty_names, one_of
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DAY_MS,
    DOUBLE,
    DOUBLE_MAX,
    GIB,
    HIGH,
    HOUR_MS,
    INT,
    KIB,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    PER_BROKER,
    STRING,
)
from metadata.protocol import ConfigType


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class LogConfigs(ConfigValues):
    """Logs, retention and compaction."""

    log_dir = key(STRING, "/tmp/kafka-logs", no_empty_names, HIGH,
        "The log directory, where log.dirs is not set.", described_as=ConfigType.LIST)
    log_dirs = key(STRING, None, no_empty_names, HIGH,
        "Directories that hold partitions, separated by commas; none within another.", described_as=ConfigType.LIST)
    cordoned_log_dirs = key(LIST, (), no_empty_elements, MEDIUM,
        "Directories that get no new partitions, or * for all (KIP-1066).", PER_BROKER)
    num_partitions = key(INT, 1, at_least(1), MEDIUM,
        "Partitions of a topic that is created without saying how many.")
    auto_create_topics_enable = key(BOOLEAN, True, None, HIGH,
        "Whether asking for a topic that does not exist may create it.")
    log_segment_bytes = key(INT, GIB, at_least(MIB), HIGH,
        "Size at which a segment is closed and a new one begun.", CLUSTER_WIDE)
    log_roll_ms = key(LONG, None, None, HIGH,
        "Age in ms at which a segment is closed, full or not; not set, log.roll.hours counts.", CLUSTER_WIDE)
    log_roll_hours = key(INT, 168, at_least(1), HIGH,
        "Age in hours at which a segment is closed, where log.roll.ms is not set.")
    log_roll_jitter_ms = key(LONG, None, None, HIGH,
        "Most ms that chance takes off the roll time; not set, log.roll.jitter.hours counts.", CLUSTER_WIDE)
    log_roll_jitter_hours = key(INT, 0, at_least(0), HIGH,
        "Most hours that chance takes off the roll time, where log.roll.jitter.ms is not set.")
    log_retention_ms = key(LONG, None, None, HIGH,
        "Age in ms above which segments go, -1 for none; not set, log.retention.minutes counts.", CLUSTER_WIDE)
    log_retention_minutes = key(INT, None, None, HIGH,
        "Age in minutes above which segments are deleted; not set, log.retention.hours counts.")
    log_retention_hours = key(INT, 168, None, HIGH,
        "Age in hours above which segments are deleted, where neither minutes nor ms are set.")
    log_retention_bytes = key(LONG, -1, None, HIGH,
        "Size of a partition above which its oldest segments are deleted; -1 is no limit.", CLUSTER_WIDE)
    log_retention_check_interval_ms = key(LONG, 5 * MINUTE_MS, at_least(1), MEDIUM,
        "How often in ms segments that may be deleted are looked for.")
    log_cleanup_policy = key(LIST, ("delete",), each_of("compact", "delete"), MEDIUM,
        "Old segments are deleted by age and size, or compacted to each key's last record, or both.", CLUSTER_WIDE)
    log_index_size_max_bytes = key(INT, 10 * MIB, at_least(4), MEDIUM,
        "Largest size of a segment's offset index; a full index closes the segment.", CLUSTER_WIDE)
    log_index_interval_bytes = key(INT, 4 * KIB, at_least(0), MEDIUM,
        "About every this many bytes of records, the index gets an entry.", CLUSTER_WIDE)
    log_flush_interval_messages = key(LONG, LONG_MAX, at_least(1), HIGH,
        "After this many records a log is fsynced.", CLUSTER_WIDE)
    log_segment_delete_delay_ms = key(LONG, MINUTE_MS, at_least(0), HIGH,
        "How long in ms the files of a deleted segment stay on the disk.", CLUSTER_WIDE)
    log_flush_scheduler_interval_ms = key(LONG, LONG_MAX, None, HIGH,
        "How often in ms logs that need an fsync are looked for; log.flush.interval.ms, where not set.")
    log_flush_interval_ms = key(LONG, None, None, HIGH,
        "Records reach the disk by fsync after at most this many ms.", CLUSTER_WIDE)
    log_flush_offset_checkpoint_interval_ms = key(INT, MINUTE_MS, at_least(0), HIGH,
        "How often in ms recovery points are written to disk.")
    log_flush_start_offset_checkpoint_interval_ms = key(INT, MINUTE_MS, at_least(0), HIGH,
        "How often in ms log start offsets are written to disk.")
    log_preallocate = key(BOOLEAN, False, None, MEDIUM,
        "Whether a new segment's file gets its full size at once.", CLUSTER_WIDE)
    num_recovery_threads_per_data_dir = key(INT, 2, at_least(1), HIGH,
        "Logs of one directory that are recovered at the same time.", CLUSTER_WIDE, takes_effect=False)
    min_insync_replicas = key(INT, 1, at_least(1), HIGH,
        "With acks=all, a write succeeds only while at least this many replicas are in sync.", CLUSTER_WIDE)
    log_message_timestamp_type = key(STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"), MEDIUM,
        "Whether a record carries the time its producer gave it, or the time it was appended.", CLUSTER_WIDE)
    log_message_timestamp_before_max_ms = key(LONG, LONG_MAX, at_least(0), MEDIUM,
        "With CreateTime, how many ms a record's timestamp may lie before the broker's clock.", CLUSTER_WIDE)
    log_message_timestamp_after_max_ms = key(LONG, HOUR_MS, at_least(0), MEDIUM,
        "With CreateTime, how many ms a record's timestamp may lie after the broker's clock.", CLUSTER_WIDE)
    create_topic_policy_class_name = key(CLASS, None, None, LOW,
        "A class that may refuse to create a topic.", takes_effect=False)
    alter_config_policy_class_name = key(CLASS, None, None, LOW,
        "A class that may refuse a change of configuration.", takes_effect=False)
    log_dir_failure_timeout_ms = key(LONG, 30_000, at_least(1), LOW,
        "A broker that cannot report a failed log directory to the controller within this many ms stops.")
    log_initial_task_delay_ms = key(LONG, 30_000, at_least(0), LOW,
        "Pause in ms after the start before the background work on logs begins.", internal=True)
    log_scrub_enable = key(BOOLEAN, True, None, MEDIUM,
        "Not Kafka's: whether the node reads its files again in the background, to find and repair flipped bits.",
        CLUSTER_WIDE)
    log_scrub_interval_ms = key(LONG, 7 * DAY_MS, at_least(1), MEDIUM,
        "Not Kafka's: within this many ms all files are read once; a short time begins a pass at once.", CLUSTER_WIDE)
    log_scrub_io_max_bytes_per_second = key(LONG, 8 * MIB, at_least(KIB), MEDIUM,
        "Not Kafka's: bytes per second that this reads at most; more data than that in the interval takes longer.",
        CLUSTER_WIDE)
    log_cleaner_enable = key(BOOLEAN, True, None, MEDIUM,
        "Whether compaction runs.")
    log_cleaner_threads = key(INT, 1, at_least(0), MEDIUM,
        "Compactions that run at the same time.", CLUSTER_WIDE)
    log_cleaner_io_max_bytes_per_second = key(DOUBLE, DOUBLE_MAX, None, MEDIUM,
        "Bytes per second that compaction may read and write, in all.", CLUSTER_WIDE)
    log_cleaner_dedupe_buffer_size = key(LONG, 128 * MIB, None, MEDIUM,
        "Memory for compaction's map of keys, in all threads.", CLUSTER_WIDE)
    log_cleaner_io_buffer_size = key(INT, 512 * KIB, at_least(0), MEDIUM,
        "Memory for compaction's reads and writes, in all threads.", CLUSTER_WIDE)
    log_cleaner_io_buffer_load_factor = key(DOUBLE, 0.9, None, MEDIUM,
        "How full compaction's map of keys may get.", CLUSTER_WIDE)
    log_cleaner_backoff_ms = key(LONG, 15_000, at_least(0), MEDIUM,
        "Pause in ms when no log needs compaction.", CLUSTER_WIDE)
    log_cleaner_min_cleanable_ratio = key(DOUBLE, 0.5, between(0, 1), MEDIUM,
        "A log is compacted once this share of it has not been compacted yet.", CLUSTER_WIDE)
    log_cleaner_delete_retention_ms = key(LONG, DAY_MS, at_least(0), MEDIUM,
        "How long in ms compaction keeps a tombstone.", CLUSTER_WIDE)
    log_cleaner_min_compaction_lag_ms = key(LONG, 0, at_least(0), MEDIUM,
        "A record stays as it is for at least this many ms before compaction may drop it.", CLUSTER_WIDE)
    log_cleaner_max_compaction_lag_ms = key(LONG, LONG_MAX, at_least(1), MEDIUM,
        "A record waits at most this many ms for compaction.", CLUSTER_WIDE)
# fmt: on
