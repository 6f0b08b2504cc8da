"""Configs of topics, brokers and groups: described, altered one by one, listed (KIP-133, KIP-226, KIP-339)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import attrs

from broker.client.admin.routing import Deadline, Routing, is_retried_by_controller
from broker.client.brokers import Broker
from broker.client.errors import check
from broker.client.results import Failure, Outcomes, Results, failure, outcome_of
from broker.wire.api.create_topics import CreatableTopicConfigs
from broker.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.wire.api.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from metadata.protocol import ConfigOperation, ConfigResourceType, ConfigSource, ConfigType


class ConfigResource(NamedTuple):
    """A topic, a broker by its id, or a group. The broker named "" stands for the default of all brokers."""

    type: ConfigResourceType
    name: str

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"default {kind}"


class ConfigSynonym(NamedTuple):
    """A value that a config would have if the sources before this one were not set."""

    name: str
    value: str | None
    source: ConfigSource


@attrs.frozen
class ConfigEntry:
    """The value of a config. `value` is None where it is not set, and for secrets, which `is_sensitive` marks."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT


@attrs.frozen
class ConfigChange:
    """One change of one config. `value` is None for DELETE only."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET

    def __attrs_post_init__(self) -> None:
        if (self.value is None) != (self.operation == ConfigOperation.DELETE):
            raise ValueError(f"{self.name}: DELETE takes no value, and every other operation takes one")


class ConfigCalls(Routing):
    """Calls on configs. Those of one broker go to this broker, all others to any."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Returns the configs of resources by name: all, or those in `names`."""
        keys = None if names is None else list(names)

        async def ask(
            broker: Broker, pending: Sequence[ConfigResource], deadline: Deadline
        ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
            request = DescribeConfigsRequest(
                resources=[_describable(resource, keys) for resource in pending],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
            response: DescribeConfigsResponse = await broker.call(request)
            return {_resource(result): _described(result) for result in response.results}

        return await self._by_node(resources, _node_of, ask, timeout_ms, is_retried_by_controller)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Changes single configs of resources; the other configs stay. A resource takes all its changes or none."""
        changes_of = {resource: list(of_one) for resource, of_one in changes.items()}

        async def ask(
            broker: Broker, pending: Sequence[ConfigResource], deadline: Deadline
        ) -> Outcomes[ConfigResource, None]:
            request = IncrementalAlterConfigsRequest(
                resources=[_alterable(resource, changes_of[resource]) for resource in pending],
                validate_only=validate_only,
            )
            response: IncrementalAlterConfigsResponse = await broker.call(request)
            return {
                _resource(result): failure(result.error_code, result.error_message) for result in response.responses
            }

        # The active controller changes the configs of every broker (KIP-919); only loggers are a node's own.
        node_of = _node_of_logger if self._uses_controllers else _node_of
        return await self._by_node(changes_of, node_of, ask, timeout_ms, is_retried_by_controller)

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """Returns the resources of some types that have configs or can have them; of all types by default (KIP-1142).

        Raises KafkaError; UnsupportedByBroker by brokers before Kafka 4.1, unless only client metrics are asked for.
        """
        wanted = [int(each) for each in types]
        knows_types = wanted != [ConfigResourceType.CLIENT_METRICS]

        async def ask(broker: Broker, deadline: Deadline) -> list[ConfigResource]:
            version = broker.version_of(ListConfigResourcesRequest, lowest=1 if knows_types else 0)
            request = ListConfigResourcesRequest(resource_types=wanted if version >= 1 else [])
            response: ListConfigResourcesResponse = await broker.call(request, version=version)
            check(response.error_code)
            return [
                ConfigResource(ConfigResourceType(each.resource_type), each.resource_name)
                for each in response.config_resources
            ]

        return await self._ask_any(ask, timeout_ms)


def entry_of_created_topic(config: CreatableTopicConfigs) -> ConfigEntry:
    """A config as CreateTopics reports it (KIP-525)."""
    return ConfigEntry(
        config.name, config.value, ConfigSource(config.config_source), config.read_only, config.is_sensitive
    )


def _node_of(resource: ConfigResource) -> int | None:
    """The broker that a resource belongs to. A name that is no broker's id is left for any broker to refuse."""
    is_of_broker = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    return int(resource.name) if is_of_broker and resource.name.isdecimal() else None


def _node_of_logger(resource: ConfigResource) -> int | None:
    return _node_of(resource) if resource.type == ConfigResourceType.BROKER_LOGGER else None


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=ConfigSource(config.config_source),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        type=ConfigType(config.config_type),
        synonyms=tuple(ConfigSynonym(each.name, each.value, ConfigSource(each.source)) for each in config.synonyms),
        documentation=config.documentation or None,
    )


def _describable(resource: ConfigResource, keys: list[str] | None) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=resource.type, resource_name=resource.name, configuration_keys=keys)


def _described(result: DescribeConfigsResult) -> dict[str, ConfigEntry] | Failure:
    entries = {entry.name: _entry(entry) for entry in result.configs}
    return outcome_of(result.error_code, result.error_message, entries)


def _alterable(resource: ConfigResource, changes: Iterable[ConfigChange]) -> AlterConfigsResource:
    configs = [
        AlterableConfig(name=change.name, config_operation=change.operation, value=change.value) for change in changes
    ]
    return AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=configs)


def _resource(result: DescribeConfigsResult | AlterConfigsResourceResponse) -> ConfigResource:
    return ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
