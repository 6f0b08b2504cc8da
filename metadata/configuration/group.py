"""A group's keys: a broker's key of the same name, with `group.` in front of it, is the default."""

from collections.abc import Mapping

from metadata.configuration.definition import ConfigDef, ConfigError, ConfigKey, ConfigValue
from metadata.configuration.validators import at_least
from metadata.configuration.vocabulary import INT, MEDIUM

# A table: name, type, default, rule, importance; then what it means. Kafka's keys of share groups and of streams groups
# are not here, since there are no such groups: nobody shall believe to have set something.
# fmt: off
_KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("consumer.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM,
        "A consumer that was silent for this many ms leaves the group (KIP-848)."),
    ConfigKey("consumer.heartbeat.interval.ms", INT, 4000, at_least(1), MEDIUM,
        "How often in ms the group's consumers are told to send heartbeats."),
    ConfigKey("consumer.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM,
        "Shortest time in ms between two assignments of the group."),
)
# fmt: on

GROUP_CONFIGS = ConfigDef(_KEYS)


def default_of(name: str) -> str:
    """The broker's key that stands behind a group's."""
    return f"group.{name}"


def group_values(broker: Mapping[str, ConfigValue | None], overrides: Mapping[str, str]) -> dict[str, int]:
    """Every group key's value for a group that sets `overrides`. Raises ConfigError about a value that is malformed."""
    return {
        name: _integer(key.parse(overrides[name]) if name in overrides else broker[default_of(name)])
        for name, key in GROUP_CONFIGS.keys.items()
    }


def check_group_values(broker: Mapping[str, ConfigValue | None], values: Mapping[str, int]) -> None:
    """Raises ConfigError where a value is out of the bounds of the broker's values, or they do not go together."""
    heartbeat, session = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
    for name in (heartbeat, session, "consumer.assignment.interval.ms"):
        protocol, _, key = name.partition(".")
        low, high = f"group.{protocol}.min.{key}", f"group.{protocol}.max.{key}"
        if values[name] < _integer(broker[low]):
            raise ConfigError(f"{name} must be greater than or equal to {low}")
        if values[name] > _integer(broker[high]):
            raise ConfigError(f"{name} must be less than or equal to {high}")
    if values[session] <= values[heartbeat]:
        raise ConfigError(f"{session} must be greater than {heartbeat}")


def _integer(value: ConfigValue | None) -> int:
    assert isinstance(value, int), "this key holds a number"
    return value
