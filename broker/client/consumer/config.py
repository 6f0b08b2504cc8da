"""The config keys of consumers (ConsumerConfig.java)."""

from collections.abc import Mapping
from typing import Final

import attrs

from broker.client.arguments.check import shown
from broker.client.config import (
    ClientConfig,
    ClientSettings,
    flag,
    number,
    parsed,
    require_servers,
    text,
    whole_number,
)
from broker.client.consumer.offset_reset import LATEST, OffsetReset, read_offset_reset
from broker.client.errors import ConfigError

_JAVA_ASSIGNORS: Final[Mapping[str, str]] = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_ASSIGNORS: Final = tuple(_JAVA_ASSIGNORS.values())


def _read_assignors(key: str, value: object) -> tuple[str, ...]:
    """Names of assignors, or Kafka's names of their classes; objects are passed as `assignors=`."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts:
        raise ConfigError(f"{key} must be a list of {', '.join(_ASSIGNORS)}, not {shown(value)}")
    names = []
    for part in parts:
        name = part.strip() if isinstance(part, str) else ""
        name = _JAVA_ASSIGNORS.get(name, name)
        if name not in _ASSIGNORS:
            raise ConfigError(f"{key} must name {', '.join(_ASSIGNORS)}, not {shown(part)}")
        names.append(name)
    return tuple(dict.fromkeys(names))


@attrs.frozen(kw_only=True)
class ConsumerConfig(ClientConfig):
    """Kafka's keys of consumers. `group_protocol` is None for the newest one that the broker has."""

    group_id: str | None = text(None)
    group_instance_id: str | None = text(None)
    group_protocol: str | None = text(None, one_of=("classic", "consumer"))
    group_remote_assignor: str | None = text(None)
    session_timeout_ms: int = whole_number(45_000, at_least=1)
    heartbeat_interval_ms: int = whole_number(3_000, at_least=1)
    partition_assignment_strategy: tuple[str, ...] = parsed(("range", "cooperative-sticky"), _read_assignors)
    max_poll_interval_ms: int = whole_number(300_000, at_least=1)
    max_poll_records: int = whole_number(500, at_least=1)
    enable_auto_commit: bool = flag(True)
    auto_commit_interval_ms: int = whole_number(5_000, at_least=0)
    auto_offset_reset: OffsetReset | None = parsed(LATEST, read_offset_reset)  # noqa: RUF009 - it is frozen
    isolation_level: str = text("read_uncommitted", one_of=("read_uncommitted", "read_committed"))
    check_crcs: bool = flag(True)
    exclude_internal_topics: bool = flag(True)
    allow_auto_create_topics: bool = flag(True)
    default_api_timeout_ms: float = number(60_000, at_least=0)
    fetch_min_bytes: int = whole_number(1, at_least=0)
    fetch_max_bytes: int = whole_number(50 << 20, at_least=0)
    fetch_max_wait_ms: int = whole_number(500, at_least=0)
    max_partition_fetch_bytes: int = whole_number(1 << 20, at_least=0)
    # Not one of Kafka's keys: what all brokers' responses together may hold that no poll has returned yet. As much as
    # librdkafka's queued.max.messages.kbytes.
    fetch_buffer_bytes: int = whole_number(64 << 20, at_least=1)

    def __attrs_post_init__(self) -> None:
        """Raises ConfigError if no server is given."""
        require_servers(self)


class ConsumerSettings(ClientSettings, total=False):
    """Keyword arguments of Consumer: Kafka's keys with underscores. Times are in milliseconds, sizes in bytes."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str | None
    group_remote_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    partition_assignment_strategy: str | list[str] | tuple[str, ...]
    max_poll_interval_ms: int
    max_poll_records: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: str
    check_crcs: bool
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    default_api_timeout_ms: float
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    fetch_buffer_bytes: int
