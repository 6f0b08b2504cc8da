"""Effective values of brokers, topics and groups, and their descriptions for DescribeConfigs.

A broker has three layers over the defaults: its properties file, the cluster-wide dynamic configs, and its own dynamic
configs (KIP-226). Topics and groups have their own layer on top of these. DescribeConfigs returns the source of each
value, and the values that it overrides (KIP-226's synonyms).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kraft import lazy_attrs
from metadata.configuration.broker import BROKER_CONFIGS, DYNAMIC_CONFIGS, DYNAMIC_ONLY_CONFIGS, broker_key
from metadata.configuration.client_metrics import CLIENT_METRICS_CONFIGS
from metadata.configuration.definition import ConfigDef, ConfigKey, ConfigValue, InvalidConfig, Values, value_text
from metadata.configuration.group import GROUP_CONFIGS, default_of, group_values
from metadata.configuration.synonyms import TOPIC_SYNONYMS, broker_synonyms, broker_synonyms_with_base
from metadata.configuration.topic import TOPIC_CONFIGS, TopicConfigs
from metadata.protocol import ConfigSource, ConfigType

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigSynonym(NamedTuple):
    """A value that would take effect if the synonyms before it were not set; `value` is None for a secret."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A key and its value for DescribeConfigs; `value` is None for a secret and for null."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: ConfigType
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None


@lazy_attrs.frozen
class BrokerLayers:
    """The configs of a broker: in its file, for the whole cluster, and for it alone, in rising precedence."""

    static: Mapping[str, str]
    cluster: Mapping[str, str] = _EMPTY
    broker: Mapping[str, str] = _EMPTY

    def merged(self) -> dict[str, str]:
        """One mapping of all layers. A key in a higher layer removes its synonyms in lower ones: minutes hide hours."""
        merged = dict(self.static)
        for layer in (self.cluster, self.broker):
            for name, text in layer.items():
                for synonym in broker_synonyms(name):
                    merged.pop(synonym, None)
                merged[name] = text
        return merged


def unusable(definition: ConfigDef, texts: Mapping[str, str]) -> dict[str, InvalidConfig]:
    """The errors of the configs whose values are invalid, by name. Undefined names are not among them.

    The controller refuses such values. They are in the metadata log if a controller of another release wrote them.
    """
    errors = {}
    for name, text in texts.items():
        key = definition.keys.get(name)
        if key is not None:
            try:
                key.parse(text)
            except InvalidConfig as error:
                errors[name] = error
    return errors


def usable(definition: ConfigDef, texts: Mapping[str, str]) -> Mapping[str, str]:
    """The configs without those that are `unusable`, which count as if they were not set."""
    errors = unusable(definition, texts) if texts else {}
    return {name: text for name, text in texts.items() if name not in errors} if errors else texts


def topic_defaults(broker: Values) -> dict[str, ConfigValue | None]:
    """The values of a topic without own configs, given a broker's values."""
    defaults = TOPIC_CONFIGS.parse(_EMPTY)
    for name, synonyms in TOPIC_SYNONYMS.items():
        for synonym in synonyms:
            value = broker[synonym.name]
            if value is not None:
                defaults[name] = value if synonym.factor == 1 else _scaled(value, synonym.factor)
                break
    retention = TopicConfigs.retention_ms.name
    if isinstance(retention_ms := defaults[retention], int) and retention_ms < 0:
        defaults[retention] = -1  # any negative value of the broker's keys is no limit
    return defaults


def topic_values(broker: Values, overrides: Mapping[str, str]) -> dict[str, ConfigValue | None]:
    """The values of a topic with the configs `overrides`. Raises InvalidConfig for a malformed value."""
    values = topic_defaults(broker)
    for name, key in TOPIC_CONFIGS.keys.items():
        if name in overrides:
            values[name] = key.parse(overrides[name])
    return values


def describe_topic(layers: BrokerLayers, broker: Values, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """A topic's configuration; `broker` are the values of the merged `layers`. Unusable configs are left out."""
    overrides = usable(TOPIC_CONFIGS, overrides)
    values = topic_values(broker, overrides)
    return [
        _describe_topic_key(layers, name, values[name], name in overrides)
        for name, key in TOPIC_CONFIGS.keys.items()
        if not key.internal or name in overrides
    ]


def describe_group(layers: BrokerLayers, broker: Values, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """A group's configuration; `broker` are the values of the merged `layers`.

    The group need not exist. A value in the broker's file is among the synonyms, and is the source if the group has no
    own value; Kafka 4.1 returns the source "default" then. Unusable configs are left out.
    """
    overrides = usable(GROUP_CONFIGS, overrides)
    values = group_values(broker, overrides)
    entries = []
    for name, key in GROUP_CONFIGS.keys.items():
        if key.internal and name not in overrides:
            continue
        text, first = value_text(values[name]), default_of(name)
        synonyms = [] if first is None else _synonyms(layers, first, broker_synonyms(first), is_sensitive=False)
        if name in overrides:
            synonyms.insert(0, ConfigSynonym(name, text, ConfigSource.GROUP))
        entries.append(_entry(key, text, synonyms))
    return entries


def describe_client_metrics(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """The configuration of a client metrics subscription with the configs `overrides`; it need not exist.

    Unusable configs are left out.
    """
    overrides = usable(CLIENT_METRICS_CONFIGS, overrides)
    values = CLIENT_METRICS_CONFIGS.parse(overrides)
    entries = []
    for name, key in CLIENT_METRICS_CONFIGS.keys.items():
        value = values[name]
        text = None if value is None else value_text(value)
        own = [ConfigSynonym(name, text, ConfigSource.CLIENT_METRICS)] if name in overrides else []
        entries.append(_entry(key, text, own))
    return entries


def describe_broker(layers: BrokerLayers, broker: Values) -> list[ConfigEntry]:
    """A broker's configuration, unknown names included; `broker` are the values of the merged `layers`."""
    merged = layers.merged()
    known = [name for name, key in BROKER_CONFIGS.keys.items() if not key.internal or name in merged]
    names = [*known, *(name for name in merged if name not in BROKER_CONFIGS.keys)]
    return [_describe_broker_key(layers, name, _broker_text(broker, merged, name)) for name in names]


def describe_cluster_default(cluster: Mapping[str, str]) -> list[ConfigEntry]:
    """The cluster-wide dynamic configs, which are those of the broker with an empty name, usable or not."""
    only = BrokerLayers(static=_EMPTY, cluster=cluster)
    return [
        entry._replace(
            source=ConfigSource.DEFAULT_BROKER,
            synonyms=tuple(s for s in entry.synonyms if s.source is ConfigSource.DEFAULT_BROKER),
        )
        for entry in (_describe_broker_key(only, name, text) for name, text in cluster.items())
    ]


def _describe_topic_key(layers: BrokerLayers, name: str, value: ConfigValue | None, is_overridden: bool) -> ConfigEntry:
    key = TOPIC_CONFIGS.keys[name]
    text = None if value is None else value_text(value)
    synonyms: list[ConfigSynonym] = []
    if is_overridden:
        synonyms.append(ConfigSynonym(name, text, ConfigSource.TOPIC))
    if name in TOPIC_SYNONYMS:
        first = TOPIC_SYNONYMS[name][0].name
        synonyms += _synonyms(layers, first, broker_synonyms_with_base(first), is_sensitive=False)
    return _entry(key, text, synonyms)


def _entry(key: ConfigKey[Any], text: str | None, synonyms: list[ConfigSynonym]) -> ConfigEntry:
    """The entry of a key that is no secret, and that may change."""
    return ConfigEntry(
        name=key.name,
        value=text,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=False,
        read_only=False,
        type=key.type,
        synonyms=tuple(synonyms),
        documentation=key.doc,
    )


def _describe_broker_key(layers: BrokerLayers, name: str, text: str | None) -> ConfigEntry:
    names = broker_synonyms_with_base(name)
    key = broker_key(name)
    base = key or next(filter(None, map(broker_key, names)), None)
    config_type = ConfigType.UNKNOWN if base is None else base.described_type
    # An unknown key may belong to a plugin and be a secret.
    is_sensitive = config_type in (ConfigType.UNKNOWN, ConfigType.PASSWORD)
    synonyms = tuple(_synonyms(layers, name, names, is_sensitive))
    return ConfigEntry(
        name=name,
        value=None if is_sensitive else text,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=is_sensitive,
        read_only=name not in DYNAMIC_CONFIGS and name not in DYNAMIC_ONLY_CONFIGS.keys,
        type=config_type,
        synonyms=synonyms,
        documentation=None if key is None else key.doc,
    )


def _broker_text(broker: Values, merged: Mapping[str, str], name: str) -> str | None:
    if name not in broker:
        return merged[name]
    value = broker[name]
    return None if value is None else value_text(value)


def _synonyms(layers: BrokerLayers, name: str, names: tuple[str, ...], is_sensitive: bool) -> list[ConfigSynonym]:
    """The configs that are set under any of `names`, from the first one with `name` on, as in Kafka.

    A `log.retention.hours` alone is therefore not listed for `log.retention.ms`, although it determines the value.
    """
    defaults = {each: text for each in names if (text := BROKER_CONFIGS.default_text(each)) is not None}
    found = [
        ConfigSynonym(each, None if is_sensitive else layer[each], source)
        for layer, source in (
            (layers.broker, ConfigSource.BROKER),
            (layers.cluster, ConfigSource.DEFAULT_BROKER),
            (layers.static, ConfigSource.STATIC_BROKER),
            (defaults, ConfigSource.DEFAULT),
        )
        for each in names
        if each in layer
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[first:]


def _scaled(value: ConfigValue, factor: int) -> int:
    assert isinstance(value, int), "only numbers have units"
    return value * factor
