"""The transaction coordinator's state of one partition of `__transaction_state`."""

from collections.abc import Callable
from typing import Final, Protocol

import attrs

from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.coordinator.runtime.shard import ShardContext
from broker.coordinator.transaction.record_formats import decode_key, decode_transaction, encode_key
from broker.coordinator.transaction.transaction import PREPARED, Transaction, TransactionState
from broker.wire.errors import WireError
from kraft import lazy_attrs
from metadata.image import MetadataDelta, MetadataImage

EXPIRATION: Final = "expiration"
# Transactional ids that are removed by one decision: some 5 ms.
_REMOVED_AT_ONCE: Final = 500


class TransactionConfig(Protocol):
    """The configs of the coordinator, which `broker.config.KafkaConfig` has."""

    @property
    def transactional_id_expiration_ms(self) -> int: ...
    @property
    def transaction_remove_expired_transaction_cleanup_interval_ms(self) -> int: ...


@lazy_attrs.define(eq=False)
class TransactionShard:
    """The transactional ids of one shard; see `CoordinatorShard` for how it changes.

    `transaction_version` is the cluster's level of that feature. `ongoing` and `prepared` are the transactional ids
    with a transaction in these states. `last_epochs` has the epochs before the last bump, where they are known: they
    stand in no record. `skipped_records` counts records that could not be decoded.
    """

    context: ShardContext
    config: TransactionConfig
    transaction_version: Callable[[], int]
    transactions: dict[str, Transaction] = attrs.field(factory=dict)
    ongoing: dict[str, None] = attrs.field(factory=dict)
    prepared: dict[str, None] = attrs.field(factory=dict)
    last_epochs: dict[str, int] = attrs.field(factory=dict)
    skipped_records: int = 0

    # Replay

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int = -1) -> None:
        """See `CoordinatorShard.replay`. A record that cannot be decoded is skipped as well."""
        try:
            transactional_id = decode_key(key)
            transaction = None if value is None else decode_transaction(value)
        except WireError:
            transactional_id = None
        if transactional_id is None:
            self.skipped_records += 1
            return
        self.ongoing.pop(transactional_id, None)
        self.prepared.pop(transactional_id, None)
        self.last_epochs.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.ongoing[transactional_id] = None
        elif transaction.state in PREPARED:
            self.prepared[transactional_id] = None

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """No transaction writes to this topic."""

    # Leadership and metadata

    def loaded(self, now_ms: int) -> None:
        """See `CoordinatorShard.loaded`."""
        self.schedule_expiration()

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `CoordinatorShard.metadata_changed`. The coordinator's state depends on no metadata."""

    # Expiration

    def schedule_expiration(self) -> None:
        interval_ms = self.config.transaction_remove_expired_transaction_cleanup_interval_ms
        self.context.timers.schedule(EXPIRATION, interval_ms, expire)


def expire(state: TransactionShard, now_ms: int) -> Decision[None]:
    """Removes transactional ids that were not used for `transactional.id.expiration.ms` (KIP-98)."""
    expiration_ms = state.config.transactional_id_expiration_ms
    expired: list[str] = []
    for transactional_id, transaction in state.transactions.items():
        if transaction.has_expired(now_ms, expiration_ms):
            expired.append(transactional_id)
            if len(expired) == _REMOVED_AT_ONCE:
                break

    def schedule_next() -> None:
        if len(expired) == _REMOVED_AT_ONCE:
            state.context.timers.schedule(EXPIRATION, 0, expire)
        else:
            state.schedule_expiration()

    records = [CoordinatorRecord(encode_key(transactional_id), None) for transactional_id in expired]
    return Decision(records, None, schedule_next, atomic=False)
