"""Configurations that Kafka runs and this node cannot run yet. It refuses them: to run something else would be worse.

A listener that is meant to be encrypted must not serve plain text.
"""

from broker.config import KafkaConfig
from broker.endpoints import SecurityProtocol
from broker.replication.replica_selector import REPLICA_SELECTORS
from metadata.configuration import ConfigError


def check_supported(config: KafkaConfig) -> None:
    """Raises ConfigError."""
    secured = [each.name for each in config.listeners if each.security_protocol is not SecurityProtocol.PLAINTEXT]
    if secured:
        raise ConfigError(f"TLS and SASL are not supported yet, but are asked for by: {', '.join(secured)}")
    selector = config.replica_selector_class
    if selector and selector not in REPLICA_SELECTORS:
        raise ConfigError(f"replica.selector.class can be {' or '.join(REPLICA_SELECTORS)}, and not {selector}")
