"""Configurations that Kafka runs and this node cannot run yet. It refuses them: to run something else would be worse.

A listener that is meant to be encrypted must not serve plain text.
"""

from typing import Final

from broker.config.endpoints import SecurityProtocol
from broker.config.kafka_config import KafkaConfig
from metadata.configuration import ConfigError

# There are no others to be loaded (`broker.coordinator.group.assignors`).
_ASSIGNORS: Final = (
    "uniform",
    "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)


def check_supported(config: KafkaConfig) -> None:
    """Raises ConfigError."""
    secured = [each.name for each in config.listeners if each.security_protocol is not SecurityProtocol.PLAINTEXT]
    if secured:
        raise ConfigError(f"TLS and SASL are not supported yet, but are asked for by: {', '.join(secured)}")
    assignors = config.get_list("group.consumer.assignors")
    if not assignors or not set(assignors) <= set(_ASSIGNORS):
        raise ConfigError(f"group.consumer.assignors has to name some of: {', '.join(_ASSIGNORS)}")
