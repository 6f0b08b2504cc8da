"""The assignor `sticky`: as balanced as possible, and of the balanced assignments one that moves few partitions.

Members tell the leader in their user data what they were given last, and in which generation:

    topics [topic string, partitions [int32]], generation int32 (since Kafka 2.3; -1 or absent before)
"""

from collections.abc import Mapping
from typing import Any, Final

from broker.client.consumer.group.assignors.assignor import (
    NO_GENERATION,
    Assignments,
    LastAssignment,
    MemberSubscription,
    TopicRacks,
)
from broker.client.consumer.group.assignors.claims import Claim
from broker.client.consumer.group.assignors.sticky_assignment import assign_sticky
from broker.client.types import TopicPartition
from broker.wire.codec import decode, encode
from broker.wire.consumer_protocol import OwnedPartitions, group_by_topic
from broker.wire.errors import WireError
from broker.wire.schema import data, field

_VERSION_WITH_GENERATION: Final = 1


@data(key=-1, versions="0-1", flexible="99+")
class StickyUserData:
    """A member's last assignment. Version 1 adds the generation at the end; the bytes do not contain the version."""

    previous_assignment: list[OwnedPartitions] = field([OwnedPartitions], "0+", factory=list)
    generation: int = field("int32", "1+", default=NO_GENERATION)


class StickyAssignor:
    """See the module's docstring. Rebalances are eager: every member revokes everything before it joins."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, last: LastAssignment | None) -> bytes | None:
        if last is None:
            return None
        message: Any = StickyUserData(previous_assignment=group_by_topic(last.partitions), generation=last.generation)
        return b"".join(encode(message, _VERSION_WITH_GENERATION))

    def assign(self, topics: TopicRacks, members: Mapping[str, MemberSubscription]) -> Assignments:
        claims = {member: _claim(subscription) for member, subscription in members.items()}
        return assign_sticky(topics, members, claims).assignments


def _claim(subscription: MemberSubscription) -> Claim:
    """Returns the partitions that a member claims: none without readable user data, since it has revoked all."""
    encoded = subscription.user_data
    if not encoded:
        return Claim((), NO_GENERATION)
    message: Any = StickyUserData
    for version in (1, 0):
        try:
            decoded: StickyUserData = decode(message, version, encoded)[0]
        except WireError:
            continue
        owned = [TopicPartition(each.topic, index) for each in decoded.previous_assignment for index in each.partitions]
        return Claim(owned, decoded.generation)
    return Claim((), NO_GENERATION)
