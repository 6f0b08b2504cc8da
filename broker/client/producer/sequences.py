"""Producer ids, epochs and sequence numbers of an idempotent producer (KIP-98, KIP-360). Pure.

A broker accepts a batch only if it continues the sequence of the batch before it from the same producer id and epoch,
and it answers a batch that it already has as a success. So a batch may be sent again with the same sequence as often as
needed, and is appended once.

A batch that is given up leaves a gap: it is unknown whether it was appended. Until that is known, no new batch of the
partition gets a sequence. The batches after it that have sequences already are sent again: a success shows that
the lost batch was appended too, an OUT_OF_ORDER_SEQUENCE_NUMBER shows that it was not. In the second case, and where no
batch is left to ask with, the producer raises its epoch (KIP-360) and the partition starts again at sequence 0.
"""

from typing import Final, NamedTuple

import attrs

NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1
EPOCH_MAX: Final = 2**15 - 1


class Identity(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int
    epoch: int


NO_IDENTITY: Final = Identity(-1, -1)


def sequence_after(sequence: int, count: int) -> int:
    """The sequence `count` records after `sequence`: 0 follows SEQUENCE_MAX."""
    return (sequence + count) & SEQUENCE_MAX


class ProducerIdentity:
    """The identity under which new sequences are given. NO_IDENTITY until the broker has assigned a producer id."""

    def __init__(self) -> None:
        self.current = NO_IDENTITY

    @property
    def is_known(self) -> bool:
        return self.current is not NO_IDENTITY

    def assigned(self, producer_id: int, epoch: int) -> None:
        """Takes the answer to InitProducerId."""
        self.current = Identity(producer_id, epoch)

    def bump(self) -> None:
        """Raises the epoch. After the last epoch a new producer id is needed."""
        if self.current.epoch >= EPOCH_MAX:
            self.current = NO_IDENTITY
        elif self.is_known:
            self.current = self.current._replace(epoch=self.current.epoch + 1)


@attrs.define
class PartitionSequences:
    """The sequences of one partition under one identity.

    `next` is the next sequence to give, `acknowledged_next` the one after the last acknowledged record. `has_gap` is
    True after a batch with a sequence was given up. `is_proven` is True after the first acknowledgement: until then the
    leader may have no state of this producer, and a leader without state accepts any sequence.
    """

    identity: Identity = NO_IDENTITY
    next: int = 0
    acknowledged_next: int = 0
    has_gap: bool = False
    is_proven: bool = False

    def adopt(self, identity: Identity) -> None:
        """Starts again at sequence 0 under another identity."""
        self.identity = identity
        self.next = self.acknowledged_next = 0
        self.has_gap = self.is_proven = False

    def take(self, count: int) -> int:
        """The base sequence of a batch of `count` records."""
        base = self.next
        self.next = sequence_after(base, count)
        return base

    def acknowledge(self, base_sequence: int, count: int) -> None:
        """Notes that the batch was appended, and with it every batch before it."""
        self.acknowledged_next = sequence_after(base_sequence, count)
        self.is_proven = True

    @property
    def is_all_acknowledged(self) -> bool:
        return self.acknowledged_next == self.next
