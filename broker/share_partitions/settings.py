"""The configs that govern the delivery of one share group's records, as numbers (KIP-932, KIP-1240)."""

import attrs


@attrs.frozen(kw_only=True)
class DeliverySettings:
    """The configs in force for a share group: the group's own values, or those of the broker.

    `delivery_count_limit` is the number of deliveries after which a record is archived. `record_locks_max` bounds the
    records of a partition that are in flight; a batch of the log that begins below the bound is acquired as a whole.
    """

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    record_locks_max: int = 2000
    allows_renewal: bool = True

    @property
    def careful_from(self) -> int:
        """The delivery count from which records are delivered in smaller parts.

        If one record makes its consumer fail, the records that were delivered with it fail, too. Smaller parts separate
        them from it before they reach the limit.
        """
        return max(2, -(-self.delivery_count_limit // 2))
