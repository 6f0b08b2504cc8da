"""Sticky assignment: one algorithm if all members read the same topics, and a general one otherwise."""

from collections.abc import Mapping

import attrs

from broker.client.consumer.group.assignors.assignor import Assignments, MemberSubscription, TopicRacks
from broker.client.consumer.group.assignors.claims import Claim, Ownership, settle_claims
from broker.client.consumer.group.assignors.racks import RackMatching
from broker.client.consumer.group.assignors.sticky_equal import EqualAssignment
from broker.client.consumer.group.assignors.sticky_general import GeneralAssignment
from broker.client.types import TopicPartition


@attrs.frozen
class StickyAssignment:
    """`moves` are the partitions that a member is to get which another member claims to own."""

    assignments: Assignments
    moves: Mapping[TopicPartition, str]


def assign_sticky(
    topics: TopicRacks, members: Mapping[str, MemberSubscription], claims: Mapping[str, Claim]
) -> StickyAssignment:
    """Distributes all partitions of `topics` that a member reads."""
    subscribed = {member: frozenset(topics).intersection(members[member].topics) for member in sorted(members)}
    topics = {name: topics[name] for name in sorted(frozenset[str]().union(*subscribed.values()))}
    ownership = settle_claims(topics, members, claims)
    racks = RackMatching(topics, members, list(topics))
    if len(set(subscribed.values())) == 1:
        assignments = EqualAssignment(topics, racks, ownership, sorted(members)).build()
    else:
        assignments = GeneralAssignment(topics, racks, ownership, subscribed).build()
    return StickyAssignment(assignments, _moves(assignments, claims, ownership))


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
