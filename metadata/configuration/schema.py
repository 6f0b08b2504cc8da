"""Validation of config changes before they are written to the metadata log."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar, cast

from metadata.configuration.broker import BROKER_CONFIGS, DYNAMIC_CONFIGS, BrokerConfigs, broker_key
from metadata.configuration.client_metrics import CLIENT_METRICS_CONFIGS, check_client_metrics
from metadata.configuration.definition import (
    ConfigDef,
    ConfigKey,
    ConfigValue,
    InvalidConfig,
    Scope,
    UpdateMode,
    Values,
    invalid_value,
)
from metadata.configuration.effective import topic_values, usable
from metadata.configuration.group import GROUP_CONFIGS, check_group_values, group_values
from metadata.configuration.synonyms import listener_base
from metadata.configuration.topic import TOPIC_CONFIGS, TopicConfigs
from metadata.protocol import ConfigResourceType, ConfigType

T = TypeVar("T")

# The value of the local retention that stands for that of the whole log.
_LIKE_TOTAL: Final = -2
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# 0 would keep everyone out. A file may say 0, in a dynamic config it is refused, as in Kafka.
_CONNECTION_LIMITS: Final = frozenset(
    key.name for key in (BrokerConfigs.max_connections, BrokerConfigs.max_connection_creation_rate)
)
# The keys of a listener that may be set for the listeners of all brokers at once.
_LISTENER_LIMITS: Final = _CONNECTION_LIMITS | {BrokerConfigs.num_network_threads.name}
# Numbers of threads. A change may at most double or halve them (KIP-226).
_THREAD_COUNTS: Final = frozenset(
    key.name
    for key in (
        BrokerConfigs.background_threads,
        BrokerConfigs.log_cleaner_threads,
        BrokerConfigs.num_io_threads,
        BrokerConfigs.num_network_threads,
        BrokerConfigs.num_recovery_threads_per_data_dir,
        BrokerConfigs.num_replica_fetchers,
        BrokerConfigs.remote_log_manager_copier_thread_pool_size,
        BrokerConfigs.remote_log_manager_expiration_thread_pool_size,
        BrokerConfigs.remote_log_manager_follower_thread_pool_size,
        BrokerConfigs.remote_log_reader_threads,
    )
)

# Raises InvalidConfig if the dynamic configs of all brokers and those of one contradict each other, or a node's file.
CheckDynamic: TypeAlias = Callable[[Mapping[str, str], Mapping[str, str]], None]


class ConfigSchema:
    """The rules for all resources, given the values of the broker or controller that applies them.

    `broker` are those values as KafkaConfig has parsed them; they are the defaults of topics and groups.
    `check_dynamic` compares dynamic configs of brokers with each other; None compares nothing.
    """

    def __init__(self, broker: Values, check_dynamic: CheckDynamic | None = None) -> None:
        self._broker = broker
        self._check_dynamic = check_dynamic

    def validate_topic(self, configs: Mapping[str, str], existing: Mapping[str, str] | None = None) -> None:
        """Validate a topic's new configs, given its existing ones. Raises InvalidConfig (INVALID_CONFIG)."""
        for name in configs:
            if name not in TOPIC_CONFIGS.keys:
                raise InvalidConfig(f"Unknown topic config name: {name}")
        values = topic_values(self._broker, configs)
        for name, key in TOPIC_CONFIGS.keys.items():
            if (
                key.validator is not None
            ):  # the broker's defaults are checked, too: the broker's own validators are not always as strict
                key.validator(name, values[name])
        topic = TopicConfigs(values)
        _check_compaction_lags(topic)
        if topic.remote_storage_enable:
            self._check_remote_storage(topic)
        elif _is_true(existing, TopicConfigs.remote_storage_enable.name) and not topic.remote_log_delete_on_disable:
            raise InvalidConfig(
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote "
                "data and turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If "
                "you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )

    def validate_broker(
        self,
        configs: Mapping[str, str],
        *,
        per_broker: bool,
        existing: Mapping[str, str] = _NOTHING,
        cluster: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Validate the new configs of one broker, or of all brokers. Raises InvalidConfig.

        `existing` are the configs that the change replaces, `cluster` those of all brokers, for one broker.

        Kafka answers INVALID_REQUEST to this one (KAFKA-13609), not INVALID_CONFIG. Unknown names pass: they may belong
        to a plugin.
        """
        self.validate_broker_keys(configs, per_broker=per_broker)
        for name, text in configs.items():
            if text == existing.get(name):
                continue
            _check_repetitions(name, text)
            if _is_thread_count(name):
                self._check_thread_count(name, int(text), existing.get(name, cluster.get(name)))
        self._check_contradictions(configs, existing, cluster if per_broker else None)

    def validate_broker_keys(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        """As `validate_broker`, without comparing configs with each other."""
        _refuse(
            [name for name in configs if name in BROKER_CONFIGS.keys and name not in DYNAMIC_CONFIGS],
            "Cannot update these configs dynamically",
        )
        _refuse(
            [name for name in configs if _is_per_listener(name)],
            "These security configs can be dynamically updated only per-listener using the listener prefix",
        )
        for name, text in configs.items():
            key = broker_key(listener_base(name) or name)
            if key is not None and key.update_mode is not UpdateMode.READ_ONLY:
                value = key.parse(text)
                if key.name in _CONNECTION_LIMITS and value == 0:
                    raise invalid_value(name, value, "Value must be at least 1")
        if not per_broker:
            _refuse(
                [name for name in configs if _is_per_broker(name)],
                "Cannot update these configs at default cluster level, broker id must be specified",
            )

    def _check_thread_count(self, name: str, count: int, current: str | None) -> None:
        before = _integer(self._broker[listener_base(name) or name]) if current is None else int(current)
        reason = f"Dynamic thread count update validation failed for {name}={count}"
        if count < before // 2:
            raise InvalidConfig(f"{reason}, value should be at least half the current value {before}")
        if count > before * 2:
            raise InvalidConfig(f"{reason}, value should not be greater than double the current value {before}")

    def _check_contradictions(
        self, configs: Mapping[str, str], existing: Mapping[str, str], cluster: Mapping[str, str] | None
    ) -> None:
        """Raises InvalidConfig for a contradiction that the change makes. One that was there does not hinder a change:
        the change may be a part of its removal.
        """
        check = self._check_dynamic
        if check is None:
            return
        try:
            check(*((configs, _NOTHING) if cluster is None else (cluster, configs)))
        except InvalidConfig:
            try:
                check(*((existing, _NOTHING) if cluster is None else (cluster, existing)))
            except InvalidConfig:
                return
            raise

    def valid_alone(
        self, resource_type: ConfigResourceType, configs: Mapping[str, str], *, per_broker: bool = False
    ) -> dict[str, str]:
        """The configs of a resource that are valid by themselves. See `unusable`."""
        definition = _definition(resource_type)
        if resource_type is not ConfigResourceType.BROKER:
            return {} if definition is None else dict(usable(definition, configs))
        return {name: text for name, text in configs.items() if self._is_valid_alone(name, text, per_broker)}

    def _is_valid_alone(self, name: str, text: str, per_broker: bool) -> bool:
        try:
            self.validate_broker_keys({name: text}, per_broker=per_broker)
        except InvalidConfig:
            return False
        return True

    def validate_group(self, configs: Mapping[str, str]) -> None:
        """Validate a group's new configs. Raises InvalidConfig (INVALID_CONFIG)."""
        for name in configs:
            if name not in GROUP_CONFIGS.keys:
                raise InvalidConfig(f"Unknown group config name: {name}")
        check_group_values(self._broker, group_values(self._broker, configs), configs)

    def validate_client_metrics(self, configs: Mapping[str, str]) -> None:
        """Validate the new configs of a client metrics subscription. See `check_client_metrics`."""
        check_client_metrics(configs)

    def is_list(self, resource_type: ConfigResourceType, name: str) -> bool:
        """True if a key is a list, which APPEND and SUBTRACT require (KIP-339)."""
        definition = _definition(resource_type)
        return definition is not None and definition.type_of(name) is ConfigType.LIST

    def is_sensitive(self, resource_type: ConfigResourceType, name: str) -> bool:
        """True if the value is secret. Unknown keys are secret, because they may belong to a plugin."""
        definition = _definition(resource_type)
        return definition is None or definition.type_of(name) in (ConfigType.UNKNOWN, ConfigType.PASSWORD)

    def default(self, resource_type: ConfigResourceType, name: str) -> str | None:
        """The default to which APPEND and SUBTRACT apply if the key is not set."""
        definition = _definition(resource_type)
        return None if definition is None else definition.default_text(name)

    def topic_value(self, key: ConfigKey[T], topic: Mapping[str, str], cluster: Mapping[str, str]) -> T:
        """The effective value of a topic's key, if the broker's key has the same name.

        `topic` and `cluster` are the configs of the topic and of all brokers.
        """
        for texts in (topic, cluster):
            if key.name in texts:
                with suppress(InvalidConfig):  # see `unusable`
                    return cast(T, key.parse(texts[key.name]))
        return cast(T, self._broker[key.name])

    def _check_remote_storage(self, topic: TopicConfigs) -> None:
        if not self._broker[BrokerConfigs.remote_log_storage_system_enable.name]:
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
        if topic.cleanup_policy != ("delete",):
            raise InvalidConfig("Remote log storage only supports topics with cleanup.policy=delete")
        check_local_retention(topic)


def split_list(text: str | None) -> list[str]:
    """The elements of a LIST for APPEND and SUBTRACT, without empty ones."""
    return [] if text is None else [element for element in text.split(",") if element]


def append_to_list(current: str | None, addition: str) -> str:
    """Append the elements of `addition` that are not in `current` (KIP-339's APPEND)."""
    elements = split_list(current)
    for element in _changed_elements(addition):
        if element not in elements:
            elements.append(element)
    return ",".join(elements)


def subtract_from_list(current: str | None, removal: str) -> str:
    """Remove each element of `removal` once from `current` (KIP-339's SUBTRACT)."""
    elements = split_list(current)
    for element in _changed_elements(removal):
        if element in elements:
            elements.remove(element)
    return ",".join(elements)


def _changed_elements(text: str) -> list[str]:
    """The elements of a change. Empty ones at the end do not count, as in Kafka, except in an empty text."""
    if not text:
        return [""]
    kept = text.rstrip(",")
    return kept.split(",") if kept else []


def _definition(resource_type: ConfigResourceType) -> ConfigDef | None:
    match resource_type:
        case ConfigResourceType.TOPIC:
            return TOPIC_CONFIGS
        case ConfigResourceType.BROKER:
            return BROKER_CONFIGS
        case ConfigResourceType.GROUP:
            return GROUP_CONFIGS
        case ConfigResourceType.CLIENT_METRICS:
            return CLIENT_METRICS_CONFIGS
        case _:
            return None


def _refuse(names: Sequence[str], reason: str) -> None:
    if names:
        raise InvalidConfig(f"{reason}: [{', '.join(names)}]")


def _is_thread_count(name: str) -> bool:
    return name in _THREAD_COUNTS or listener_base(name) == BrokerConfigs.num_network_threads.name


def _is_per_listener(name: str) -> bool:
    key = BROKER_CONFIGS.keys.get(name)
    return key is not None and key.scope is Scope.LISTENER


def _is_per_broker(name: str) -> bool:
    base = listener_base(name)
    if base is not None:
        return base not in _LISTENER_LIMITS
    key = BROKER_CONFIGS.keys.get(name)
    return key is not None and key.update_mode is UpdateMode.PER_BROKER


def _check_repetitions(name: str, text: str) -> None:
    """Raises InvalidConfig for a list with an element twice, which counts once in a file (KIP-1161)."""
    key = broker_key(listener_base(name) or name)
    if key is not None and key.type is ConfigType.LIST and not key.may_repeat:
        elements = [element.strip() for element in text.split(",")]
        if len(set(elements)) < len(elements):
            raise InvalidConfig(f"Configuration '{key.name}' values must not be duplicated.")


def _check_compaction_lags(topic: TopicConfigs) -> None:
    shortest, longest = topic.min_compaction_lag_ms, topic.max_compaction_lag_ms
    if shortest > longest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )


def check_local_retention(topic: TopicConfigs) -> None:
    """Raises InvalidConfig if the local part of a log is kept longer than the whole, or deleted before it is copied."""
    for unit in ("bytes", "ms"):
        _check_local_retention(topic, f"local.retention.{unit}", f"retention.{unit}")
        _check_copy_lag(topic, f"remote.copy.lag.{unit}", f"local.retention.{unit}", f"retention.{unit}")


def _check_copy_lag(topic: TopicConfigs, lag_name: str, local_name: str, total_name: str) -> None:
    lag, local = _integer(topic.values[lag_name]), _integer(topic.values[local_name])
    if local == _LIKE_TOTAL:
        local = _integer(topic.values[total_name])
    if lag > local >= 0:
        raise invalid_value(lag_name, lag, f"Value must not exceed {local_name} (effective value: {local})")


def _check_local_retention(topic: TopicConfigs, local_name: str, total_name: str) -> None:
    local, total = _integer(topic.values[local_name]), _integer(topic.values[total_name])
    if local == _LIKE_TOTAL:
        return
    if total > -1 and local == -1:
        raise invalid_value(local_name, local, f"Value must not be -1 as {total_name} value is set as {total}.")
    if -1 < total < local:
        raise invalid_value(local_name, local, f"Value must not be more than {total_name} property value: {total}")
    if topic.remote_log_copy_disable and local != total:
        raise InvalidConfig(
            f"When `remote.log.copy.disable` is set to true, the `{local_name}` and `{total_name}` must be set to the "
            "identical value because there will be no more logs copied to the remote storage."
        )


def _integer(value: ConfigValue | None) -> int:
    assert isinstance(value, int), "this key holds a number"
    return value


def _is_true(configs: Mapping[str, str] | None, name: str) -> bool:
    return configs is not None and configs.get(name, "").lower() == "true"
