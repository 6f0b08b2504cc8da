"""The requests that describe and alter configs."""

from typing import Any, Final

import attrs

from broker.wire.api.alter_configs import AlterableConfig as LegacyConfig
from broker.wire.api.alter_configs import AlterConfigsRequest
from broker.wire.api.alter_configs import AlterConfigsResource as LegacyResource
from broker.wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.api.list_config_resources import ListConfigResourcesRequest
from tests.differential.comparable import comparable
from tests.differential.families.configs.topic_steps import ChangingStep, full_name
from tests.differential.families.metadata_barrier import BARRIER
from tests.differential.sequences import Place, Step

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
# The types whose names are not those of a sequence.
_SHARED: Final = (BROKER, LOGGER)
_DOCUMENTED: Final = "documented"

Resource = tuple[int, str]


def _name(place: Place, kind: int, name: str) -> str:
    return name if kind in _SHARED else full_name(place, name)


@attrs.frozen(kw_only=True)
class DescribeConfigs(Step):
    """`resources` are types, names, and the keys to describe: None for all."""

    version: int = 4
    resources: tuple[tuple[int, str, tuple[str, ...] | None], ...] = ()
    with_synonyms: bool = True
    with_documentation: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        resources = [
            DescribeConfigsResource(
                resource_type=kind,
                resource_name=_name(place, kind, name),
                configuration_keys=None if keys is None else list(keys),
            )
            for kind, name, keys in self.resources
        ]
        message = DescribeConfigsRequest(resources=resources, include_synonyms=self.with_synonyms)
        message.include_documentation = self.with_documentation
        return message, self.version

    def comparable(self, place: Place, response: Any) -> Any:
        """Synonyms are in the order of their precedence; the texts of the documentation differ."""
        for result in response.results:
            for config in result.configs:
                config.documentation = config.documentation and _DOCUMENTED
                config.synonyms = [f"{each.name}={each.value} from {each.source}" for each in config.synonyms]
        found = comparable(response, place.labels)
        for result in found["results"]:
            result["configs"] = {config["name"]: config for config in result["configs"]}
        return found


@attrs.frozen(kw_only=True)
class AlterIncrementally(ChangingStep):
    """`resources` are types and names with their changes: key, operation, value."""

    version: int = 1
    resources: tuple[tuple[int, str, tuple[tuple[str, int, str | None], ...]], ...] = ()
    is_validation: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        resources = [
            AlterConfigsResource(
                resource_type=kind,
                resource_name=_name(place, kind, name),
                configs=[AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes],
            )
            for kind, name, changes in self.resources
        ]
        return IncrementalAlterConfigsRequest(resources=resources, validate_only=self.is_validation), self.version


@attrs.frozen(kw_only=True)
class AlterAll(ChangingStep):
    """The legacy AlterConfigs, which replaces all configs of a resource."""

    version: int = 2
    resources: tuple[tuple[int, str, tuple[tuple[str, str | None], ...]], ...] = ()
    is_validation: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        resources = [
            LegacyResource(
                resource_type=kind,
                resource_name=_name(place, kind, name),
                configs=[LegacyConfig(name=key, value=value) for key, value in configs],
            )
            for kind, name, configs in self.resources
        ]
        return AlterConfigsRequest(resources=resources, validate_only=self.is_validation), self.version


@attrs.frozen(kw_only=True)
class ListResources(Step):
    """The resources of this sequence, and the brokers, among those of all sequences."""

    version: int = 1
    types: tuple[int, ...] = ()

    def request(self, place: Place) -> tuple[Any, int]:
        return ListConfigResourcesRequest(resource_types=list(self.types)), self.version

    def comparable(self, place: Place, response: Any) -> Any:
        response.config_resources = [
            each
            for each in response.config_resources
            if each.resource_type in _SHARED
            or (each.resource_name.startswith(f"{place.name}-") and each.resource_name != place.named(BARRIER))
        ]
        return comparable(response, place.labels)
