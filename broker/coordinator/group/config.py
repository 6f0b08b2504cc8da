"""The configs of group coordinators, as numbers."""

from collections.abc import Mapping
from typing import Final

import attrs

from broker.config import KafkaConfig

_MINUTE_MS = 60_000
# The assignors by the class names that Kafka's configs may have for them.
_ASSIGNOR_CLASS_NAMES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


@attrs.frozen(kw_only=True)
class ConsumerGroupConfig:
    """`assignors` by name, the default first. `can_upgrade` has a classic group become a consumer group while it lives,
    `can_downgrade` the other way round."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 4_000
    members_max: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    can_upgrade: bool = True
    can_downgrade: bool = True
    regex_refresh_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: KafkaConfig) -> "ConsumerGroupConfig":
        """As the node is configured."""
        policy = config.get_str("group.consumer.migration.policy").lower()
        return cls(
            session_timeout_ms=config.get_int("group.consumer.session.timeout.ms"),
            heartbeat_interval_ms=config.get_int("group.consumer.heartbeat.interval.ms"),
            members_max=config.get_int("group.consumer.max.size"),
            assignors=tuple(
                _ASSIGNOR_CLASS_NAMES.get(name, name) for name in config.get_list("group.consumer.assignors")
            ),
            can_upgrade=policy in ("upgrade", "bidirectional"),
            can_downgrade=policy in ("downgrade", "bidirectional"),
            regex_refresh_interval_ms=config.get_int("group.consumer.regex.refresh.interval.ms"),
        )

    def of_group(self, overrides: Mapping[str, str]) -> "ConsumerGroupConfig":
        """As it is for a group that sets `overrides`, which the controller has found to be right."""
        if not overrides:
            return self
        return attrs.evolve(
            self,
            session_timeout_ms=int(overrides.get("consumer.session.timeout.ms", self.session_timeout_ms)),
            heartbeat_interval_ms=int(overrides.get("consumer.heartbeat.interval.ms", self.heartbeat_interval_ms)),
        )


@attrs.frozen(kw_only=True)
class GroupConfig:
    """`offset_metadata_max_bytes` counts characters, as Kafka does.

    `initial_rebalance_delay_ms` and `group_max_size` are those of classic groups.
    """

    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS
    initial_rebalance_delay_ms: int = 3000
    group_max_size: int = 2**31 - 1
    consumer: ConsumerGroupConfig = attrs.field(factory=ConsumerGroupConfig)

    @classmethod
    def of(cls, config: KafkaConfig) -> "GroupConfig":
        """As the node is configured."""
        return cls(
            offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
            offsets_retention_ms=config.get_int("offsets.retention.minutes") * _MINUTE_MS,
            offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
            initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
            group_max_size=config.get_int("group.max.size"),
            consumer=ConsumerGroupConfig.of(config),
        )
