"""Configurations that Kafka runs and this node cannot run yet. It refuses them: to run something else would be worse.

A listener that is meant to be encrypted must not serve plain text.
"""

from broker.config import KafkaConfig
from broker.endpoints import SecurityProtocol
from metadata.configuration import ConfigError


def check_supported(config: KafkaConfig) -> None:
    """Raises ConfigError."""
    secured = [each.name for each in config.listeners if each.security_protocol is not SecurityProtocol.PLAINTEXT]
    if secured:
        raise ConfigError(f"TLS and SASL are not supported yet, but are asked for by: {', '.join(secured)}")
