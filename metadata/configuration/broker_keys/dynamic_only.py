"""Keys that no properties file holds: they can only be set while a broker runs (QuotaConfig in Kafka)."""

from metadata.configuration.definition import ConfigKey
from metadata.configuration.validators import at_least
from metadata.configuration.vocabulary import (
    CLUSTER_WIDE,
    LONG,
    LONG_MAX,
    MEDIUM,
)

# A table: name, type, default, rule, importance; then what it means, and where it may change in a running broker.
# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM,
        "Bytes per second that this broker sends to throttled replicas.", CLUSTER_WIDE),
    ConfigKey("follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), MEDIUM,
        "Bytes per second that this broker takes in for throttled replicas.", CLUSTER_WIDE),
    ConfigKey("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, at_least(0), MEDIUM,
        "Bytes per second for moving replicas between log directories.", CLUSTER_WIDE),
)
# fmt: on
