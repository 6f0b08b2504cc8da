"""The errors of share consumers, besides those of every client."""

from collections.abc import Sequence

from broker.client.errors import ClientError
from broker.client.types import TopicPartition


class RecordNotAcquired(ClientError):
    """The consumer does not hold this record: it was acknowledged before, or never delivered to this consumer."""


class UnreadableRecords(ClientError):
    """Acquired records that cannot be delivered; `__cause__` says why.

    `offsets` are those of the records in `partition`. If a deserializer failed, or the broker sent part of a batch, the
    records are released, for another delivery; those of a corrupt batch are rejected. `acknowledge_offset` chooses
    another outcome before the next fetch.
    """

    def __init__(self, reason: str, partition: TopicPartition, offsets: Sequence[int], outcome: str) -> None:
        last = "" if len(offsets) == 1 else f" to {offsets[-1]}"
        super().__init__(f"offset {offsets[0]}{last} of {partition} cannot be delivered and is {outcome}: {reason}")
        self.partition = partition
        # A range may be as long as a corrupt batch claims to be.
        self.offsets: Sequence[int] = offsets if isinstance(offsets, range) else tuple(offsets)
