"""The keys of a group. Each is a key of the broker without `group.`; the broker's value is the default."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

from metadata.configuration.broker import BrokerConfigs
from metadata.configuration.definition import (
    ConfigDef,
    ConfigKey,
    ConfigValue,
    ConfigValues,
    InvalidConfig,
    Required,
    Values,
    from_broker,
    invalid_value,
    key,
)
from metadata.configuration.validators import one_of
from metadata.configuration.vocabulary import BOOLEAN, MEDIUM, STRING

# The least and the greatest value of keys of groups, by their names.
GroupBounds: TypeAlias = Mapping[str, tuple[int, int]]

_BY_DURATION: Final = "by_duration:"


def share_offset_reset_ms(value: str) -> int | None:
    """The duration in ms of a value `by_duration:<duration>` of `share.auto.offset.reset` (KIP-1106); None of
    `earliest` and `latest`. Raises ValueError.
    """
    if value in ("earliest", "latest"):
        return None
    from metadata.protocol.durations import duration_ms  # for start-up time

    duration = duration_ms(value.removeprefix(_BY_DURATION)) if value.startswith(_BY_DURATION) else None
    if duration is None or duration < 0:
        raise ValueError(f"{value!r} is no offset reset")
    return duration


def _offset_reset(name: str, value: ConfigValue | None) -> None:
    try:
        share_offset_reset_ms(str(value))
    except ValueError:
        raise invalid_value(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of "
            "the format 'by_duration:<PnDTnHnMn.nS>'.",
        ) from None


# Each key: type, default, validator, importance; then its documentation.
# fmt: off
class GroupConfigs(ConfigValues):
    """The keys of a group. Kafka's keys of streams groups are missing, because such groups are not supported. To set
    one of them is an error.
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
    consumer_assignor_offload_enable = from_broker(
        BrokerConfigs.group_consumer_assignor_offload_enable, takes_effect=False
    )
    share_session_timeout_ms = from_broker(
        BrokerConfigs.group_share_session_timeout_ms,
        doc="A share consumer that was silent for this many ms leaves the group (KIP-932).",
    )
    share_heartbeat_interval_ms = from_broker(
        BrokerConfigs.group_share_heartbeat_interval_ms,
        doc="How often in ms the group's share consumers are told to send heartbeats.",
    )
    share_assignment_interval_ms = from_broker(
        BrokerConfigs.group_share_assignment_interval_ms,
        doc="Shortest time in ms between two assignments of the share group.",
    )
    share_assignor_offload_enable = from_broker(BrokerConfigs.group_share_assignor_offload_enable, takes_effect=False)
    share_record_lock_duration_ms = from_broker(
        BrokerConfigs.group_share_record_lock_duration_ms,
        doc="How long in ms a consumer of the group holds a record before another may get it.",
    )
    share_delivery_count_limit = from_broker(
        BrokerConfigs.group_share_delivery_count_limit,
        doc="How many times a record is delivered to the group before it is given up.",
    )
    share_partition_max_record_locks = from_broker(
        BrokerConfigs.group_share_partition_max_record_locks,
        doc="Most records of a partition that the group may hold at once.",
    )
    share_auto_offset_reset = key(STRING, "latest", _offset_reset, MEDIUM,
        "Where the group begins in a partition: latest, earliest, or by_duration:<ISO 8601 duration> before now.")
    share_isolation_level = key(STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted"), MEDIUM,
        "Whether the group gets the records of transactions that are not committed.")
    share_renew_acknowledge_enable = key(BOOLEAN, True, None, MEDIUM,
        "Whether the group's consumers may renew their locks of records (KIP-1222).")
    errors_deadletterqueue_topic_name = key(STRING, "", None, MEDIUM,
        "The topic that gets the share group's rejected records and those that were delivered too often (KIP-1191); "
        "none if empty.")
    errors_deadletterqueue_copy_record_enable = key(BOOLEAN, False, None, MEDIUM,
        "Whether dead letters have the key, the value and the headers of the record, or only headers that name it.")
# fmt: on


GROUP_CONFIGS = ConfigDef(GroupConfigs)
# The keys of the protocols whose values the broker bounds, by `group.<protocol>.min.` and `group.<protocol>.max.`.
_PROTOCOLS: Final = ("consumer", "share")
_BOUNDED: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_BOUNDED_OF_SHARES: Final = ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")


def default_of(name: str) -> str | None:
    """The broker's key whose value is the default of the group's key `name`, if there is one."""
    synonyms = GROUP_CONFIGS.keys[name].synonyms
    return synonyms[0].name if synonyms else None


def group_values(broker: Values, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """The values of a group with the configs `overrides`. Raises InvalidConfig for a malformed value."""
    return {name: _value(key, broker, overrides) for name, key in GROUP_CONFIGS.keys.items()}


def _value(of: ConfigKey[Any], broker: Values, overrides: Mapping[str, str]) -> ConfigValue:
    if of.name in overrides:
        return of.parse(overrides[of.name])
    value = broker[of.synonyms[0].name] if of.synonyms else of.default
    assert value is not None, "groups have no key without a value"
    assert not isinstance(value, Required), "nor one that must be set"
    return value


def group_bounds(broker: Values) -> GroupBounds:
    """The broker's bounds of the values of groups."""
    return {name: (_integer(broker[low]), _integer(broker[high])) for name, low, high in _bounded()}


def within_bounds(texts: Mapping[str, str], bounds: GroupBounds) -> Mapping[str, str]:
    """The usable configs of a group with each number moved to the nearest one that the bounds allow.

    The bounds may have become narrower since the number was set.
    """
    moved = {}
    for name, text in texts.items():
        if name in bounds:
            low, high = bounds[name]
            if not low <= (number := int(text)) <= high:
                moved[name] = str(max(low, min(number, high)))
    return {**texts, **moved} if moved else texts


def _bounded() -> Iterator[tuple[str, str, str]]:
    """The names of keys with bounds, and those of the broker's keys with the least and the greatest value."""
    for protocol in _PROTOCOLS:
        for suffix in _BOUNDED + (_BOUNDED_OF_SHARES if protocol == "share" else ()):
            yield f"{protocol}.{suffix}", f"group.{protocol}.min.{suffix}", f"group.{protocol}.max.{suffix}"


def check_group_values(broker: Values, values: Mapping[str, ConfigValue], names: Collection[str]) -> None:
    """Raises InvalidConfig if values under these names exceed the broker's bounds, or contradict others.

    Kafka refuses names of internal topics only; whether a topic may be a dead-letter topic is decided by each write.
    """
    for name, low, high in _bounded():
        if name in names and _integer(values[name]) < _integer(broker[low]):
            raise InvalidConfig(f"{name} must be greater than or equal to {low}")
        if name in names and _integer(values[name]) > _integer(broker[high]):
            raise InvalidConfig(f"{name} must be less than or equal to {high}")
    for protocol in _PROTOCOLS:
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if {session, heartbeat} & set(names) and _integer(values[session]) <= _integer(values[heartbeat]):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")
    dead_letters = GroupConfigs.errors_deadletterqueue_topic_name.name
    if dead_letters in names and str(values[dead_letters]).startswith("__"):
        raise InvalidConfig(f"{dead_letters}: DLQ topic name must not start with '__'")


def _integer(value: ConfigValue | None) -> int:
    assert isinstance(value, int), "this key holds a number"
    return value
