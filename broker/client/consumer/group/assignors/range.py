"""The assignor `range`: each member gets consecutive partitions of each topic, and the first members may get one more.

Members that read several topics with equally many partitions get the same numbers of each (co-partitioning).
"""

from collections.abc import Callable, Mapping, Sequence

from broker.client.consumer.group.assignors.assignor import (
    Assignments,
    LastAssignment,
    MemberSubscription,
    TopicRacks,
    sorted_members,
)
from broker.client.consumer.group.assignors.racks import RackMatching
from broker.client.types import TopicPartition


class RangeAssignor:
    """See the module's docstring.

    Where racks matter (KIP-881), partitions first go to members in a rack with a replica, as far as everybody's share
    allows. Topics that are read by the same members and have equally many partitions stay co-partitioned.
    """

    name = "range"
    is_cooperative = False

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        return None

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        assignments: Assignments = {member: [] for member in members}
        order = sorted_members(members)
        subscribed = {member: frozenset(members[member].topics) for member in order}
        shares = []
        for name in sorted(topics):
            readers = {member: members[member] for member in order if name in subscribed[member]}
            if readers and topics[name]:
                shares.append(_TopicShares(name, topics, readers, assignments))
        if any(share.racks.is_used for share in shares):
            _assign_by_rack(shares)
        for share in shares:
            share.assign_ranges(lambda member, partition: True)
        for partitions in assignments.values():
            partitions.sort()
        return assignments


class _TopicShares:
    """The unassigned partitions of one topic, and how many more each of its readers may get."""

    def __init__(
        self, name: str, topics: TopicRacks, readers: Mapping[str, MemberSubscription], assignments: Assignments
    ) -> None:
        self.name, self.count = name, len(topics[name])
        self.racks = RackMatching(topics, readers, [name])
        self.readers = list(readers)
        # Topics with equal keys are co-partitioned.
        self.key = (self.count, *((member, readers[member].rack) for member in self.readers))
        self._assignments = assignments
        self._unassigned = dict.fromkeys(TopicPartition(name, index) for index in range(self.count))
        self._share, self._extra = divmod(self.count, len(readers))
        self._given = dict.fromkeys(self.readers, 0)

    def room(self, member: str) -> int:
        return max(0, self._share + (self._extra > 0) - self._given[member])

    def matches(self, member: str, partition: TopicPartition) -> bool:
        return self.racks.matches(member, partition)

    def give(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        self._given[member] += len(partitions)
        if self._given[member] > self._share:
            self._extra -= 1
        self._assignments[member] += partitions
        for partition in partitions:
            del self._unassigned[partition]

    def assign_ranges(self, may_get: Callable[[str, TopicPartition], bool]) -> None:
        for member in self.readers:
            eligible = [partition for partition in self._unassigned if may_get(member, partition)]
            if chosen := eligible[: self.room(member)]:
                self.give(member, chosen)


def _assign_by_rack(shares: Sequence[_TopicShares]) -> None:
    groups: dict[object, list[_TopicShares]] = {}
    for share in shares:
        groups.setdefault(share.key, []).append(share)
    for group in groups.values():
        if len(group) > 1:
            _assign_copartitioned(group)
        elif group[0].racks.is_used:
            group[0].assign_ranges(group[0].matches)


def _assign_copartitioned(group: Sequence[_TopicShares]) -> None:
    """Gives the same partition of all these topics to the first member that is near all of them."""
    for index in range(group[0].count):
        for member in group[0].readers:
            if all(each.room(member) and each.matches(member, TopicPartition(each.name, index)) for each in group):
                for each in group:
                    each.give(member, [TopicPartition(each.name, index)])
                break
