"""The configuration of a node: reads and checks `server.properties`, and applies changes while the node runs."""

from broker.config.kafka_config import DEVELOPMENT_DEFAULTS, KafkaConfig, read_config

__all__ = ["DEVELOPMENT_DEFAULTS", "KafkaConfig", "read_config"]
