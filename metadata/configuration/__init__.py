"""All that Kafka lets one configure: keys, types, defaults, rules, synonyms, and what is in force."""

from metadata.configuration.broker import BROKER_CONFIGS, DYNAMIC_CONFIGS, DYNAMIC_ONLY_CONFIGS
from metadata.configuration.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Password,
    UpdateMode,
)
from metadata.configuration.effective import (
    BrokerLayers,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    Values,
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_topic,
    topic_defaults,
    topic_values,
)
from metadata.configuration.group import GROUP_CONFIGS
from metadata.configuration.schema import (
    ConfigSchema,
    ResourceType,
    append_to_list,
    split_list,
    subtract_from_list,
)
from metadata.configuration.topic import TOPIC_CONFIGS

__all__ = [
    "BROKER_CONFIGS",
    "DYNAMIC_CONFIGS",
    "DYNAMIC_ONLY_CONFIGS",
    "GROUP_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerLayers",
    "ConfigDef",
    "ConfigEntry",
    "ConfigError",
    "ConfigKey",
    "ConfigSchema",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Password",
    "ResourceType",
    "UpdateMode",
    "Values",
    "append_to_list",
    "describe_broker",
    "describe_cluster_default",
    "describe_group",
    "describe_topic",
    "split_list",
    "subtract_from_list",
    "topic_defaults",
    "topic_values",
]
