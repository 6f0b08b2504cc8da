"""Dynamic configs of topics, brokers, all brokers, groups, and client metrics subscriptions."""

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from kraft import lazy_attrs
from metadata.image.persistent_map import PersistentMap, place_text
from metadata.protocol import ConfigResourceType
from metadata.records import ConfigRecord


class ConfigResource(NamedTuple):
    """The resource of a config. `type` is a ConfigResourceType's number; a BROKER without a name means all brokers."""

    type: int
    name: str


NOTHING_SET: Mapping[str, str] = {}


def _place(resource: ConfigResource) -> int:
    return place_text(resource.name)


@lazy_attrs.frozen
class ConfigsImage:
    """The resources that have dynamic configs, with their configs."""

    resources: PersistentMap[ConfigResource, Mapping[str, str]] = attrs.field(factory=lambda: PersistentMap(_place))

    def of(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.resources.get(resource) or NOTHING_SET

    def topic(self, name: str) -> Mapping[str, str]:
        return self.of(ConfigResource(ConfigResourceType.TOPIC, name))

    def broker(self, broker_id: int) -> Mapping[str, str]:
        return self.of(ConfigResource(ConfigResourceType.BROKER, str(broker_id)))

    def group(self, group_id: str) -> Mapping[str, str]:
        return self.of(ConfigResource(ConfigResourceType.GROUP, group_id))

    def client_metrics(self, name: str) -> Mapping[str, str]:
        return self.of(ConfigResource(ConfigResourceType.CLIENT_METRICS, name))

    def all_brokers(self) -> Mapping[str, str]:
        return self.of(ConfigResource(ConfigResourceType.BROKER, ""))


class ConfigsDelta:
    """`changed` holds the new value of each changed config of each resource, or None for a removed config."""

    def __init__(self, base: ConfigsImage) -> None:
        self.base = base
        self.changed: dict[ConfigResource, dict[str, str | None]] = {}

    def replay(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        self.changed.setdefault(resource, {})[record.name] = record.value

    def remove_resource(self, resource: ConfigResource) -> None:
        changed = self.changed.pop(resource, {})
        if gone := [*self.base.of(resource), *changed]:
            self.changed[resource] = dict.fromkeys(gone)

    def apply(self) -> ConfigsImage:
        after = {resource: self._after(resource) for resource in self.changed}
        return ConfigsImage(
            self.base.resources.changed(
                {resource: configs for resource, configs in after.items() if configs},
                [resource for resource, configs in after.items() if not configs],
            )
        )

    def _after(self, resource: ConfigResource) -> Mapping[str, str]:
        configs = {**self.base.of(resource), **self.changed[resource]}
        return {name: value for name, value in configs.items() if value is not None}
