"""Changes of dynamic configs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from metadata.configuration import (
    BROKER_CONFIGS,
    BrokerConfigs,
    ClientMetricsRequestError,
    ConfigSchema,
    InvalidConfig,
    append_to_list,
    parse_int,
    subtract_from_list,
)
from metadata.controller.decision import Decision
from metadata.controller.election_configs import check_min_insync_replicas, elections_by_configs
from metadata.controller.feature_levels import CORDONS_SINCE, METADATA_VERSION, RELEASES
from metadata.controller.topic_names import validate_topic_name
from metadata.image import ConfigResource, MetadataImage
from metadata.protocol import ConfigOperation, ConfigResourceType, ErrorCode, KafkaError
from metadata.records import ConfigRecord

# Configs of one resource in one request, which become one batch. A broker has fewer than 400 configs.
CONFIGS_MAX: Final = 1_000
# The resources whose configs are in the metadata log. Those of loggers are not stored.
_STORED_TYPES: Final = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
)


class ConfigChange(NamedTuple):
    """One config of one resource; `op` is a ConfigOperation's number, `value` is None for DELETE."""

    name: str
    op: int
    value: str | None


# The changes to some configs of each resource, and the new values of all its configs.
ConfigChanges: TypeAlias = Sequence[tuple[ConfigResource, Sequence[ConfigChange]]]
ConfigValues: TypeAlias = Sequence[tuple[ConfigResource, Sequence[tuple[str, str | None]]]]


class ConfigOutcome(NamedTuple):
    """The result for one resource of a request; `error` is None if it succeeded."""

    resource: ConfigResource
    error: KafkaError | None


class ConfigsControl:
    """Changes the configs of topics, brokers, groups and client metrics subscriptions.

    Each resource of a request succeeds or fails independently.
    """

    def __init__(self, schema: ConfigSchema) -> None:
        self._schema = schema

    def incremental_alter(self, image: MetadataImage, changes: ConfigChanges) -> Decision[list[ConfigOutcome]]:
        """Change some configs of each resource, and keep its other ones."""
        named = Counter(resource for resource, _ in changes)
        records: list[ConfigRecord] = []
        outcomes = []
        for resource, ops in changes:
            try:
                nulls = [op.name for op in ops if op.value is None and op.op != ConfigOperation.DELETE]
                _check_resource(resource, named[resource], [op.name for op in ops], nulls)
                before = image.configs.of(resource)
                kind = ConfigResourceType(resource.type)
                wanted = {op.name: value_after(self._schema, kind, op, before.get(op.name)) for op in ops}
                records += self._change(image, resource, wanted)
                outcomes.append(ConfigOutcome(resource, None))
            except KafkaError as error:
                outcomes.append(ConfigOutcome(resource, error.with_traceback(None)))
        return Decision([*records, *elections_by_configs(image, self._schema, records)], outcomes)

    def alter(self, image: MetadataImage, configs: ConfigValues) -> Decision[list[ConfigOutcome]]:
        """Replace all configs of each resource. Configs that are not named return to their defaults."""
        named = Counter(resource for resource, _ in configs)
        records: list[ConfigRecord] = []
        outcomes = []
        for resource, pairs in configs:
            try:
                nulls = [name for name, value in pairs if value is None]
                _check_resource(resource, named[resource], [name for name, _ in pairs], nulls)
                wanted = {**dict.fromkeys(image.configs.of(resource)), **dict(pairs)}
                records += self._change(image, resource, wanted)
                outcomes.append(ConfigOutcome(resource, None))
            except KafkaError as error:
                outcomes.append(ConfigOutcome(resource, error.with_traceback(None)))
        return Decision([*records, *elections_by_configs(image, self._schema, records)], outcomes)

    def _change(
        self, image: MetadataImage, resource: ConfigResource, wanted: Mapping[str, str | None]
    ) -> list[ConfigRecord]:
        """The records of the changed configs. Another config that was invalid before does not hinder the change.

        For brokers, unchanged configs get a record, too: setting a file's path again makes the broker read the file
        again (KAFKA-14136).
        """
        before = image.configs.of(resource)
        kept = self._schema.valid_alone(ConfigResourceType(resource.type), before, per_broker=bool(resource.name))
        after = {name: value for name, value in {**kept, **wanted}.items() if value is not None}
        self._validate(image, resource, kept, after)
        for name, value in wanted.items():
            check_min_insync_replicas(image, resource, name, value)
            _check_cordoning(image, resource, name)
        return [
            ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
            for name, value in wanted.items()
            if value != before.get(name) or resource.type == ConfigResourceType.BROKER
        ]

    def _validate(
        self, image: MetadataImage, resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        if resource.type == ConfigResourceType.TOPIC:
            self._validate_topic(image, resource.name, before, after)
        elif resource.type == ConfigResourceType.GROUP:
            self._validate_group(resource.name, after)
        elif resource.type == ConfigResourceType.CLIENT_METRICS:
            self._validate_client_metrics(resource.name, after)
        else:
            self._validate_broker(image, resource.name, before, after)

    def _validate_topic(
        self, image: MetadataImage, name: str, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        validate_topic_name(name)
        try:
            self._schema.validate_topic(after, before)
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error
        if name not in image.topics.by_name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def _validate_group(self, name: str, after: Mapping[str, str]) -> None:
        """Validate a group's configs. The group need not exist: only its coordinator knows the groups."""
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        try:
            self._schema.validate_group(after)
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error

    def _validate_client_metrics(self, name: str, after: Mapping[str, str]) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        try:
            self._schema.validate_client_metrics(after)
        except ClientMetricsRequestError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error
        except InvalidConfig as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error

    def _validate_broker(
        self, image: MetadataImage, name: str, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        broker_id = parse_int(name) if name else None
        if broker_id is not None and broker_id < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
        try:
            self._schema.validate_broker(
                after,
                per_broker=broker_id is not None,
                existing=before,
                cluster=self._schema.valid_alone(ConfigResourceType.BROKER, image.configs.all_brokers()),
            )
        except InvalidConfig as error:  # INVALID_REQUEST as in Kafka, although INVALID_CONFIG would fit (KAFKA-13609)
            raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error
        if broker_id is not None and broker_id not in image.cluster.brokers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {broker_id} found.")


def value_after(
    schema: ConfigSchema, kind: ConfigResourceType, change: ConfigChange, current: str | None
) -> str | None:
    """The value of a config after a change; None if it has none of its own. Raises KafkaError."""
    if change.op == ConfigOperation.DELETE:
        return None
    value = change.value or ""
    if change.op == ConfigOperation.SET:
        return value
    if change.op not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.op}")
    if not schema.is_list(kind, change.name):
        raise KafkaError(ErrorCode.INVALID_CONFIG, _no_list_message(kind, change))
    start = schema.default(kind, change.name) if current is None else current
    return (append_to_list if change.op == ConfigOperation.APPEND else subtract_from_list)(start, value)


def _no_list_message(kind: ConfigResourceType, change: ConfigChange) -> str:
    operation = ConfigOperation(change.op).name
    if kind is ConfigResourceType.BROKER:
        if change.name not in BROKER_CONFIGS.keys:
            return f"Unknown config name: {change.name}"
        return f"Config value {operation.lower()} is not allowed for config key: {change.name}"
    return f"Can't {operation} to key {change.name} because its type is not LIST."


def _check_cordoning(image: MetadataImage, resource: ConfigResource, name: str) -> None:
    """Raises KafkaError INVALID_CONFIG if log directories cannot be cordoned yet (KIP-1066)."""
    is_cordon = resource.type == ConfigResourceType.BROKER and name == BrokerConfigs.cordoned_log_dirs.name
    if is_cordon and image.features.get(METADATA_VERSION, 0) < CORDONS_SINCE:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The {name} configuration value cannot be set because it requires {METADATA_VERSION} >= "
            f"{RELEASES[CORDONS_SINCE]}",
        )


def _check_resource(resource: ConfigResource, times: int, names: Sequence[str], nulls: Sequence[str]) -> None:
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len(names) > CONFIGS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A resource has {CONFIGS_MAX} configs at most.")
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    if resource.type not in _STORED_TYPES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}")
    if resource.type == ConfigResourceType.BROKER and resource.name and parse_int(resource.name) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {resource.name}")
