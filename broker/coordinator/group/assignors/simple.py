"""The simple assignor of share groups: a partition may have several members (KIP-932).

Each partition gets an equal number of members, so that all members have work even if there are more of them than
partitions. The numbers of partitions of two members differ by at most one. A partition stays with its members as far as
that allows. If members are subscribed to different topics, each topic is assigned by itself.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from broker.coordinator.group.assignors.assignor import MemberSpec, are_homogeneous
from broker.coordinator.group.partition_sets import PartitionSets

# A topic's id, and a partition.
_Place: TypeAlias = tuple[bytes, int]


def assign_simply(
    members: Mapping[str, MemberSpec], assignable: Mapping[bytes, frozenset[int]]
) -> dict[str, PartitionSets]:
    """The partitions of each member.

    `assignable` has the partitions that may be assigned, by topic id. Topics that it lacks are not assigned. The same
    members and partitions result in the same assignment.
    """
    holders: dict[str, set[_Place]] = {member_id: set() for member_id in sorted(members)}
    if are_homogeneous(members):
        topic_ids = next(iter(members.values())).topic_ids if members else ()
        _share(_places(topic_ids, assignable), list(holders), members, holders)
    else:
        for topic_id in sorted({topic_id for member in members.values() for topic_id in member.topic_ids}):
            subscribers = [member_id for member_id in holders if topic_id in members[member_id].topic_ids]
            _share(_places((topic_id,), assignable), subscribers, members, holders)
    return {member_id: _as_sets(holders[member_id]) for member_id in members}


def _places(topic_ids: Sequence[bytes], assignable: Mapping[bytes, frozenset[int]]) -> list[_Place]:
    return [(topic_id, index) for topic_id in topic_ids for index in sorted(assignable.get(topic_id, ()))]


def _as_sets(places: set[_Place]) -> PartitionSets:
    sets: dict[bytes, set[int]] = {}
    for topic_id, index in sorted(places):
        sets.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in sets.items()}


def _share(
    places: list[_Place],
    member_ids: list[str],
    members: Mapping[str, MemberSpec],
    holders: Mapping[str, set[_Place]],
) -> None:
    """Adds these partitions to the sets of these members, who are subscribed to all of them."""
    if not places or not member_ids:
        return
    sharing = -(-len(member_ids) // len(places))
    total = sharing * len(places)
    counts = dict(zip(member_ids, _counts(total, len(member_ids)), strict=True))
    missing = dict.fromkeys(places, sharing)
    mine = {member_id: _kept(members[member_id], counts[member_id], missing) for member_id in member_ids}
    _fill(missing, mine, counts)
    _exchange(missing, mine, counts)
    for member_id, kept in mine.items():
        holders[member_id].update(kept)


def _counts(total: int, members: int) -> list[int]:
    """How many partitions each member gets: equal shares of `total`, rounded so that they sum up to it."""
    bounds = [-(-total * place // members) for place in range(members + 1)]
    return [bounds[place + 1] - bounds[place] for place in range(members)]


def _kept(member: MemberSpec, count: int, missing: dict[_Place, int]) -> set[_Place]:
    """At most `count` of the member's present partitions, of which no one gets more members than it is `missing`."""
    kept: set[_Place] = set()
    for topic_id in sorted(member.current):
        for index in sorted(member.current[topic_id]):
            place = topic_id, index
            if len(kept) < count and missing.get(place, 0):
                missing[place] -= 1
                kept.add(place)
    return kept


def _fill(missing: dict[_Place, int], mine: Mapping[str, set[_Place]], counts: Mapping[str, int]) -> None:
    """Gives partitions that miss members to members that have too few, in turns."""
    unfilled = deque(member_id for member_id, places in mine.items() if len(places) < counts[member_id])
    for place in missing:
        passed: list[str] = []
        while missing[place] and unfilled:
            member_id = unfilled.popleft()
            if place in mine[member_id]:
                passed.append(member_id)
                continue
            mine[member_id].add(place)
            missing[place] -= 1
            if len(mine[member_id]) < counts[member_id]:
                # The member may get this partition only once; it is passed over while the partition lasts.
                unfilled.append(member_id)
        unfilled.extendleft(reversed(passed))


def _exchange(missing: dict[_Place, int], mine: Mapping[str, set[_Place]], counts: Mapping[str, int]) -> None:
    """Finds members for the partitions that all members with too few partitions have already.

    Such a member takes a partition from a full member, which gets the one that misses a member. There is always such a
    partition: the full member has at least as many, and lacks one that the other has.
    """
    for place, number in missing.items():
        for _ in range(number):
            poor = next(member_id for member_id in mine if len(mine[member_id]) < counts[member_id])
            full = next(member_id for member_id in mine if place not in mine[member_id])
            if full != poor:
                given = min(mine[full] - mine[poor])
                mine[full].remove(given)
                mine[poor].add(given)
            mine[full].add(place)
