"""Sticky assignment where members read different topics.

1. Members keep what they own, of topics that they still read. 2. The other partitions go to the readers with the
fewest, near readers first where racks are heeded. 3. Where racks are heeded, partitions move to near readers that have
less than the owner. 4. Partitions move from members to others that have at least two less, until none can.

No move makes loads less equal. If every partition with an owner that is not near were revoked before the balancing, the
partitions that balancing moves away from near readers would be revoked in each round, and a cooperative group could
rebalance for ever.
"""

from collections.abc import Iterable, Mapping, Sequence

from broker.client.consumer.group.assignors.assignor import Assignments, TopicRacks, partitions_of
from broker.client.consumer.group.assignors.claims import Ownership
from broker.client.consumer.group.assignors.racks import RackMatching
from broker.client.types import TopicPartition


class GeneralAssignment:
    """See the module's docstring. `build` may be called once.

    `_owners` is the assignment as it grows, `_counts` how many partitions each member has. `_homes` are the owners when
    balancing begins: a partition that has moved goes back there, rather than another one of its topic following it.
    """

    def __init__(
        self, topics: TopicRacks, racks: RackMatching, ownership: Ownership, subscribed: Mapping[str, frozenset[str]]
    ) -> None:
        self._readers = {name: [member for member, names in subscribed.items() if name in names] for name in topics}
        ordered = sorted(
            (name for name in topics if self._readers[name]), key=lambda name: (len(self._readers[name]), name)
        )
        self._partitions = partitions_of(topics, ordered)
        self._racks = racks
        self._ownership = ownership
        self._subscribed = subscribed
        self._owners: dict[TopicPartition, str] = {}
        self._counts = dict.fromkeys(subscribed, 0)
        self._homes: dict[TopicPartition, str] = {}
        self._away: dict[tuple[str, str, str], list[TopicPartition]] = {}

    def build(self) -> Assignments:
        is_revoking = self._keep_owned()
        added = [partition for partition in self._partitions if partition not in self._owners]
        self._assign(added)
        self._homes = dict(self._owners)
        movable = [each for each in self._partitions if len(self._readers[each.topic]) > 1]
        is_revoking = self._bring_near(movable) or is_revoking
        if not is_revoking:
            # Moving what is new disturbs no member.
            self._balance([each for each in added if len(self._readers[each.topic]) > 1])
        self._balance(movable)
        assignments: Assignments = {member: [] for member in self._subscribed}
        for partition, member in self._owners.items():
            assignments[member].append(partition)
        return assignments

    def _keep_owned(self) -> bool:
        """Keeps owned partitions. True if some have to be revoked: their owner does not read them."""
        is_revoking = False
        for partition, member in self._ownership.owners.items():
            if partition.topic not in self._subscribed[member]:
                is_revoking = True
            else:
                self._own(partition, member)
        return is_revoking

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        left = []
        for partition in partitions:
            near = self._near_readers(partition)
            if self._racks.is_used and near:
                self._own(partition, self._least_loaded(near))
            else:
                left.append(partition)
        for partition in left:
            self._own(partition, self._least_loaded(self._readers[partition.topic]))

    def _bring_near(self, partitions: Sequence[TopicPartition]) -> bool:
        """Moves partitions to near readers where that makes no load less equal. True if any has moved."""
        has_moved = False
        for partition in partitions:
            owner = self._owners[partition]
            if self._racks.mismatches(owner, partition) and (near := self._near_readers(partition)):
                best = self._least_loaded(near)
                if self._counts[best] < self._counts[owner]:
                    self._move(partition, best)
                    has_moved = True
        return has_moved

    def _near_readers(self, partition: TopicPartition) -> list[str]:
        """The readers that are near the partition, or whose rack is not known; all where racks are not heeded."""
        return [each for each in self._readers[partition.topic] if not self._racks.mismatches(each, partition)]

    def _own(self, partition: TopicPartition, member: str) -> None:
        self._owners[partition] = member
        self._counts[member] += 1

    def _least_loaded(self, members: Sequence[str]) -> str:
        return min(members, key=lambda member: (self._counts[member], member))

    def _balance(self, partitions: Sequence[TopicPartition]) -> None:
        """Moves partitions until no move improves the balance. Every move makes the loads more equal, so this ends."""
        has_moved = True
        while has_moved and max(self._counts.values()) - min(self._counts.values()) > 1:
            has_moved = False
            for partition in partitions:
                member = self._better_owner(partition)
                if member is not None:
                    self._move(partition, member)
                    has_moved = True

    def _better_owner(self, partition: TopicPartition) -> str | None:
        """A reader with at least two partitions less than the owner: the former owner, or one near the partition, or
        the one with the fewest."""
        count, readers = self._counts[self._owners[partition]], self._readers[partition.topic]
        former = self._ownership.former.get(partition)
        if former in readers and self._counts[former] + 1 < count:
            return former
        near = [member for member in readers if self._racks.is_near(member, partition)]
        for candidates in (near, readers):
            if candidates and self._counts[best := self._least_loaded(candidates)] + 1 < count:
                return best
        return None

    def _move(self, partition: TopicPartition, to: str) -> None:
        """Moves a partition of this topic between these members: one that comes from there, if there is one."""
        owner = self._owners[partition]
        returning = self._away.get((partition.topic, to, owner))
        if returning:
            partition = returning[-1]
        home = self._homes[partition]
        if owner != home:
            self._away[partition.topic, home, owner].remove(partition)
        if to != home:
            self._away.setdefault((partition.topic, home, to), []).append(partition)
        self._owners[partition] = to
        self._counts[owner] -= 1
        self._counts[to] += 1
