"""The range assignor: each member gets a range of each topic's partitions, with the same order of members for all
topics.

So topics with equal numbers of partitions are co-partitioned if all members are subscribed to them. The assignment is
sticky only because the order of members is: static members first, by their instance ids, then all others by their
member ids.
"""

from collections.abc import Mapping

from broker.coordinator.group.assignors.assignor import MemberSpec
from broker.coordinator.group.partition_sets import PartitionSets


def assign_ranges(members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> dict[str, PartitionSets]:
    """See `Assignor`. Two members' shares of a topic differ by at most one partition."""
    subscribers: dict[bytes, list[str]] = {}
    ordered = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    for member_id in ordered:
        for topic_id in members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id in sorted(subscribers):
        start = 0
        least, extras = divmod(partition_counts[topic_id], len(subscribers[topic_id]))
        for place, member_id in enumerate(subscribers[topic_id]):
            end = start + least + (place < extras)
            if end > start:
                assigned[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assigned)


def _place(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    is_dynamic = member.instance_id is None
    return is_dynamic, member_id if member.instance_id is None else member.instance_id
