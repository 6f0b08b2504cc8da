"""The keys of a group. Each is a key of the broker without `group.`; the broker's value is the default."""

from collections.abc import Mapping

from metadata.configuration.broker import BrokerConfigs
from metadata.configuration.definition import ConfigDef, ConfigValue, ConfigValues, InvalidConfig, from_broker


class GroupConfigs(ConfigValues):
    """The keys of a group. Kafka's keys of share groups and streams groups are missing, because such groups are not
    supported. To set one of them is an error.
    """

    consumer_session_timeout_ms = from_broker(
        BrokerConfigs.group_consumer_session_timeout_ms,
        doc="A consumer that was silent for this many ms leaves the group (KIP-848).",
    )
    consumer_heartbeat_interval_ms = from_broker(
        BrokerConfigs.group_consumer_heartbeat_interval_ms,
        doc="How often in ms the group's consumers are told to send heartbeats.",
    )
    consumer_assignment_interval_ms = from_broker(
        BrokerConfigs.group_consumer_assignment_interval_ms,
        doc="Shortest time in ms between two assignments of the group.",
        takes_effect=False,
    )


GROUP_CONFIGS = ConfigDef(GroupConfigs)


def default_of(name: str) -> str:
    """The broker's key whose value is the default of the group's key `name`."""
    return GROUP_CONFIGS.keys[name].synonyms[0].name


def group_values(broker: Mapping[str, ConfigValue | None], overrides: Mapping[str, str]) -> dict[str, int]:
    """The values of a group with the configs `overrides`. Raises InvalidConfig for a malformed value."""
    return {
        name: _integer(key.parse(overrides[name]) if name in overrides else broker[default_of(name)])
        for name, key in GROUP_CONFIGS.keys.items()
    }


def check_group_values(broker: Mapping[str, ConfigValue | None], values: Mapping[str, int]) -> None:
    """Raises InvalidConfig if values exceed the broker's bounds, or contradict each other."""
    heartbeat = GroupConfigs.consumer_heartbeat_interval_ms.name
    session = GroupConfigs.consumer_session_timeout_ms.name
    for name in (heartbeat, session, GroupConfigs.consumer_assignment_interval_ms.name):
        protocol, _, key = name.partition(".")
        low, high = f"group.{protocol}.min.{key}", f"group.{protocol}.max.{key}"
        if values[name] < _integer(broker[low]):
            raise InvalidConfig(f"{name} must be greater than or equal to {low}")
        if values[name] > _integer(broker[high]):
            raise InvalidConfig(f"{name} must be less than or equal to {high}")
    if values[session] <= values[heartbeat]:
        raise InvalidConfig(f"{session} must be greater than {heartbeat}")


def _integer(value: ConfigValue | None) -> int:
    assert isinstance(value, int), "this key holds a number"
    return value
