"""Kafka's configuration: keys, types, defaults, validators, synonyms, and effective values."""

from metadata.configuration.broker import BROKER_CONFIGS, DYNAMIC_CONFIGS, DYNAMIC_ONLY_CONFIGS, BrokerConfigs
from metadata.configuration.broker_keys.dynamic_only import DynamicOnlyConfigs
from metadata.configuration.client_metrics import (
    CLIENT_METRICS_CONFIGS,
    ClientMetricsConfigs,
    ClientMetricsRequestError,
)
from metadata.configuration.definition import (
    ConfigDef,
    ConfigKey,
    ConfigValue,
    ConfigValues,
    Importance,
    InvalidConfig,
    Password,
    UpdateMode,
    Values,
    parse_int,
)
from metadata.configuration.effective import (
    BrokerLayers,
    ConfigEntry,
    ConfigSynonym,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
    topic_defaults,
    topic_values,
    unusable,
    usable,
)
from metadata.configuration.group import GROUP_CONFIGS, GroupConfigs
from metadata.configuration.schema import (
    ConfigSchema,
    append_to_list,
    split_list,
    subtract_from_list,
)
from metadata.configuration.topic import TOPIC_CONFIGS, TopicConfigs

__all__ = [
    "BROKER_CONFIGS",
    "CLIENT_METRICS_CONFIGS",
    "DYNAMIC_CONFIGS",
    "DYNAMIC_ONLY_CONFIGS",
    "GROUP_CONFIGS",
    "TOPIC_CONFIGS",
    "BrokerConfigs",
    "BrokerLayers",
    "ClientMetricsConfigs",
    "ClientMetricsRequestError",
    "ConfigDef",
    "ConfigEntry",
    "ConfigKey",
    "ConfigSchema",
    "ConfigSynonym",
    "ConfigValue",
    "ConfigValues",
    "DynamicOnlyConfigs",
    "GroupConfigs",
    "Importance",
    "InvalidConfig",
    "Password",
    "TopicConfigs",
    "UpdateMode",
    "Values",
    "append_to_list",
    "describe_broker",
    "describe_client_metrics",
    "describe_cluster_default",
    "describe_group",
    "describe_topic",
    "parse_int",
    "split_list",
    "subtract_from_list",
    "topic_defaults",
    "topic_values",
    "unusable",
    "usable",
]
