"""Groups, share groups and transactions (GroupCoordinatorConfig, TransactionLogConfig and neighbours in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import (
    at_least,
    between,
    each_of,
    no_empty_list,
    no_repeated_elements,
    one_of_ignoring_case,
)
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DAY_MS,
    HIGH,
    HOUR_MS,
    INT,
    INT_MAX,
    KIB,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    MIB,
    MINUTE_MS,
    SHORT,
    STRING,
)


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# Defaults are Kafka's, except for the consumers' heartbeat interval (5000 in Kafka). All members of a group learn of a
# join within one interval, so with this one a rebalance is complete within 5 s.
# fmt: off
class CoordinatorConfigs(ConfigValues):
    """Groups, share groups and transactions."""

    group_coordinator_rebalance_protocols = key(LIST, ("classic", "consumer", "streams"),
        each_of("consumer", "classic", "share", "streams"), MEDIUM,
        "The group protocols that are served.")
    group_coordinator_threads = key(INT, 4, at_least(1), HIGH,
        "Threads of the group coordinator in Apache Kafka.", takes_effect=False)
    group_coordinator_background_threads = key(INT, 2, at_least(1), HIGH,
        "Threads in Apache Kafka for the group coordinator's long tasks.", takes_effect=False)
    group_coordinator_append_linger_ms = key(INT, -1, at_least(-1), MEDIUM,
        "How long in ms the coordinator gathers records before it writes them; -1 leaves that to the coordinator.")
    group_coordinator_cached_buffer_max_bytes = key(INT, MIB + 12, at_least(512 * KIB), MEDIUM,
        "Size of the buffers that a coordinator in Apache Kafka keeps for its next writes.", CLUSTER_WIDE,
        takes_effect=False)
    offsets_commit_timeout_ms = key(INT, 5000, at_least(1), HIGH,
        "How long in ms an offset commit waits for the replicas.")
    offsets_load_buffer_size = key(INT, 5 * MIB, at_least(1), HIGH,
        "Bytes that are read at once when a coordinator loads its offsets.")
    offsets_topic_replication_factor = key(SHORT, 3, at_least(1), HIGH,
        "Replicas of __consumer_offsets; it is not created before there are that many brokers.")
    offsets_topic_num_partitions = key(INT, 50, at_least(1), HIGH,
        "Partitions of __consumer_offsets; never change it on a living cluster.")
    offsets_topic_segment_bytes = key(INT, 100 * MIB, at_least(1), HIGH,
        "Segment size of __consumer_offsets; small segments load faster.")
    offsets_topic_compression_codec = key(INT, 0, None, HIGH,
        "Compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    offset_metadata_max_bytes = key(INT, 4 * KIB, None, HIGH,
        "Largest metadata text of a committed offset.")
    offsets_retention_minutes = key(INT, 10_080, at_least(1), HIGH,
        "How long in minutes the offsets of a group that has become empty are kept.")
    offsets_retention_check_interval_ms = key(LONG, 10 * MINUTE_MS, at_least(1), HIGH,
        "How often in ms offsets that may be dropped are looked for.")
    group_min_session_timeout_ms = key(INT, 6000, None, MEDIUM,
        "Shortest session timeout in ms that a classic group's member may ask for.")
    group_max_session_timeout_ms = key(INT, 30 * MINUTE_MS, None, MEDIUM,
        "Longest session timeout in ms that a classic group's member may ask for.")
    group_initial_rebalance_delay_ms = key(INT, 3000, None, MEDIUM,
        "How long in ms an empty classic group waits for more members before its first rebalance.")
    group_max_size = key(INT, INT_MAX, at_least(1), MEDIUM,
        "Most members of a classic group.")
    group_consumer_session_timeout_ms = key(INT, 45_000, at_least(1), MEDIUM,
        "A consumer that was silent for this many ms leaves its group (KIP-848).")
    group_consumer_min_session_timeout_ms = key(INT, 45_000, at_least(1), MEDIUM,
        "Shortest consumer session timeout in ms that a group may be given.")
    group_consumer_max_session_timeout_ms = key(INT, MINUTE_MS, at_least(1), MEDIUM,
        "Longest consumer session timeout in ms that a group may be given.")
    group_consumer_heartbeat_interval_ms = key(INT, 4000, at_least(1), MEDIUM,
        "How often in ms consumers are told to send heartbeats.")
    group_consumer_min_heartbeat_interval_ms = key(INT, 4000, at_least(1), MEDIUM,
        "Shortest consumer heartbeat interval in ms that a group may be given.")
    group_consumer_max_heartbeat_interval_ms = key(INT, 15_000, at_least(1), MEDIUM,
        "Longest consumer heartbeat interval in ms that a group may be given.")
    group_consumer_max_size = key(INT, INT_MAX, at_least(1), MEDIUM,
        "Most members of a consumer group.")
    group_consumer_assignors = key(LIST, ("uniform", "range"), None, MEDIUM,
        "Server-side assignors of consumer groups; the first is the default.")
    group_consumer_assignment_interval_ms = key(INT, 1000, at_least(0), MEDIUM,
        "Shortest time in ms between two assignments of a consumer group.", CLUSTER_WIDE, takes_effect=False)
    group_consumer_min_assignment_interval_ms = key(INT, 0, at_least(0), MEDIUM,
        "Shortest assignment interval in ms that a consumer group may be given.", takes_effect=False)
    group_consumer_max_assignment_interval_ms = key(INT, 15_000, at_least(0), MEDIUM,
        "Longest assignment interval in ms that a consumer group may be given.", takes_effect=False)
    group_consumer_migration_policy = key(STRING, "bidirectional",
        one_of_ignoring_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), MEDIUM,
        "Which live migrations between classic and consumer groups are allowed.")
    group_consumer_regex_refresh_interval_ms = key(INT, 10 * MINUTE_MS, at_least(10_000), MEDIUM,
        "How often in ms a subscription by regular expression is resolved again.", internal=True)
    group_consumer_assignor_offload_enable = key(BOOLEAN, True, None, MEDIUM,
        "Whether Apache Kafka computes assignments of consumer groups in a thread of their own.", CLUSTER_WIDE,
        internal=True, takes_effect=False)
    group_share_session_timeout_ms = key(INT, 45_000, at_least(1), MEDIUM,
        "A share consumer that was silent for this many ms leaves its group (KIP-932).")
    group_share_min_session_timeout_ms = key(INT, 45_000, at_least(1), MEDIUM,
        "Shortest share session timeout in ms that a group may be given.")
    group_share_max_session_timeout_ms = key(INT, MINUTE_MS, at_least(1), MEDIUM,
        "Longest share session timeout in ms that a group may be given.")
    group_share_heartbeat_interval_ms = key(INT, 5000, at_least(1), MEDIUM,
        "How often in ms share consumers are told to send heartbeats.")
    group_share_min_heartbeat_interval_ms = key(INT, 5000, at_least(1), MEDIUM,
        "Shortest share heartbeat interval in ms that a group may be given.")
    group_share_max_heartbeat_interval_ms = key(INT, 15_000, at_least(1), MEDIUM,
        "Longest share heartbeat interval in ms that a group may be given.")
    group_share_max_size = key(INT, 200, between(1, 1000), MEDIUM,
        "Most members of a share group.")
    group_share_assignors = key(LIST, ("simple",), None, MEDIUM,
        "The server-side assignor of share groups: exactly one.", takes_effect=False)
    group_share_assignment_interval_ms = key(INT, 1000, at_least(0), MEDIUM,
        "Shortest time in ms between two assignments of a share group.", CLUSTER_WIDE)
    group_share_min_assignment_interval_ms = key(INT, 0, at_least(0), MEDIUM,
        "Shortest assignment interval in ms that a share group may be given.")
    group_share_max_assignment_interval_ms = key(INT, 15_000, at_least(0), MEDIUM,
        "Longest assignment interval in ms that a share group may be given.")
    group_share_initialize_retry_interval_ms = key(INT, 30_000, at_least(1), LOW,
        "How long in ms before the state of a share group's partitions is initialized again.", internal=True)
    group_share_assignor_offload_enable = key(BOOLEAN, True, None, MEDIUM,
        "Whether Apache Kafka computes assignments of share groups in a thread of their own.", CLUSTER_WIDE,
        internal=True, takes_effect=False)
    group_share_dlq_manager_class_name = key(STRING,
        "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager", None, MEDIUM,
        "The class that writes to the dead-letter queues of share groups.", internal=True, takes_effect=False)
    errors_deadletterqueue_auto_create_topics_enable = key(BOOLEAN, False, None, MEDIUM,
        "Whether the topic of a share group's dead-letter queue is created (KIP-1191).", CLUSTER_WIDE)
    errors_deadletterqueue_topic_name_prefix = key(STRING, "dlq.", None, MEDIUM,
        "Prefix that the names of dead-letter queues need.", CLUSTER_WIDE)
    group_streams_session_timeout_ms = key(INT, 45_000, at_least(1), MEDIUM,
        "A streams member that was silent for this many ms leaves its group (KIP-1071).", takes_effect=False)
    group_streams_min_session_timeout_ms = key(INT, 45_000, at_least(1), MEDIUM,
        "Shortest streams session timeout in ms that a group may be given.", takes_effect=False)
    group_streams_max_session_timeout_ms = key(INT, MINUTE_MS, at_least(1), MEDIUM,
        "Longest streams session timeout in ms that a group may be given.", takes_effect=False)
    group_streams_heartbeat_interval_ms = key(INT, 5000, at_least(1), MEDIUM,
        "How often in ms streams members are told to send heartbeats.", takes_effect=False)
    group_streams_min_heartbeat_interval_ms = key(INT, 5000, at_least(1), MEDIUM,
        "Shortest streams heartbeat interval in ms that a group may be given.", takes_effect=False)
    group_streams_max_heartbeat_interval_ms = key(INT, 15_000, at_least(1), MEDIUM,
        "Longest streams heartbeat interval in ms that a group may be given.", takes_effect=False)
    group_streams_max_size = key(INT, INT_MAX, at_least(1), MEDIUM,
        "Most members of a streams group.", takes_effect=False)
    group_streams_num_standby_replicas = key(INT, 0, at_least(0), MEDIUM,
        "Standby replicas of each task of a streams group.", takes_effect=False)
    group_streams_max_standby_replicas = key(INT, 2, at_least(0), MEDIUM,
        "Most standby replicas that a streams group may be given.", takes_effect=False)
    group_streams_initial_rebalance_delay_ms = key(INT, 3000, at_least(0), MEDIUM,
        "How long in ms an empty streams group waits for more members before its first assignment.", takes_effect=False)
    group_streams_assignment_interval_ms = key(INT, 1000, at_least(0), MEDIUM,
        "Shortest time in ms between two assignments of a streams group.", CLUSTER_WIDE, takes_effect=False)
    group_streams_min_assignment_interval_ms = key(INT, 0, at_least(0), MEDIUM,
        "Shortest assignment interval in ms that a streams group may be given.", takes_effect=False)
    group_streams_max_assignment_interval_ms = key(INT, 15_000, at_least(0), MEDIUM,
        "Longest assignment interval in ms that a streams group may be given.", takes_effect=False)
    group_streams_assignors = key(LIST, ("sticky",), no_empty_list, MEDIUM,
        "Server-side assignors of streams groups; the first is the default.", takes_effect=False)
    group_streams_assignor_offload_enable = key(BOOLEAN, True, None, MEDIUM,
        "Whether Apache Kafka computes assignments of streams groups in a thread of their own.", CLUSTER_WIDE,
        internal=True, takes_effect=False)
    group_streams_task_offset_interval_ms = key(INT, MINUTE_MS, at_least(1), MEDIUM,
        "How often in ms streams members report the offsets of warm-up tasks.", internal=True, takes_effect=False)
    group_streams_min_task_offset_interval_ms = key(INT, 15_000, at_least(1), MEDIUM,
        "Shortest interval in ms of these reports that a streams group may be given.", internal=True,
        takes_effect=False)
    group_streams_num_warmup_replicas = key(INT, 2, at_least(0), MEDIUM,
        "Most warm-up tasks of a streams group at a time.", internal=True, takes_effect=False)
    group_streams_max_warmup_replicas = key(INT, 20, at_least(0), MEDIUM,
        "Most warm-up tasks that a streams group may be given.", internal=True, takes_effect=False)
    group_streams_acceptable_recovery_lag = key(LONG, 10_000, at_least(0), MEDIUM,
        "Offsets that a streams member may lag to get an active task.", internal=True, takes_effect=False)
    group_streams_rack_aware_assignment_tags = key(LIST, (), no_repeated_elements, LOW,
        "Tags of clients by which standby replicas of streams groups are spread.", may_repeat=True, takes_effect=False)
    group_streams_topology_description_plugin_class = key(CLASS, None, None, MEDIUM,
        "The class that keeps the topologies that streams members send (KIP-1331).", takes_effect=False)
    group_share_min_delivery_count_limit = key(INT, 2, between(2, 5), MEDIUM,
        "Lowest delivery limit that a share group may be given.")
    group_share_max_delivery_count_limit = key(INT, 10, between(5, 25), MEDIUM,
        "Highest delivery limit that a share group may be given.")
    group_share_min_partition_max_record_locks = key(INT, 100, between(100, 2000), MEDIUM,
        "Lowest limit of locked records in a partition that a share group may be given.")
    group_share_max_partition_max_record_locks = key(INT, 4000, between(2000, 10_000), MEDIUM,
        "Highest limit of locked records in a partition that a share group may be given.")
    group_share_delivery_count_limit = key(INT, 5, between(2, 10), MEDIUM,
        "How many times a record of a share group is delivered before it is given up.")
    group_share_record_lock_duration_ms = key(INT, 30_000, between(1000, HOUR_MS), MEDIUM,
        "How long in ms a share consumer holds a record before another may get it.")
    group_share_min_record_lock_duration_ms = key(INT, 15_000, between(1000, 30_000), MEDIUM,
        "Shortest record lock in ms that a share group may be given.")
    group_share_max_record_lock_duration_ms = key(INT, MINUTE_MS, between(30_000, HOUR_MS), MEDIUM,
        "Longest record lock in ms that a share group may be given.")
    group_share_partition_max_record_locks = key(INT, 2000, between(100, 10_000), MEDIUM,
        "Most records of a partition that a share group may hold at once.")
    share_fetch_purgatory_purge_interval_requests = key(INT, 1000, None, MEDIUM,
        "After this many finished ones, Apache Kafka sweeps its waiting share fetches.", takes_effect=False)
    group_share_max_share_sessions = key(INT, 2000, at_least(1), MEDIUM,
        "Most share sessions of a broker.")
    group_share_persister_class_name = key(STRING,
        "org.apache.kafka.server.share.persister.DefaultStatePersister", None, MEDIUM,
        "The class that keeps the state of share groups.", internal=True, takes_effect=False)
    share_coordinator_state_topic_num_partitions = key(INT, 50, at_least(1), HIGH,
        "Partitions of __share_group_state; never change it on a living cluster.")
    share_coordinator_state_topic_replication_factor = key(SHORT, 3, at_least(1), HIGH,
        "Replicas of __share_group_state.")
    share_coordinator_state_topic_min_isr = key(SHORT, 2, at_least(1), HIGH,
        "min.insync.replicas of __share_group_state.")
    share_coordinator_state_topic_segment_bytes = key(INT, 100 * MIB, at_least(1), HIGH,
        "Segment size of __share_group_state.")
    share_coordinator_threads = key(INT, 1, at_least(1), MEDIUM,
        "Threads of the share coordinator in Apache Kafka.", takes_effect=False)
    share_coordinator_snapshot_update_records_per_snapshot = key(INT, 500, between(0, 500), MEDIUM,
        "Updates of a share state that are written between two snapshots of it.")
    share_coordinator_load_buffer_size = key(INT, 5 * MIB, at_least(1), HIGH,
        "Bytes that are read at once when a share coordinator loads its state.")
    share_coordinator_state_topic_compression_codec = key(INT, 0, None, HIGH,
        "Compression of __share_group_state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    share_coordinator_append_linger_ms = key(INT, -1, at_least(-1), MEDIUM,
        "How long in ms the share coordinator gathers records before it writes them; -1 leaves that to it.")
    share_coordinator_cached_buffer_max_bytes = key(INT, MIB + 12, at_least(512 * KIB), MEDIUM,
        "Size of the buffers that a share coordinator in Apache Kafka keeps for its next writes.", CLUSTER_WIDE,
        takes_effect=False)
    share_coordinator_write_timeout_ms = key(INT, 5000, at_least(1), HIGH,
        "How long in ms a write of the share coordinator waits for the replicas.")
    share_coordinator_state_topic_prune_interval_ms = key(INT, 5 * MINUTE_MS, at_least(1), LOW,
        "How often in ms __share_group_state is freed of what is no longer needed.", internal=True)
    share_coordinator_cold_partition_snapshot_interval_ms = key(INT, 5 * MINUTE_MS, at_least(1), LOW,
        "How often in ms idle share states get a snapshot.", internal=True)
    transaction_state_log_min_isr = key(INT, 2, at_least(1), HIGH,
        "min.insync.replicas of __transaction_state.")
    transaction_state_log_load_buffer_size = key(INT, 5 * MIB, at_least(1), HIGH,
        "Bytes that are read at once when a coordinator loads its transactions.")
    transaction_state_log_replication_factor = key(SHORT, 3, at_least(1), HIGH,
        "Replicas of __transaction_state; it is not created before there are that many brokers.")
    transaction_state_log_num_partitions = key(INT, 50, at_least(1), HIGH,
        "Partitions of __transaction_state; never change it on a living cluster.")
    transaction_state_log_segment_bytes = key(INT, 100 * MIB, at_least(1), HIGH,
        "Segment size of __transaction_state; small segments load faster.")
    transaction_partition_verification_enable = key(BOOLEAN, True, None, LOW,
        "Whether a write is checked to belong to an open transaction (KIP-890).", CLUSTER_WIDE)
    producer_id_expiration_ms = key(INT, DAY_MS, at_least(1), LOW,
        "How long in ms a partition remembers a producer that has stopped writing to it.", CLUSTER_WIDE)
    producer_id_expiration_check_interval_ms = key(INT, 10 * MINUTE_MS, at_least(1), LOW,
        "How often in ms producers that may be forgotten are looked for.", internal=True)
    transactional_id_expiration_ms = key(INT, 7 * DAY_MS, at_least(1), HIGH,
        "How long in ms the coordinator remembers a transactional id without any transaction.")
    transaction_max_timeout_ms = key(INT, 15 * MINUTE_MS, at_least(1), HIGH,
        "Longest transaction timeout in ms that a producer may ask for.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms = key(INT, 10_000, at_least(1), LOW,
        "How often in ms transactions that have timed out are looked for.")
    transaction_remove_expired_transaction_cleanup_interval_ms = key(INT, HOUR_MS, at_least(1), LOW,
        "How often in ms transactional ids that may be forgotten are looked for.")
    transaction_two_phase_commit_enable = key(BOOLEAN, False, None, LOW,
        "Whether producers may take part in a two-phase commit (KIP-939).")
    add_partitions_to_txn_retry_backoff_max_ms = key(INT, 100, at_least(0), HIGH,
        "Longest time in ms that a leader keeps asking whether a transaction is open.")
    add_partitions_to_txn_retry_backoff_ms = key(INT, 20, at_least(1), HIGH,
        "Pause in ms before a leader asks again whether a transaction is open.")
# fmt: on
