"""The interface of assignors: their arguments and their result (Kafka's ConsumerPartitionAssignor)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from broker.client.types import TopicPartition

# For each topic, by partition number: the racks of the partition's replicas, as far as they are known.
TopicRacks: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
Assignments: TypeAlias = dict[str, list[TopicPartition]]

NO_GENERATION: Final = -1


@attrs.frozen
class LastAssignment:
    """The last assignment of a member, and its generation. The member remembers it after it has revoked it."""

    partitions: Sequence[TopicPartition]
    generation: int


@attrs.frozen(kw_only=True)
class MemberSubscription:
    """The subscription that a member sends when it joins.

    `owned` is empty, `generation` is -1 and `rack` is None from members whose version of the subscription lacks them.
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    user_data: bytes | None = None
    instance_id: str | None = None
    rack: str | None = None


class Assignor(Protocol):
    """Distributes partitions over the members of a classic group. All members must have one of the same `name`.

    A cooperative assignor (KIP-429) is called twice for a partition that moves: the first time it must leave the
    partition out, until its owner has revoked it.
    """

    @property
    def name(self) -> str:
        """The name by which the members of a group choose a common assignor."""

    @property
    def is_cooperative(self) -> bool:
        """True if members keep what they own during a rebalance, unless the assignment moves it."""

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        """The data that a member sends to the group's leader with its subscription when it joins."""

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
