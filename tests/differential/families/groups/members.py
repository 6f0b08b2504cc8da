"""The ids and epochs that a server has given to the members of a sequence, and how steps name them."""

from enum import Enum
from typing import Any, Final

import attrs

from tests.differential.comparable import UNKNOWN_MEMBER_ID
from tests.differential.sequences import Place

# The topics of each sequence with their numbers of partitions; a topic that does not exist.
TOPICS: Final = {"t": 2, "u": 1}
ABSENT: Final = "absent"
GROUP: Final = "g"


class Who(Enum):
    """A member id, relative to the member's own."""

    OWN = "own"
    NONE = "none"
    UNKNOWN = "unknown"
    OTHER = "other member"


class Epoch(Enum):
    """A generation or member epoch, relative to the member's own."""

    OWN = "own"
    NEXT = "next"
    LAST = "last"
    ZERO = "zero"
    NONE = "none"


@attrs.define(eq=False)
class Members:
    """The ids and epochs of a sequence's members, by their numbers, as one server's responses have given them.

    `leader_id` and `joined` are of the last generation: the member ids that its leader was told. `group_state` is the
    state that the group had before the last step.
    """

    ids: dict[int, str] = attrs.field(factory=dict)
    epochs: dict[int, int] = attrs.field(factory=dict)
    last_epochs: dict[int, int] = attrs.field(factory=dict)
    assigned: dict[int, Any] = attrs.field(factory=dict)
    protocols: dict[int, tuple[str | None, str | None]] = attrs.field(factory=dict)
    # The topics of each member of the last generation, as its leader was told.
    subscriptions: dict[str, list[str]] = attrs.field(factory=dict)
    leader_id: str = ""
    joined: list[str] = attrs.field(factory=list)
    group_state: str = ""

    def member_id(self, member: int, who: Who) -> str:
        others = [each for number, each in sorted(self.ids.items()) if number != member]
        return {
            Who.OWN: self.ids.get(member, ""),
            Who.NONE: "",
            Who.UNKNOWN: UNKNOWN_MEMBER_ID,
            Who.OTHER: others[0] if others else UNKNOWN_MEMBER_ID,
        }[who]

    def set_epoch(self, member: int, epoch: int) -> None:
        own = self.epochs.get(member, -1)
        if own not in (-1, epoch):
            self.last_epochs[member] = own
        self.epochs[member] = epoch

    def epoch(self, member: int, epoch: Epoch) -> int:
        own = self.epochs.get(member, -1)
        return {
            Epoch.OWN: own,
            Epoch.NEXT: own + 1,
            Epoch.LAST: self.last_epochs.get(member, own + 1),
            Epoch.ZERO: 0,
            Epoch.NONE: -1,
        }[epoch]


def members_of(place: Place) -> Members:
    state: Members = place.state
    return state
