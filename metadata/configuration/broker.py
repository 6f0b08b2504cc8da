"""All keys of a broker and a controller: what Kafka calls KafkaConfig's definition."""

from metadata.configuration.broker_keys import (
    coordinators,
    dynamic_only,
    log,
    metrics,
    network,
    quorum,
    remote_log,
    replication,
    security,
    server,
)
from metadata.configuration.definition import ConfigDef, ConfigKey, UpdateMode

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

# Throttles of replication; a properties file that names them is passed over.
DYNAMIC_ONLY_CONFIGS = ConfigDef(dynamic_only.KEYS)

# The keys of BROKER_CONFIGS that may be changed while a broker runs; every other one may not (KIP-226).
DYNAMIC_CONFIGS = frozenset(
    key.name for key in BROKER_CONFIGS.keys.values() if key.update_mode is not UpdateMode.READ_ONLY
)


def broker_key(name: str) -> ConfigKey | None:
    """The key that a broker knows under `name`, whether a file may hold it or not."""
    return BROKER_CONFIGS.keys.get(name) or DYNAMIC_ONLY_CONFIGS.keys.get(name)
