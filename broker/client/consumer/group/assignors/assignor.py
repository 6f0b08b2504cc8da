"""What an assignor is given, and what it returns (Kafka's ConsumerPartitionAssignor)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from broker.client.types import TopicPartition

# Of each topic, by partition number: the racks of the partition's replicas, as far as they are known.
TopicRacks: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
Assignments: TypeAlias = dict[str, list[TopicPartition]]

NO_GENERATION: Final = -1


@attrs.frozen
class LastAssignment:
    """What the group gave to a member last, and in which generation. Kept by the member after it has given it up."""

    partitions: Sequence[TopicPartition]
    generation: int


@attrs.frozen(kw_only=True)
class MemberSubscription:
    """What a member says about itself when it joins: `owned` and `generation` of version 1 and 2 on, `rack` of 3."""

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    user_data: bytes | None = None
    instance_id: str | None = None
    rack: str | None = None


class Assignor(Protocol):
    """Distributes partitions over the members of a group. All members have to name it the same.

    A cooperative one (KIP-429) is called twice for a partition that moves: the first time it must leave the partition
    out, until its owner has revoked it.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_cooperative(self) -> bool: ...

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        """What a member tells the group's leader when it joins, besides its subscription."""

    def assign(
        self, topics: TopicRacks, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """The partitions of each member, by member id. `topics` are those subscribed topics that exist."""


def sorted_members(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids in Kafka's order: static members by instance id, which survives restarts, then the others by id."""

    def order(member: str) -> tuple[bool, str]:
        instance_id = members[member].instance_id
        return instance_id is None, instance_id or member

    return sorted(members, key=order)


def partitions_of(topics: TopicRacks, names: Iterable[str]) -> list[TopicPartition]:
    """All partitions of these topics, in the order of the names."""
    return [TopicPartition(name, index) for name in names for index in range(len(topics[name]))]
