"""All keys of brokers and controllers, as in Kafka's KafkaConfig."""

from typing import Any

from metadata.configuration.broker_keys.coordinators import CoordinatorConfigs
from metadata.configuration.broker_keys.dynamic_only import DynamicOnlyConfigs
from metadata.configuration.broker_keys.log import LogConfigs
from metadata.configuration.broker_keys.metrics import MetricConfigs
from metadata.configuration.broker_keys.network import SocketServerConfigs
from metadata.configuration.broker_keys.quorum import QuorumConfigs
from metadata.configuration.broker_keys.remote_log import RemoteLogConfigs
from metadata.configuration.broker_keys.replication import ReplicationConfigs
from metadata.configuration.broker_keys.security import SecurityConfigs
from metadata.configuration.broker_keys.server import ServerConfigs
from metadata.configuration.definition import ConfigDef, ConfigKey, UpdateMode


class BrokerConfigs(
    ServerConfigs,
    QuorumConfigs,
    SocketServerConfigs,
    LogConfigs,
    ReplicationConfigs,
    CoordinatorConfigs,
    SecurityConfigs,
    MetricConfigs,
    RemoteLogConfigs,
):
    """Every key that a properties file may hold, as an attribute: `config.log_roll_hours` is `log.roll.hours`."""


BROKER_CONFIGS = ConfigDef(BrokerConfigs)

# Throttles of replication. They are ignored in a properties file.
DYNAMIC_ONLY_CONFIGS = ConfigDef(DynamicOnlyConfigs)

# The keys of BROKER_CONFIGS that may be changed while a broker runs; all others may not (KIP-226).
DYNAMIC_CONFIGS = frozenset(
    key.name for key in BROKER_CONFIGS.keys.values() if key.update_mode is not UpdateMode.READ_ONLY
)


def broker_key(name: str) -> ConfigKey[Any] | None:
    """The broker's key of this name, including keys that a properties file cannot set."""
    return BROKER_CONFIGS.keys.get(name) or DYNAMIC_ONLY_CONFIGS.keys.get(name)
