"""The end of a transaction in one partition, which a transaction coordinator has decided."""

from broker.wire.records import EndTransactionMarker, encode_end_transaction_marker
from kraft import lazy_attrs


@lazy_attrs.frozen
class TransactionMarker:
    """Ends the transaction of a producer. `coordinator_epoch` is the leader epoch of the coordinator's partition.

    `transaction_version` says which rules the producer's epoch follows (KIP-1228).
    """

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int

    def encode(self, now_ms: int) -> bytes:
        """The control batch."""
        return encode_end_transaction_marker(
            EndTransactionMarker(self.is_commit, self.coordinator_epoch),
            timestamp=now_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
        )
