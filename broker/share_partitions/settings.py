"""The configs that govern the delivery of share groups' records, as numbers (KIP-932, KIP-1240)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from broker.config import KafkaConfig
from broker.replication.commit_state import READ_COMMITTED, READ_UNCOMMITTED
from kraft import lazy_attrs
from metadata.configuration import GROUP_CONFIGS, ConfigKey, usable
from metadata.configuration.group import GroupConfigs, group_bounds, share_offset_reset_ms, within_bounds

# Different sets of configs that groups have, which are few.
_CACHED_MAX: Final = 100


@lazy_attrs.frozen(kw_only=True)
class DeliverySettings:
    """The configs in force for a share group: the group's own values, or those of the broker.

    `delivery_count_limit` is the number of deliveries after which a record is archived. `record_locks_max` bounds the
    records of a partition that are in flight; a batch of the log that begins below the bound is acquired as a whole.
    A group without state begins at `offset_reset`: "latest", "earliest", or "by_duration:" with an ISO 8601 duration.
    Records that have failed are copied to `dead_letter_topic`, unless it is empty; if not `copies_dead_letters`, only
    headers that name them are.
    """

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    record_locks_max: int = 2000
    allows_renewal: bool = True
    isolation_level: int = READ_UNCOMMITTED
    offset_reset: str = "latest"
    dead_letter_topic: str = ""
    copies_dead_letters: bool = False

    @property
    def careful_from(self) -> int:
        """The delivery count from which records are delivered in smaller parts.

        If one record makes its consumer fail, the records that were delivered with it fail, too. Smaller parts separate
        them from it before they reach the limit.
        """
        return max(2, -(-self.delivery_count_limit // 2))

    def careful_count(self, delivery_count: int, batch_records: int) -> int:
        """The number of records to deliver, and no others with them; 0 if they have not failed often.

        The parts get smaller with each delivery, and the last delivery is that of a single record.
        """
        if delivery_count < self.careful_from:
            return 0
        if delivery_count >= self.delivery_count_limit - 1:
            return 1
        return max(1, batch_records >> (delivery_count - self.careful_from + 1))

    @property
    def is_read_committed(self) -> bool:
        return self.isolation_level == READ_COMMITTED

    @property
    def reset_before_ms(self) -> int | None:
        """The duration of a reset by duration (KIP-1106); None for the others."""
        return share_offset_reset_ms(self.offset_reset)

    @classmethod
    def of(
        cls, config: KafkaConfig, overrides: Mapping[str, str], *, has_dead_letters: bool = True
    ) -> "DeliverySettings":
        """The configs of a group that sets `overrides`. Unusable ones count as not set.

        `has_dead_letters` is false while the cluster's `share.version` allows no dead-letter topics.
        """
        settings = cls(
            delivery_count_limit=config.group_share_delivery_count_limit,
            record_lock_duration_ms=config.group_share_record_lock_duration_ms,
            record_locks_max=config.group_share_partition_max_record_locks,
        )
        if not overrides:
            return settings
        texts = within_bounds(usable(GROUP_CONFIGS, overrides), group_bounds(config.values))
        changes: dict[str, Any] = {
            field: key.parse(texts[key.name]) for field, key in _KEYS.items() if key.name in texts
        }
        if texts.get(GroupConfigs.share_isolation_level.name, "").strip() == "read_committed":
            changes["isolation_level"] = READ_COMMITTED
        if not has_dead_letters:
            changes["dead_letter_topic"] = ""
        return attrs.evolve(settings, **changes)


# The keys whose values are those of fields.
_KEYS: Final[Mapping[str, ConfigKey[Any]]] = {
    "delivery_count_limit": GroupConfigs.share_delivery_count_limit,
    "record_lock_duration_ms": GroupConfigs.share_record_lock_duration_ms,
    "record_locks_max": GroupConfigs.share_partition_max_record_locks,
    "allows_renewal": GroupConfigs.share_renew_acknowledge_enable,
    "offset_reset": GroupConfigs.share_auto_offset_reset,
    "dead_letter_topic": GroupConfigs.errors_deadletterqueue_topic_name,
    "copies_dead_letters": GroupConfigs.errors_deadletterqueue_copy_record_enable,
}


class SettingsCache:
    """Returns the settings of groups. They are made once for each state of the configuration, not for each request."""

    def __init__(
        self,
        config: Callable[[], KafkaConfig],
        overrides: Callable[[str], Mapping[str, str]],
        has_dead_letters: Callable[[], bool],
    ) -> None:
        self._config = config
        self._overrides = overrides
        self._has_dead_letters = has_dead_letters
        self._made_for: KafkaConfig | None = None
        self._settings: dict[tuple[bool, tuple[tuple[str, str], ...]], DeliverySettings] = {}

    def of_group(self, group_id: str) -> DeliverySettings:
        config, overrides = self._config(), self._overrides(group_id)
        if config is not self._made_for or len(self._settings) >= _CACHED_MAX:
            self._made_for = config
            self._settings.clear()
        key = self._has_dead_letters(), tuple(overrides.items()) if overrides else ()
        settings = self._settings.get(key)
        if settings is None:
            settings = self._settings[key] = DeliverySettings.of(config, overrides, has_dead_letters=key[0])
        return settings
