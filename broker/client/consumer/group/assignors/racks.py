"""Decides whether assignors use racks (KIP-881), and which consumers are near which partitions."""

from collections.abc import Collection, Mapping

from broker.client.consumer.group.assignors.assignor import MemberSubscription, TopicRacks
from broker.client.types import TopicPartition


class RackMatching:
    """The members that have a replica of a partition in their own rack.

    Racks are not worth heeding, `is_used` is False, where they make no difference: no consumer names a rack, none of
    them has replicas, or every partition has replicas in the same racks.
    """

    def __init__(self, topics: TopicRacks, members: Mapping[str, MemberSubscription], names: Collection[str]) -> None:
        self._racks = {member: subscription.rack for member, subscription in members.items() if subscription.rack}
        self._topics = topics
        partitions = [replicas for name in names for replicas in topics[name]]
        everywhere = frozenset[str]().union(*partitions)
        is_near = not everywhere.isdisjoint(self._racks.values())
        self.is_used = is_near and any(each != everywhere for each in partitions)

    def matches(self, member: str, partition: TopicPartition) -> bool:
        """False if the member's rack is known and has no replica of the partition."""
        rack = self._racks.get(member)
        return rack is None or rack in self._replicas(partition)

    def mismatches(self, member: str, partition: TopicPartition) -> bool:
        """True if racks are heeded, and the member's has no replica of the partition."""
        return self.is_used and not self.matches(member, partition)

    def is_near(self, member: str, partition: TopicPartition) -> bool:
        """True if racks are heeded, and the member's is known and has a replica of the partition."""
        return self.is_used and self._racks.get(member) in self._replicas(partition)

    def near_count(self, partition: TopicPartition) -> int:
        """The number of members in a rack with a replica of the partition."""
        replicas = self._replicas(partition)
        return sum(rack in replicas for rack in self._racks.values())

    def _replicas(self, partition: TopicPartition) -> frozenset[str]:
        return self._topics[partition.topic][partition.partition]
