"""The assignor `cooperative-sticky`: as `sticky`, but a partition that moves is revoked before another member gets it.

Members report what they own in their subscriptions. Their generation is in the subscription from version 2 on; to
members of earlier versions, and by them, it is given as user data: one int32.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final

from broker.client.consumer.group.assignors.assignor import (
    NO_GENERATION,
    Assignments,
    LastAssignment,
    MemberSubscription,
    TopicRacks,
)
from broker.client.consumer.group.assignors.claims import Claim
from broker.client.consumer.group.assignors.sticky_assignment import assign_sticky

_GENERATION: Final = Struct(">i")


class CooperativeStickyAssignor:
    """See the module's docstring (KIP-429)."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        return _GENERATION.pack(NO_GENERATION if last is None else last.generation)

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        """Leaves out partitions whose owner has to revoke them first; the owner's next join brings them up again."""
        claims = {member: Claim(each.owned, _generation(each)) for member, each in members.items()}
        assigned = assign_sticky(topics, members, claims)
        for partition, member in assigned.moves.items():
            assigned.assignments[member].remove(partition)
        return assigned.assignments


def _generation(subscription: MemberSubscription) -> int:
    if subscription.generation >= 0 or subscription.user_data is None:
        return subscription.generation
    if len(subscription.user_data) < _GENERATION.size:
        return NO_GENERATION
    generation: int = _GENERATION.unpack_from(subscription.user_data)[0]
    return generation
