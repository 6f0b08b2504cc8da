"""Replication and leadership (ReplicationConfigs in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least
from metadata.configuration.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    KIB,
    LONG,
    MEDIUM,
    MIB,
    MINUTE_MS,
    STRING,
)


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class ReplicationConfigs(ConfigValues):
    """Replication between brokers."""

    default_replication_factor = key(INT, 1, None, MEDIUM,
        "Replicas of a topic that is created without saying how many.")
    replica_lag_time_max_ms = key(LONG, 30_000, None, HIGH,
        "A follower that was not caught up at any time in this many ms leaves the ISR.")
    replica_socket_timeout_ms = key(INT, 30_000, None, HIGH,
        "How long in ms a follower's request may take.")
    replica_socket_receive_buffer_bytes = key(INT, 64 * KIB, None, HIGH,
        "SO_RCVBUF of a follower's connection to a leader.", takes_effect=False)
    replica_fetch_max_bytes = key(INT, MIB, at_least(0), MEDIUM,
        "How many bytes of each partition a follower asks for; a first batch that is larger is still sent.")
    replica_fetch_wait_max_ms = key(INT, 500, None, HIGH,
        "How long in ms a leader may hold a follower's fetch that finds nothing.")
    follower_fetch_last_tiered_offset_enable = key(BOOLEAN, False, None, MEDIUM,
        "Whether a new follower begins with what the remote tier does not have yet.", CLUSTER_WIDE, takes_effect=False)
    replica_fetch_backoff_ms = key(INT, 1000, at_least(0), MEDIUM,
        "Pause in ms of a follower after a failed fetch of a partition.")
    replica_fetch_min_bytes = key(INT, 1, None, HIGH,
        "A follower's fetch waits for at least this many bytes.")
    replica_fetch_response_max_bytes = key(INT, 10 * MIB, at_least(0), MEDIUM,
        "Most bytes a follower asks for in one fetch.")
    num_replica_fetchers = key(INT, 1, at_least(1), HIGH,
        "Connections over which a follower fetches from each broker.", CLUSTER_WIDE, takes_effect=False)
    replica_high_watermark_checkpoint_interval_ms = key(LONG, 5000, None, HIGH,
        "How often in ms high watermarks are written to disk.")
    fetch_purgatory_purge_interval_requests = key(INT, 1000, None, MEDIUM,
        "After this many finished ones, Apache Kafka sweeps its waiting fetches.", takes_effect=False)
    producer_purgatory_purge_interval_requests = key(INT, 1000, None, MEDIUM,
        "After this many finished ones, Apache Kafka sweeps its waiting produces.", takes_effect=False)
    delete_records_purgatory_purge_interval_requests = key(INT, 1, None, MEDIUM,
        "After this many finished ones, Apache Kafka sweeps its waiting deletions.", takes_effect=False)
    auto_leader_rebalance_enable = key(BOOLEAN, True, None, HIGH,
        "Whether leaderships go back to the preferred replicas by themselves.")
    leader_imbalance_check_interval_seconds = key(LONG, 300, at_least(1), HIGH,
        "How often in seconds preferred leaders are checked for.")
    unclean_leader_election_interval_ms = key(LONG, 5 * MINUTE_MS, at_least(1), MEDIUM,
        "How often in ms partitions that may be led by a replica outside of the ISR are looked for.", internal=True,
        takes_effect=False)
    unclean_leader_election_enable = key(BOOLEAN, False, None, HIGH,
        "Whether a replica outside the ISR may lead when no other replica can, which may lose records. The last known "
        "leader may in any case (KIP-966), even if it comes back with an empty disk.", CLUSTER_WIDE)
    replica_selector_class = key(STRING, None, None, MEDIUM,
        "The class that chooses which replica a consumer reads (KIP-392); not set is the leader.")
# fmt: on
