"""The requests of members of consumer groups (KIP-848), and of those who describe them."""

from typing import Any, Final

import attrs

from broker.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.differential.comparable import comparable
from tests.differential.families.groups.classic_steps import MemberStep
from tests.differential.families.groups.members import GROUP, Epoch, members_of
from tests.differential.sequences import Place, Step

_REGEX_FROM: Final = 1
# Messages name members by their ids, which differ.
_SOME_MESSAGE: Final = "message"


@attrs.frozen(kw_only=True)
class ConsumerHeartbeat(MemberStep):
    """A heartbeat. `epoch` is relative to the member's own, or the number that joins or leaves.

    `topics` and `regex` are the subscription, if it changes; a regular expression matches the sequence's topics.
    `owns` is what the member says that it owns: all that it is assigned, nothing, or None for no change.
    """

    version: int = 1
    epoch: Epoch | int = Epoch.OWN
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    owns: str | None = None
    assignor: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = -1

    def request(self, place: Place) -> tuple[Any, int]:
        members = members_of(place)
        message = ConsumerGroupHeartbeatRequest(
            group_id=place.named(self.group),
            member_id=self._member_id(place),
            member_epoch=self.epoch if isinstance(self.epoch, int) else members.epoch(self.member, self.epoch),
            instance_id=self.instance,
            rack_id=self.rack,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            subscribed_topic_names=None if self.topics is None else list(map(place.named, self.topics)),
            server_assignor=self.assignor,
            topic_partitions=self._owned(place),
        )
        if self.version >= _REGEX_FROM and self.regex is not None:
            message.subscribed_topic_regex = self.regex and f"{place.name}-{self.regex}"
        return message, self.version

    def _member_id(self, place: Place) -> str:
        """The id that the member was given; from version 1 on, it makes its own."""
        found = self.member_id(place)
        return found or (self._own_id(place) if self.version >= _REGEX_FROM else "")

    def _own_id(self, place: Place) -> str:
        return place.named(f"member-{self.member}")

    def _owned(self, place: Place) -> list[TopicPartitions] | None:
        if self.owns is None:
            return None
        assigned = members_of(place).assigned.get(self.member, []) if self.owns == "all" else []
        if self.owns == "unknown":
            assigned = [(b"absent".ljust(16, b"."), [0])]
        return [TopicPartitions(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in assigned]

    def comparable(self, place: Place, response: Any) -> Any:
        response.error_message = response.error_message and _SOME_MESSAGE
        return comparable(response, place.labels)

    def observe(self, place: Place, response: Any) -> None:
        if response.error_code:
            return
        members = members_of(place)
        members.ids[self.member] = response.member_id or members.ids.get(self.member, "")
        members.set_epoch(self.member, response.member_epoch)
        if response.assignment is not None:
            members.assigned[self.member] = [
                (bytes(each.topic_id), list(each.partitions)) for each in response.assignment.topic_partitions
            ]


@attrs.frozen(kw_only=True)
class DescribeConsumerGroups(Step):
    version: int = 1
    groups: tuple[str, ...] = (GROUP,)

    def request(self, place: Place) -> tuple[Any, int]:
        return ConsumerGroupDescribeRequest(group_ids=list(map(place.named, self.groups))), self.version

    def comparable(self, place: Place, response: Any) -> Any:
        for each in response.groups:
            each.error_message = each.error_message and _SOME_MESSAGE
        return comparable(response, place.labels)
