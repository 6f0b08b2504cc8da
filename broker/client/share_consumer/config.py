"""The config keys of share consumers (ShareConsumerConfig.java)."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import attrs

from broker.client.config import (
    ClientConfig,
    ClientSettings,
    flag,
    number,
    read_config,
    require_servers,
    text,
    whole_number,
)
from broker.client.errors import ConfigError
from metadata.protocol import ShareAcquireMode

EXPLICIT: Final = "explicit"
_BY_GROUP: Final = "it is a config of the group:"
_SET_BY: Final = "it is a config of the group; set it with Admin.incremental_alter_configs or `kraft configs set group`"
_BY_BROKERS: Final = "the brokers decide, by the config"
# Keys of consumers that no share consumer has, and where else their subjects are configured.
_OF_CONSUMERS: Final[Mapping[str, str]] = {
    "auto.offset.reset": f"{_BY_GROUP} share.auto.offset.reset",
    "isolation.level": f"{_BY_GROUP} share.isolation.level",
    "session.timeout.ms": f"{_BY_GROUP} share.session.timeout.ms",
    "heartbeat.interval.ms": f"{_BY_GROUP} share.heartbeat.interval.ms",
    "enable.auto.commit": "records are acknowledged, see share.acknowledgement.mode",
    "auto.commit.interval.ms": "records are acknowledged, see share.acknowledgement.mode",
    "group.instance.id": "share groups have no static members",
    "group.protocol": "share groups have one protocol",
    "group.remote.assignor": f"{_BY_BROKERS} group.share.assignors",
    "partition.assignment.strategy": f"{_BY_BROKERS} group.share.assignors",
}
# Keys of share groups (KIP-1240): all of their members have the same value, so no member has one of its own.
_OF_GROUPS: Final = frozenset(
    {
        "share.assignment.interval.ms",
        "share.auto.offset.reset",
        "share.delivery.count.limit",
        "share.heartbeat.interval.ms",
        "share.isolation.level",
        "share.partition.max.record.locks",
        "share.record.lock.duration.ms",
        "share.renew.acknowledge.enable",
        "share.session.timeout.ms",
    }
)


@attrs.frozen(kw_only=True)
class ShareConsumerConfig(ClientConfig):
    """Kafka's keys of share consumers."""

    group_id: str | None = text(None)
    share_acknowledgement_mode: str = text("implicit", one_of=("implicit", EXPLICIT))
    share_acquire_mode: str = text("batch_optimized", one_of=("batch_optimized", "record_limit"))
    max_poll_interval_ms: int = whole_number(300_000, at_least=1)
    max_poll_records: int = whole_number(500, at_least=1)
    check_crcs: bool = flag(True)
    allow_auto_create_topics: bool = flag(True)
    default_api_timeout_ms: float = number(60_000, at_least=0)
    fetch_min_bytes: int = whole_number(1, at_least=0)
    fetch_max_bytes: int = whole_number(50 << 20, at_least=0)
    fetch_max_wait_ms: int = whole_number(500, at_least=0)

    def __attrs_post_init__(self) -> None:
        """Raises ConfigError if no server or no group is given."""
        require_servers(self)
        if not self.group_id:
            raise ConfigError("a share consumer needs a group.id")

    @property
    def group(self) -> str:
        """`group.id`, which every share consumer has."""
        assert self.group_id is not None, "it was checked"
        return self.group_id

    @property
    def is_explicit(self) -> bool:
        return self.share_acknowledgement_mode == EXPLICIT

    @property
    def acquire_mode(self) -> ShareAcquireMode:
        return ShareAcquireMode[self.share_acquire_mode.upper()]


class ShareConsumerSettings(ClientSettings, total=False):
    """Keyword arguments of ShareConsumer: Kafka's keys with underscores. Times are in milliseconds, sizes in bytes."""

    group_id: str
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    max_poll_interval_ms: int
    max_poll_records: int
    check_crcs: bool
    allow_auto_create_topics: bool
    default_api_timeout_ms: float
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int


def read_share_config(
    bootstrap_servers: str | Sequence[str] | None,
    config: Mapping[str, object] | None,
    settings: Mapping[str, object],
) -> ShareConsumerConfig:
    """Reads the config as `read_config` does. Raises ConfigError, for keys of others with the reason."""
    for key in [*(config or {}), *settings]:
        dotted = key.replace("_", ".") if isinstance(key, str) else ""
        if dotted in _OF_CONSUMERS:
            raise ConfigError(f"{key} does not apply to a share consumer: {_OF_CONSUMERS[dotted]}")
        if dotted in _OF_GROUPS:
            raise ConfigError(f"{key} does not apply to a share consumer: {_SET_BY}")
    return read_config(ShareConsumerConfig, bootstrap_servers, config, settings)
