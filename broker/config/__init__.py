"""A node's configuration: server.properties is read and checked, and what of it takes effect at present."""

from broker.config.kafka_config import DEVELOPMENT_DEFAULTS, KafkaConfig, read_config

__all__ = ["DEVELOPMENT_DEFAULTS", "KafkaConfig", "read_config"]
