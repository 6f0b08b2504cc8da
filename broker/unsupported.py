"""Configurations that Kafka runs and this node cannot run yet. It refuses them: to run something else would be worse.

A listener that is meant to be encrypted must not serve plain text, and a node that is meant to be one of three voters
must not found a cluster of its own.
"""

from broker.config import KafkaConfig
from broker.endpoints import SecurityProtocol
from metadata.configuration import ConfigError


def check_supported(config: KafkaConfig) -> None:
    """Raises ConfigError."""
    if not (config.is_broker and config.is_controller):
        raise ConfigError("process.roles must be broker,controller: nodes of one role are not supported yet.")
    secured = [each.name for each in config.listeners if each.security_protocol is not SecurityProtocol.PLAINTEXT]
    if secured:
        raise ConfigError(f"TLS and SASL are not supported yet, but are asked for by: {', '.join(secured)}")
    others = [voter for voter in config.quorum_voters if voter != config.node_id]
    if others:
        raise ConfigError(
            f"controller.quorum.voters must name this node alone, quorums of several are not supported yet: {others}"
        )
