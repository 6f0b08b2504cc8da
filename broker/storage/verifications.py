"""Transactions that are about to begin in a partition, while its leader asks their coordinator (KIP-890).

The coordinator's answer says that the partition belonged to the transaction when it was given. An end marker that
arrives after that ends the verification, so that a late batch cannot begin a transaction after its own marker.
"""

from broker.wire.errors import ErrorCode, KafkaError


class Verification:
    """The verification of one producer's epoch; `lowest_sequence` of the batches that wait for it.

    With `has_own_epoch`, each transaction has an epoch of its own, whose sequence numbers begin at 0.
    """

    __slots__ = ("epoch", "has_own_epoch", "lowest_sequence", "seen_ms")

    def __init__(self, epoch: int, lowest_sequence: int, *, has_own_epoch: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.has_own_epoch = has_own_epoch
        self.seen_ms: int | None = None

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """True if the first call of this was at least `expiration_ms` ago: the batch that was verified never came."""
        if self.seen_ms is None:
            self.seen_ms = now_ms
        return now_ms - self.seen_ms >= expiration_ms

    def is_ended_by(self, marker_epoch: int) -> bool:
        """True if an end marker of this epoch may end the transaction that is verified.

        Where each transaction has an epoch of its own, a marker has the epoch after that of its transaction. So a
        marker with the verified epoch belongs to the producer's previous transaction: its next batch often arrives
        before that marker.
        """
        return not self.has_own_epoch or marker_epoch > self.epoch

    def check(self, producer_id: int, sequence: int, partition: str, *, is_known: bool) -> None:
        """Check the sequence number of the batch that begins the transaction; `is_known` if the producer has written to
        the partition before. Raises KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if sequence > self.lowest_sequence or (self.has_own_epoch and sequence != 0 and not is_known):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id} in partition {partition}: "
                f"{sequence} (incoming seq. number), {self.lowest_sequence} (earliest seen sequence)",
            )
