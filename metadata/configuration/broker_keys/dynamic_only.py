"""Keys that can only be set while a broker runs, and not in a properties file (QuotaConfig in Kafka)."""

from metadata.configuration.definition import ConfigValues, key
from metadata.configuration.validators import at_least
from metadata.configuration.vocabulary import (
    CLUSTER_WIDE,
    LONG,
    LONG_MAX,
    MEDIUM,
)


# Each key: type, default, validator, importance; then its documentation, and where it may change in a running broker.
# fmt: off
class DynamicOnlyConfigs(ConfigValues):
    """Keys that are set only while a broker runs."""

    leader_replication_throttled_rate = key(LONG, LONG_MAX, at_least(0), MEDIUM,
        "Bytes per second that this broker sends to throttled replicas.", CLUSTER_WIDE)
    follower_replication_throttled_rate = key(LONG, LONG_MAX, at_least(0), MEDIUM,
        "Bytes per second that this broker takes in for throttled replicas.", CLUSTER_WIDE)
    replica_alter_log_dirs_io_max_bytes_per_second = key(LONG, LONG_MAX, at_least(0), MEDIUM,
        "Bytes per second for moving replicas between log directories.", CLUSTER_WIDE)
# fmt: on
