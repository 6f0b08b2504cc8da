"""The assignors `sticky` and `cooperative-sticky`: as balanced as possible, with as few moved partitions as possible.

There is one algorithm for members that all read the same topics (sticky_equal.py), and a general one
(sticky_general.py).
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

import attrs

from broker.client.consumer.group.assignors.assignor import (
    NO_GENERATION,
    Assignments,
    LastAssignment,
    MemberSubscription,
    TopicRacks,
)
from broker.client.consumer.group.assignors.claims import Claim, Ownership, settle_claims
from broker.client.consumer.group.assignors.racks import RackMatching
from broker.client.consumer.group.assignors.sticky_equal import EqualAssignment
from broker.client.consumer.group.assignors.sticky_general import GeneralAssignment
from broker.client.types import TopicPartition
from broker.wire.codec import decode, encode
from broker.wire.consumer_protocol import OwnedPartitions, group_by_topic
from broker.wire.errors import WireError
from broker.wire.schema import data, field

_GENERATION: Final = Struct(">i")
_VERSION_WITH_GENERATION: Final = 1


@attrs.frozen
class _StickyAssignment:
    """`moves` are the partitions that a member is to get which another member claims to own."""

    assignments: Assignments
    moves: Mapping[TopicPartition, str]


def _assign_sticky(
    topics: TopicRacks, members: Mapping[str, MemberSubscription], claims: Mapping[str, Claim]
) -> _StickyAssignment:
    """Distributes all partitions of `topics` that a member reads."""
    subscribed = {member: frozenset(topics).intersection(members[member].topics) for member in sorted(members)}
    topics = {name: topics[name] for name in sorted(frozenset[str]().union(*subscribed.values()))}
    ownership = settle_claims(topics, members, claims)
    racks = RackMatching(topics, members, list(topics))
    if len(set(subscribed.values())) == 1:
        assignments = EqualAssignment(topics, racks, ownership, sorted(members)).build()
    else:
        assignments = GeneralAssignment(topics, racks, ownership, subscribed).build()
    return _StickyAssignment(assignments, _moves(assignments, claims, ownership))


def _moves(assignments: Assignments, claims: Mapping[str, Claim], ownership: Ownership) -> dict[TopicPartition, str]:
    """Returns the partitions that another member claims to own, unless the new owner's claim is the valid one."""
    claimants: dict[TopicPartition, set[str]] = {}
    for member, claim in claims.items():
        for partition in claim.owned:
            claimants.setdefault(partition, set()).add(member)
    return {
        partition: member
        for member, partitions in assignments.items()
        for partition in partitions
        if ownership.owners.get(partition) != member and claimants.get(partition, set()) - {member}
    }


@data(key=-1, versions="0-1", flexible="99+")
class StickyUserData:
    """A member's last assignment. Version 1 adds the generation at the end; the bytes do not contain the version."""

    previous_assignment: list[OwnedPartitions] = field([OwnedPartitions], "0+", factory=list)
    generation: int = field("int32", "1+", default=NO_GENERATION)


class StickyAssignor:
    """The assignor `sticky`. Rebalances are eager: every member revokes everything before it joins.

    Members tell the leader in their user data what they were given last, and in which generation:

        topics [topic string, partitions [int32]], generation int32 (since Kafka 2.3; -1 or absent before)
    """

    name = "sticky"
    is_cooperative = False

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        if last is None:
            return None
        message: Any = StickyUserData(previous_assignment=group_by_topic(last.partitions), generation=last.generation)
        return b"".join(encode(message, _VERSION_WITH_GENERATION))

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        claims = {member: _claim(subscription) for member, subscription in members.items()}
        return _assign_sticky(topics, members, claims).assignments


def _claim(subscription: MemberSubscription) -> Claim:
    """Returns the partitions that a member claims: none without readable user data, since it has revoked all."""
    encoded = subscription.user_data
    if not encoded:
        return Claim((), NO_GENERATION)
    message: Any = StickyUserData
    for version in (1, 0):
        try:
            decoded: StickyUserData = decode(message, version, encoded)[0]
        except WireError:
            continue
        owned = [TopicPartition(each.topic, index) for each in decoded.previous_assignment for index in each.partitions]
        return Claim(owned, decoded.generation)
    return Claim((), NO_GENERATION)


class CooperativeStickyAssignor:
    """The assignor `cooperative-sticky`: a partition that moves is revoked before another member gets it (KIP-429).

    Members report what they own in their subscriptions. Their generation is in the subscription from version 2 on; to
    members of earlier versions, and by them, it is given as user data: one int32.
    """

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        return _GENERATION.pack(NO_GENERATION if last is None else last.generation)

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        """Leaves out partitions whose owner has to revoke them first; the owner's next join brings them up again."""
        claims = {member: Claim(each.owned, _cooperative_generation(each)) for member, each in members.items()}
        assigned = _assign_sticky(topics, members, claims)
        for partition, member in assigned.moves.items():
            assigned.assignments[member].remove(partition)
        return assigned.assignments


def _cooperative_generation(subscription: MemberSubscription) -> int:
    if subscription.generation >= 0 or subscription.user_data is None:
        return subscription.generation
    if len(subscription.user_data) < _GENERATION.size:
        return NO_GENERATION
    generation: int = _GENERATION.unpack_from(subscription.user_data)[0]
    return generation
