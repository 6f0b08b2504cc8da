"""What an assignor is given, and what it gives back."""

from collections.abc import Mapping
from typing import Protocol

import attrs

from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets


@attrs.frozen
class MemberSpec:
    """A member, as far as assignors care: the ids of the topics that it is subscribed to and that exist, in ascending
    order, and what it was to have so far."""

    topic_ids: tuple[bytes, ...]
    instance_id: str | None = None
    current: PartitionSets = NO_PARTITIONS


class Assignor(Protocol):
    """Every partition of a topic that somebody is subscribed to is assigned, to one who is.

    The same members and partitions lead to the same assignment. `partition_counts` by topic id, of all topics that
    members are subscribed to.
    """

    def __call__(
        self, members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]
    ) -> dict[str, PartitionSets]: ...


def are_homogeneous(members: Mapping[str, MemberSpec]) -> bool:
    """Whether all are subscribed to the same topics."""
    subscriptions = {member.topic_ids for member in members.values()}
    return len(subscriptions) <= 1
