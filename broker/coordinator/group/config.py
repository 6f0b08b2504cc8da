"""The configs of group coordinators, as numbers."""

from collections.abc import Mapping
from typing import Final

import attrs

from broker.config import KafkaConfig
from broker.config.checks import ASSIGNOR_CLASSES
from metadata.configuration import BrokerConfigs, GroupConfigs
from metadata.configuration.settings import from_key, settings_from

_MINUTE_MS: Final = 60_000
_SESSION_TIMEOUT: Final = GroupConfigs.consumer_session_timeout_ms.name
_HEARTBEAT_INTERVAL: Final = GroupConfigs.consumer_heartbeat_interval_ms.name


@attrs.frozen(kw_only=True)
class ConsumerGroupConfig:
    """`assignors` by name, the default first. `can_upgrade` has a classic group become a consumer group while it lives,
    `can_downgrade` the other way round."""

    session_timeout_ms: int = from_key(BrokerConfigs.group_consumer_session_timeout_ms)
    heartbeat_interval_ms: int = from_key(BrokerConfigs.group_consumer_heartbeat_interval_ms)
    members_max: int = from_key(BrokerConfigs.group_consumer_max_size)
    assignors: tuple[str, ...] = ("uniform", "range")
    can_upgrade: bool = True
    can_downgrade: bool = True
    regex_refresh_interval_ms: int = from_key(BrokerConfigs.group_consumer_regex_refresh_interval_ms)

    @classmethod
    def of(cls, config: KafkaConfig) -> "ConsumerGroupConfig":
        """As the node is configured."""
        policy = config.group_consumer_migration_policy.lower()
        return settings_from(
            cls,
            config,
            assignors=tuple(ASSIGNOR_CLASSES.get(name, name) for name in config.group_consumer_assignors),
            can_upgrade=policy in ("upgrade", "bidirectional"),
            can_downgrade=policy in ("downgrade", "bidirectional"),
        )

    def of_group(self, overrides: Mapping[str, str]) -> "ConsumerGroupConfig":
        """As it is for a group that sets `overrides`, which the controller has found to be right."""
        if not overrides:
            return self
        return attrs.evolve(
            self,
            session_timeout_ms=int(overrides.get(_SESSION_TIMEOUT, self.session_timeout_ms)),
            heartbeat_interval_ms=int(overrides.get(_HEARTBEAT_INTERVAL, self.heartbeat_interval_ms)),
        )


@attrs.frozen(kw_only=True)
class GroupConfig:
    """`offset_metadata_max_bytes` counts characters, as Kafka does.

    `initial_rebalance_delay_ms` and `group_max_size` are those of classic groups.
    """

    offset_metadata_max_bytes: int = from_key(BrokerConfigs.offset_metadata_max_bytes)
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = from_key(BrokerConfigs.offsets_retention_check_interval_ms)
    initial_rebalance_delay_ms: int = from_key(BrokerConfigs.group_initial_rebalance_delay_ms)
    group_max_size: int = from_key(BrokerConfigs.group_max_size)
    consumer: ConsumerGroupConfig = attrs.field(factory=ConsumerGroupConfig)

    @classmethod
    def of(cls, config: KafkaConfig) -> "GroupConfig":
        """As the node is configured."""
        return settings_from(
            cls,
            config,
            offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
            consumer=ConsumerGroupConfig.of(config),
        )
