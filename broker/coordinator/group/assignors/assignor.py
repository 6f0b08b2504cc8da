"""The input of an assignor and its result."""

from collections.abc import Mapping
from typing import Protocol

from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets
from kraft import lazy_attrs


@lazy_attrs.frozen
class MemberSpec:
    """A member as assignors see it: the existing topics that it is subscribed to, by id in ascending order, and its
    target assignment so far.
    """

    topic_ids: tuple[bytes, ...]
    instance_id: str | None = None
    current: PartitionSets = NO_PARTITIONS


class Assignor(Protocol):
    """Assigns every partition of every topic that has a subscriber to one of the topic's subscribers.

    The same members and partitions result in the same assignment. `partition_counts` has the ids of all subscribed
    topics.
    """

    def __call__(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> dict[str, PartitionSets]: ...


def are_homogeneous(members: Mapping[str, MemberSpec]) -> bool:
    """True if all members are subscribed to the same topics."""
    subscriptions = {member.topic_ids for member in members.values()}
    return len(subscriptions) <= 1
