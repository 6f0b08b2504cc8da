"""All keys of a broker and a controller: what Kafka calls KafkaConfig's definition."""

from metadata.configuration.broker_keys import (
    coordinators,
    log,
    metrics,
    network,
    quorum,
    remote_log,
    replication,
    security,
    server,
)
from metadata.configuration.definition import ConfigDef, UpdateMode

BROKER_CONFIGS = ConfigDef(
    server.KEYS,
    quorum.KEYS,
    network.KEYS,
    log.KEYS,
    replication.KEYS,
    coordinators.KEYS,
    security.KEYS,
    metrics.KEYS,
    remote_log.KEYS,
)

# The keys that may be changed while a broker runs; every other known one may not (KIP-226).
DYNAMIC_CONFIGS = frozenset(
    key.name for key in BROKER_CONFIGS.keys.values() if key.update_mode is not UpdateMode.READ_ONLY
)
