"""The uniform assignor: members get equally many partitions, and keep as many of their former ones as that allows.

If all members are subscribed to the same topics, their numbers of partitions differ by at most one. Otherwise the
assignment is as even as the subscriptions allow: no partition can move, directly or through other members, from a
member to one that has at least two fewer.
"""

from collections import deque
from collections.abc import Mapping

from broker.coordinator.group.assignors.assignor import MemberSpec, are_homogeneous
from broker.coordinator.group.partition_sets import PartitionSets, count, of_topic


def assign_uniformly(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
) -> dict[str, PartitionSets]:
    """See `Assignor`."""
    if not members:
        return {}
    kept = _kept(members, partition_counts)
    if are_homogeneous(members):
        return _assign_evenly(members, partition_counts, kept)
    return _Balancer(members, partition_counts, kept).balance()


def _kept(members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> dict[str, PartitionSets]:
    """The partitions that members keep: those that exist, are subscribed to, and are not kept by another member."""
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in partition_counts}
    kept: dict[str, PartitionSets] = {}
    for member_id in sorted(members):
        member = members[member_id]
        sets: dict[bytes, frozenset[int]] = {}
        for topic_id in member.topic_ids:
            had = of_topic(member.current, topic_id)
            still = frozenset(
                index for index in had if index < partition_counts[topic_id] and index not in taken[topic_id]
            )
            if still:
                taken[topic_id] |= still
                sets[topic_id] = had if len(had) == len(still) else still
        kept[member_id] = sets
    return kept


def _unassigned(
    topic_ids: tuple[bytes, ...], partition_counts: Mapping[bytes, int], assigned: Mapping[str, PartitionSets]
) -> list[tuple[bytes, int]]:
    taken: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for sets in assigned.values():
        for topic_id, partitions in sets.items():
            taken[topic_id] |= partitions
    return [
        (topic_id, index)
        for topic_id in topic_ids
        for index in range(partition_counts[topic_id])
        if index not in taken[topic_id]
    ]


def _assign_evenly(
    members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int], kept: dict[str, PartitionSets]
) -> dict[str, PartitionSets]:
    """For members with the same subscription. If the partitions cannot be shared equally, the members that had most get
    one more.
    """
    topic_ids = next(iter(members.values())).topic_ids
    total = sum(partition_counts[topic_id] for topic_id in topic_ids)
    least, extras = divmod(total, len(members))
    by_size = sorted(members, key=lambda member_id: (-count(kept[member_id]), member_id))
    quotas = {member_id: least + (place < extras) for place, member_id in enumerate(by_size)}
    assigned = {member_id: _trimmed(kept[member_id], quotas[member_id]) for member_id in members}
    spare = iter(_unassigned(topic_ids, partition_counts, assigned))
    for member_id in members:
        missing = quotas[member_id] - count(assigned[member_id])
        if missing:
            more: dict[bytes, set[int]] = {}
            for topic_id, index in (next(spare) for _ in range(missing)):
                more.setdefault(topic_id, set()).add(index)
            assigned[member_id] = _with_more(assigned[member_id], more)
    assert next(spare, None) is None, "the quotas are all there is"
    return assigned


def _trimmed(sets: PartitionSets, quota: int) -> PartitionSets:
    if count(sets) <= quota:
        return sets
    trimmed: dict[bytes, frozenset[int]] = {}
    for topic_id, partitions in sets.items():
        if quota:
            trimmed[topic_id] = partitions if len(partitions) <= quota else frozenset(sorted(partitions)[:quota])
            quota -= len(trimmed[topic_id])
    return trimmed


def _with_more(sets: PartitionSets, more: Mapping[bytes, set[int]]) -> PartitionSets:
    return {
        topic_id: of_topic(sets, topic_id) | more.get(topic_id, frozenset())
        for topic_id in sorted(dict.fromkeys([*sets, *more]))
    }


class _Balancer:
    """For members with different subscriptions.

    Unassigned partitions go to the subscriber that has fewest. Then partitions move, one at a time, from the member
    that has most to one that has at least two fewer: directly, or along the shortest chain of members. Each move makes
    the sum of the squared sizes smaller, so the loop ends.
    """

    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        partition_counts: Mapping[bytes, int],
        kept: dict[str, PartitionSets],
    ) -> None:
        self._members = members
        self._counts = partition_counts
        self._had = kept
        self._has: dict[str, dict[bytes, set[int]]] = {
            member_id: {topic_id: set(partitions) for topic_id, partitions in kept[member_id].items()}
            for member_id in members
        }
        self._sizes = {member_id: count(kept[member_id]) for member_id in members}
        self._subscribers: dict[bytes, list[str]] = {}
        for member_id in sorted(members):
            for topic_id in members[member_id].topic_ids:
                self._subscribers.setdefault(topic_id, []).append(member_id)

    def balance(self) -> dict[str, PartitionSets]:
        self._assign_spare()
        settled: set[str] = set()
        while True:
            sources = [member_id for member_id in self._members if member_id not in settled]
            if not sources:
                break
            source = max(sources, key=lambda member_id: (self._sizes[member_id], member_id))
            if not self._move_from(source):
                # It stays settled: later moves are between smaller members, which it cannot reach.
                settled.add(source)
        return {member_id: self._result(member_id) for member_id in self._members}

    def _assign_spare(self) -> None:
        """Assigns topics with fewest subscribers first, because the others leave more choice."""
        in_order = sorted(self._subscribers, key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id))
        for topic_id, index in _unassigned(tuple(in_order), self._counts, self._had):
            self._give(self._smallest(topic_id), topic_id, index)

    def _smallest(self, topic_id: bytes) -> str:
        return min(self._subscribers[topic_id], key=lambda member_id: (self._sizes[member_id], member_id))

    def _move_from(self, source: str) -> bool:
        """Moves one partition away from `source` if that makes sizes more even; False if it cannot."""
        came_from: dict[str, tuple[str, bytes]] = {}
        to_visit = deque([source])
        seen_topics: set[bytes] = set()
        while to_visit:
            member_id = to_visit.popleft()
            for topic_id in list(self._has[member_id]):
                if topic_id in seen_topics:
                    continue
                seen_topics.add(topic_id)
                for other in self._subscribers[topic_id]:
                    if other == source or other in came_from:
                        continue
                    came_from[other] = member_id, topic_id
                    if self._sizes[other] <= self._sizes[source] - 2:
                        self._move_along(came_from, source, other)
                        return True
                    to_visit.append(other)
        return False

    def _move_along(self, came_from: Mapping[str, tuple[str, bytes]], source: str, target: str) -> None:
        while target != source:
            giver, topic_id = came_from[target]
            self._move(giver, target, topic_id)
            target = giver

    def _move(self, giver: str, taker: str, topic_id: bytes) -> None:
        """Prefers a partition that the taker had before, then one that the giver did not have before."""
        had_taker, had_giver = of_topic(self._had[taker], topic_id), of_topic(self._had[giver], topic_id)
        partitions = self._has[giver][topic_id]
        index = min(partitions, key=lambda each: (each not in had_taker, each in had_giver, -each))
        partitions.discard(index)
        if not partitions:
            del self._has[giver][topic_id]
        self._sizes[giver] -= 1
        self._give(taker, topic_id, index)

    def _give(self, member_id: str, topic_id: bytes, index: int) -> None:
        self._has[member_id].setdefault(topic_id, set()).add(index)
        self._sizes[member_id] += 1

    def _result(self, member_id: str) -> PartitionSets:
        has = self._has[member_id]
        return {topic_id: frozenset(has[topic_id]) for topic_id in sorted(has)}
