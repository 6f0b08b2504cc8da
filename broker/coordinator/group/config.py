"""The configs of the group coordinator, as numbers."""

from collections.abc import Mapping
from typing import Final

import attrs

from broker.config import KafkaConfig
from broker.config.checks import ASSIGNOR_CLASSES
from kraft import lazy_attrs
from metadata.configuration import GROUP_CONFIGS, BrokerConfigs, GroupConfigs, usable
from metadata.configuration.group import GroupBounds, group_bounds, within_bounds
from metadata.configuration.settings import from_key, settings_from

_MINUTE_MS: Final = 60_000
_SESSION_TIMEOUT: Final = GroupConfigs.consumer_session_timeout_ms.name
_HEARTBEAT_INTERVAL: Final = GroupConfigs.consumer_heartbeat_interval_ms.name
_SHARE_SESSION_TIMEOUT: Final = GroupConfigs.share_session_timeout_ms.name
_SHARE_HEARTBEAT_INTERVAL: Final = GroupConfigs.share_heartbeat_interval_ms.name
_SHARE_ASSIGNMENT_INTERVAL: Final = GroupConfigs.share_assignment_interval_ms.name


@lazy_attrs.frozen(kw_only=True)
class ConsumerGroupConfig:
    """The configs of consumer groups (KIP-848).

    `assignors` are names; the first one is the default. `can_upgrade` allows a classic group with members to become a
    consumer group; `can_downgrade` allows the reverse. `bounds` are those of the values that groups set.
    """

    session_timeout_ms: int = from_key(BrokerConfigs.group_consumer_session_timeout_ms)
    heartbeat_interval_ms: int = from_key(BrokerConfigs.group_consumer_heartbeat_interval_ms)
    members_max: int = from_key(BrokerConfigs.group_consumer_max_size)
    assignors: tuple[str, ...] = ("uniform", "range")
    can_upgrade: bool = True
    can_downgrade: bool = True
    regex_refresh_interval_ms: int = from_key(BrokerConfigs.group_consumer_regex_refresh_interval_ms)
    bounds: GroupBounds = attrs.field(factory=dict, eq=False)

    @classmethod
    def of(cls, config: KafkaConfig) -> "ConsumerGroupConfig":
        """Reads the node's configuration."""
        policy = config.group_consumer_migration_policy.lower()
        return settings_from(
            cls,
            config,
            assignors=tuple(ASSIGNOR_CLASSES.get(name, name) for name in config.group_consumer_assignors),
            can_upgrade=policy in ("upgrade", "bidirectional"),
            can_downgrade=policy in ("downgrade", "bidirectional"),
            bounds=group_bounds(config.values),
        )

    def of_group(self, overrides: Mapping[str, str]) -> "ConsumerGroupConfig":
        """The configs of a group that sets `overrides`. Unusable ones count as not set."""
        if not overrides:
            return self
        texts = within_bounds(usable(GROUP_CONFIGS, overrides), self.bounds)
        return attrs.evolve(
            self,
            session_timeout_ms=int(texts.get(_SESSION_TIMEOUT, self.session_timeout_ms)),
            heartbeat_interval_ms=int(texts.get(_HEARTBEAT_INTERVAL, self.heartbeat_interval_ms)),
        )


@lazy_attrs.frozen(kw_only=True)
class ShareGroupConfig:
    """The configs of share groups (KIP-932).

    A target assignment is at least `assignment_interval_ms` old before the next one (KIP-1263). A request to initialize
    states is repeated after `initialize_retry_interval_ms`. `bounds` are those of the values that groups set.
    """

    session_timeout_ms: int = from_key(BrokerConfigs.group_share_session_timeout_ms)
    heartbeat_interval_ms: int = from_key(BrokerConfigs.group_share_heartbeat_interval_ms)
    members_max: int = from_key(BrokerConfigs.group_share_max_size)
    assignment_interval_ms: int = from_key(BrokerConfigs.group_share_assignment_interval_ms)
    initialize_retry_interval_ms: int = from_key(BrokerConfigs.group_share_initialize_retry_interval_ms)
    bounds: GroupBounds = attrs.field(factory=dict, eq=False)

    @classmethod
    def of(cls, config: KafkaConfig) -> "ShareGroupConfig":
        """Reads the node's configuration."""
        return settings_from(cls, config, bounds=group_bounds(config.values))

    def of_group(self, overrides: Mapping[str, str]) -> "ShareGroupConfig":
        """The configs of a group that sets `overrides`. Unusable ones count as not set."""
        if not overrides:
            return self
        texts = within_bounds(usable(GROUP_CONFIGS, overrides), self.bounds)
        return attrs.evolve(
            self,
            session_timeout_ms=int(texts.get(_SHARE_SESSION_TIMEOUT, self.session_timeout_ms)),
            heartbeat_interval_ms=int(texts.get(_SHARE_HEARTBEAT_INTERVAL, self.heartbeat_interval_ms)),
            assignment_interval_ms=int(texts.get(_SHARE_ASSIGNMENT_INTERVAL, self.assignment_interval_ms)),
        )


@lazy_attrs.frozen(kw_only=True)
class GroupConfig:
    """The configs that all groups share, and those of classic groups: `initial_rebalance_delay_ms` and
    `group_max_size`.

    `offset_metadata_max_bytes` counts characters, as Kafka does.
    """

    offset_metadata_max_bytes: int = from_key(BrokerConfigs.offset_metadata_max_bytes)
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = from_key(BrokerConfigs.offsets_retention_check_interval_ms)
    initial_rebalance_delay_ms: int = from_key(BrokerConfigs.group_initial_rebalance_delay_ms)
    group_max_size: int = from_key(BrokerConfigs.group_max_size)
    consumer: ConsumerGroupConfig = attrs.field(factory=ConsumerGroupConfig)
    share: ShareGroupConfig = attrs.field(factory=ShareGroupConfig)

    @classmethod
    def of(cls, config: KafkaConfig) -> "GroupConfig":
        """Reads the node's configuration."""
        return settings_from(
            cls,
            config,
            offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
            consumer=ConsumerGroupConfig.of(config),
            share=ShareGroupConfig.of(config),
        )
