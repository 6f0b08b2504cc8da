"""The ids and epochs that a server has given to the producers of a sequence, and how steps name them.

A step names a producer by its number, and an identity by how it differs from the producer's own. So a sequence means
the same on both servers, and still means something when steps before it are removed.
"""

from enum import Enum
from typing import Final

import attrs

from broker.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

_UNKNOWN_ID: Final = 987_654_321
_SEQUENCE_MAX: Final = 2**31 - 1

Identity = tuple[int, int]
NO_IDENTITY: Final = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Who(Enum):
    """An identity, relative to the producer's own."""

    OWN = "own"
    NONE = "none"
    OLD_EPOCH = "old epoch"
    NEXT_EPOCH = "next epoch"
    NO_EPOCH = "no epoch"
    NO_ID = "no id"
    UNKNOWN_ID = "unknown id"
    OTHER = "other producer"


class Place(Enum):
    """A base sequence number, relative to the producer's next one in a partition."""

    NEXT = "next"
    DUPLICATE = "duplicate"
    GAP = "gap"
    OLD = "old"
    FIRST = "first"
    LAST = "last"
    NONE = "none"


@attrs.define(eq=False)
class Producers:
    """The identities and sequence numbers of a sequence's producers, as one server's responses have given them.

    `is_ending` is true after a response that may leave markers to be written.
    """

    identities: dict[int, Identity] = attrs.field(factory=dict)
    is_ending: bool = False
    _next: dict[tuple[int, int], int] = attrs.field(factory=dict)
    _last: dict[tuple[int, int], tuple[int, int]] = attrs.field(factory=dict)

    def identity(self, producer: int, who: Who) -> Identity:
        own_id, own_epoch = own = self.identities.get(producer, NO_IDENTITY)
        others = [each for number, each in sorted(self.identities.items()) if number != producer]
        return {
            Who.OWN: own,
            Who.NONE: NO_IDENTITY,
            Who.OLD_EPOCH: (own_id, max(own_epoch - 1, NO_PRODUCER_EPOCH)),
            Who.NEXT_EPOCH: (own_id, own_epoch + 1),
            Who.NO_EPOCH: (own_id, NO_PRODUCER_EPOCH),
            Who.NO_ID: (NO_PRODUCER_ID, own_epoch),
            Who.UNKNOWN_ID: (_UNKNOWN_ID, own_epoch),
            Who.OTHER: others[0] if others else NO_IDENTITY,
        }[who]

    def set_identity(self, producer: int, identity: Identity) -> None:
        """A new identity begins with the sequence number 0."""
        self.identities[producer] = identity
        for at in [each for each in self._next if each[0] == producer]:
            del self._next[at], self._last[at]

    def sequence(self, producer: int, partition: int, place: Place) -> int:
        due = self._next.get((producer, partition), 0)
        return {
            Place.NEXT: due,
            Place.DUPLICATE: self._last.get((producer, partition), (0, 0))[0],
            Place.GAP: (due + 3) & _SEQUENCE_MAX,
            Place.OLD: max(due - 7, 0),
            Place.FIRST: 0,
            Place.LAST: _SEQUENCE_MAX,
            Place.NONE: -1,
        }[place]

    def produced(self, producer: int, partition: int, base: int, count: int) -> None:
        self._last[producer, partition] = (base, count)
        self._next[producer, partition] = (base + count) & _SEQUENCE_MAX
