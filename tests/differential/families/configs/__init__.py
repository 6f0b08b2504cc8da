"""Topics with their configs; the configs of groups and client metrics; in a family of its own, those of brokers."""

from tests.differential.families.configs.family import BrokerConfigs, Configs

__all__ = ["BrokerConfigs", "Configs"]
