"""The requests of classic members that share a group with members of the consumer protocol (KIP-848).

Their subscriptions and assignments are those of Kafka's consumers, because the coordinator reads them. Generations of
such a group are epochs, which are compared by when they change.
"""

from typing import Any, Final

import attrs

from broker.wire.api.sync_group import SyncGroupRequestAssignment
from broker.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    group_by_topic,
    subscribed_topics,
)
from broker.wire.errors import WireError
from tests.differential.comparable import EPOCH, comparable
from tests.differential.families.groups.administration_steps import DescribeGroups
from tests.differential.families.groups.classic_steps import Join, Sync
from tests.differential.families.groups.consumer_steps import ConsumerHeartbeat
from tests.differential.families.groups.members import TOPICS, members_of
from tests.differential.sequences import Place

_GENERATIONS_FROM: Final = 2


@attrs.frozen(kw_only=True)
class MixedJoin(Join):
    """`owns` is what the member says that it owns: all that it is assigned, nothing, or a partition that is not its."""

    subscription_version: int = 1
    owns: str = "all"

    def _metadata(self, place: Place, topics: tuple[str, ...] | None) -> bytes:
        if topics is None:
            return b"none"
        members = members_of(place)
        owned = members.assigned.get(self.member, []) if self.owns == "all" else []
        if self.owns == "other":
            owned = [(place.named("t"), [0, 1])]
        subscription = ConsumerProtocolSubscription(
            topics=list(map(place.named, topics)),
            owned_partitions=[OwnedPartitions(topic=name, partitions=list(indexes)) for name, indexes in owned],
            generation_id=members.epochs.get(self.member, -1) if self.subscription_version >= _GENERATIONS_FROM else -1,
        )
        return encode_subscription(subscription, self.subscription_version)

    def observe(self, place: Place, response: Any) -> None:
        super().observe(place, response)
        known = members_of(place).subscriptions
        known.update({each.member_id: subscribed_topics(each.metadata) or [] for each in response.members})

    def comparable(self, place: Place, response: Any) -> Any:
        """The metadata of members has generations in it, which differ."""
        for each in response.members:
            each.metadata = b"metadata"
        found = comparable(response, place.labels)
        if response.generation_id > 0:
            found["generation_id"] = place.labels.label(EPOCH, response.generation_id)
        return found


@attrs.frozen(kw_only=True)
class MixedSync(Sync):
    """The leader gives each partition to the next member that subscribes to the topic."""

    def request(self, place: Place) -> tuple[Any, int]:
        message, version = super().request(place)
        members = members_of(place)
        numbers = {known_id: number for number, known_id in members.ids.items()}
        receivers = sorted((each.member_id for each in message.assignments), key=lambda known: numbers.get(known, 9))
        given: dict[str, list[tuple[str, int]]] = {each: [] for each in receivers}
        for topic, count in TOPICS.items():
            name = place.named(topic)
            takers = [each for each in receivers if name in members.subscriptions.get(each, ())]
            for index in range(count if takers else 0):
                given[takers[index % len(takers)]].append((name, index))
        message.assignments = [
            SyncGroupRequestAssignment(
                member_id=each,
                assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=group_by_topic(owned)), 1),
            )
            for each, owned in given.items()
        ]
        return message, version

    def observe(self, place: Place, response: Any) -> None:
        super().observe(place, response)
        if not response.error_code:
            members_of(place).assigned[self.member] = _assigned(response.assignment)

    def comparable(self, place: Place, response: Any) -> Any:
        assigned = None if response.error_code else _assigned(response.assignment)
        response.assignment = b""
        return {**comparable(response, place.labels), "assignment": assigned}


@attrs.frozen(kw_only=True)
class MixedHeartbeat(ConsumerHeartbeat):
    """A heartbeat of a member whose id comes after those of classic members, which Kafka makes at random."""

    def _own_id(self, place: Place) -> str:
        return f"~{super()._own_id(place)}"


@attrs.frozen(kw_only=True)
class DescribeMixedGroups(DescribeGroups):
    def comparable(self, place: Place, response: Any) -> Any:
        """The metadata of members has generations in it, which differ."""
        for group in response.groups:
            for member in group.members:
                member.member_metadata = b""
                member.member_assignment = repr(_assigned(member.member_assignment)).encode()
        return comparable(response, place.labels)


def _assigned(assignment: bytes) -> list[tuple[str, list[int]]]:
    """The partitions of an assignment by topic, in order; nothing if the bytes are no assignment."""
    try:
        decoded = decode_assignment(assignment)
    except WireError:
        return []
    topics: dict[str, list[int]] = {}
    for each in decoded.assigned_partitions:
        topics.setdefault(each.topic, []).extend(each.partitions)
    return sorted((topic, sorted(indexes)) for topic, indexes in topics.items())
