"""The configs that govern the delivery of share groups' records, as numbers (KIP-932, KIP-1240)."""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from broker.config import KafkaConfig
from broker.replication.commit_state import READ_COMMITTED, READ_UNCOMMITTED
from metadata.configuration import GROUP_CONFIGS, usable
from metadata.configuration.group import GroupConfigs, group_bounds, share_offset_reset_ms, within_bounds

# Different sets of configs that groups have, which are few.
_CACHED_MAX: Final = 100


@attrs.frozen(kw_only=True)
class DeliverySettings:
    """The configs in force for a share group: the group's own values, or those of the broker.

    `delivery_count_limit` is the number of deliveries after which a record is archived. `record_locks_max` bounds the
    records of a partition that are in flight; a batch of the log that begins below the bound is acquired as a whole.
    A group without state begins at `offset_reset`: "latest", "earliest", or "by_duration:" with an ISO 8601 duration.
    """

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    record_locks_max: int = 2000
    allows_renewal: bool = True
    isolation_level: int = READ_UNCOMMITTED
    offset_reset: str = "latest"

    @property
    def careful_from(self) -> int:
        """The delivery count from which records are delivered in smaller parts.

        If one record makes its consumer fail, the records that were delivered with it fail, too. Smaller parts separate
        them from it before they reach the limit.
        """
        return max(2, -(-self.delivery_count_limit // 2))

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == READ_COMMITTED

    @property
    def reset_before_ms(self) -> int | None:
        """The duration of a reset by duration (KIP-1106); None for the others."""
        return share_offset_reset_ms(self.offset_reset)

    @classmethod
    def of(cls, config: KafkaConfig, overrides: Mapping[str, str]) -> "DeliverySettings":
        """The configs of a group that sets `overrides`. Unusable ones count as not set."""
        settings = cls(
            delivery_count_limit=config.group_share_delivery_count_limit,
            record_lock_duration_ms=config.group_share_record_lock_duration_ms,
            record_locks_max=config.group_share_partition_max_record_locks,
        )
        if not overrides:
            return settings
        texts = within_bounds(usable(GROUP_CONFIGS, overrides), group_bounds(config.values))
        isolation = texts.get(GroupConfigs.share_isolation_level.name, "read_uncommitted")
        return cls(
            delivery_count_limit=int(
                texts.get(GroupConfigs.share_delivery_count_limit.name, settings.delivery_count_limit)
            ),
            record_lock_duration_ms=int(
                texts.get(GroupConfigs.share_record_lock_duration_ms.name, settings.record_lock_duration_ms)
            ),
            record_locks_max=int(
                texts.get(GroupConfigs.share_partition_max_record_locks.name, settings.record_locks_max)
            ),
            allows_renewal=texts.get(GroupConfigs.share_renew_acknowledge_enable.name, "true").lower() == "true",
            isolation_level=READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED,
            offset_reset=texts.get(GroupConfigs.share_auto_offset_reset.name, settings.offset_reset),
        )


class SettingsCache:
    """Returns the settings of groups. They are made once for each state of the configuration, not for each request."""

    def __init__(self, config: Callable[[], KafkaConfig], overrides: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._overrides = overrides
        self._made_for: KafkaConfig | None = None
        self._settings: dict[tuple[tuple[str, str], ...], DeliverySettings] = {}

    def of_group(self, group_id: str) -> DeliverySettings:
        config, overrides = self._config(), self._overrides(group_id)
        if config is not self._made_for or len(self._settings) >= _CACHED_MAX:
            self._made_for = config
            self._settings.clear()
        key = tuple(overrides.items()) if overrides else ()
        settings = self._settings.get(key)
        if settings is None:
            settings = self._settings[key] = DeliverySettings.of(config, overrides)
        return settings
