"""Sticky assignment where all members read the same topics, so that every partition can go to every member.

Every member gets the same number of partitions, or one more. In three steps:

1. Members keep what they own, up to their share.
2. Where racks are heeded, members in a rack with a replica are filled up in turn.
3. The rest fills up everybody in turn.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from broker.client.consumer.group.assignors.assignor import Assignments, TopicRacks, partitions_of
from broker.client.consumer.group.assignors.claims import Ownership
from broker.client.consumer.group.assignors.racks import RackMatching
from broker.client.types import TopicPartition


class EqualAssignment:
    """See the module's docstring. `build` may be called once.

    `_share` is the number of partitions that every member gets; `_extras` is how many more members get one more.
    `_below` are the members with less than the share, `_at_share` those that may get one more.
    """

    def __init__(self, topics: TopicRacks, racks: RackMatching, ownership: Ownership, members: Sequence[str]) -> None:
        self._partitions = partitions_of(topics, sorted(topics))
        self._racks = racks
        self._ownership = ownership
        self._assignments: Assignments = {member: [] for member in members}
        self._share, self._extras = divmod(len(self._partitions), len(members))
        self._below: deque[str] = deque()
        self._at_share: deque[str] = deque()

    def build(self) -> Assignments:
        self._keep_owned()
        kept = frozenset(partition for partitions in self._assignments.values() for partition in partitions)
        left = [partition for partition in self._partitions if partition not in kept]
        if self._racks.is_used:
            left = self._fill_near(sorted(left, key=self._racks.near_count))
            self._below = deque(sorted(self._below))
        self._fill(left)
        return self._assignments

    def _keep_owned(self) -> None:
        owned: Assignments = {member: [] for member in self._assignments}
        for partition, member in self._ownership.owners.items():
            if not self._racks.mismatches(member, partition):
                owned[member].append(partition)
        for member, partitions in owned.items():
            partitions.sort(key=lambda partition: (partition.partition, partition.topic))
            is_above = len(partitions) > self._share and self._extras > 0
            self._assignments[member] += partitions[: self._share + is_above]
            self._extras -= is_above
            if len(partitions) < self._share:
                self._below.append(member)
            elif not is_above:
                self._at_share.append(member)

    def _fill_near(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Gives partitions to members in a rack with a replica, if there are any. Returns the other partitions."""
        left = []
        for partition in partitions:
            near = next((member for member in self._below if self._racks.is_near(member, partition)), None)
            if near is not None:
                while self._below[0] != near:
                    self._below.rotate(-1)
                self._give_next(partition)
                continue
            near = next((member for member in self._at_share if self._racks.is_near(member, partition)), None)
            if near is None or self._extras == 0:
                left.append(partition)
                continue
            self._at_share.remove(near)
            self._give_extra(near, partition)
        return left

    def _fill(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if self._below:
                self._give_next(partition)
            else:
                self._give_extra(self._at_share.popleft(), partition)

    def _give_next(self, partition: TopicPartition) -> None:
        """Gives a partition to the next member below its share."""
        member = self._below.popleft()
        self._assignments[member].append(partition)
        (self._below if len(self._assignments[member]) < self._share else self._at_share).append(member)

    def _give_extra(self, member: str, partition: TopicPartition) -> None:
        assert self._extras > 0, "shares and extras add up to the number of partitions"
        self._extras -= 1
        self._assignments[member].append(partition)
