"""The configs of group coordinators, as numbers."""

import attrs

from broker.config import KafkaConfig
from broker.coordinator.group.consumer.config import ConsumerGroupConfig

_MINUTE_MS = 60_000


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
