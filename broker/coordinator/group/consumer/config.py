"""The configs of groups of the consumer protocol."""

from collections.abc import Mapping

import attrs

from broker.config import KafkaConfig
from broker.coordinator.group.assignors import CLASS_NAMES


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
            assignors=tuple(CLASS_NAMES.get(name, name) for name in config.get_list("group.consumer.assignors")),
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
