"""The requests of members of share groups to the group's coordinator, and of those who describe groups."""

from typing import Any, Final

import attrs

from broker.wire.api.share_group_describe import ShareGroupDescribeRequest
from broker.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.differential.comparable import UNKNOWN_MEMBER_ID, comparable
from tests.differential.families.groups.members import GROUP, Epoch, Who
from tests.differential.families.records.readers import label_topics
from tests.differential.families.shares.share_members import member_id, members_of
from tests.differential.sequences import Place, Step

LEAVES: Final = -1
JOINS: Final = 0


def sent_id(member: int, who: Who) -> str:
    """The id of the member, or another one."""
    return {
        Who.OWN: member_id(member),
        Who.OTHER: member_id(1 - member),
        Who.UNKNOWN: UNKNOWN_MEMBER_ID,
        Who.NONE: "",
    }[who]


def without_messages(value: Any) -> Any:
    """A comparable value without the messages of errors, which either server leaves out at times."""
    if isinstance(value, dict):
        return {key: without_messages(each) for key, each in value.items() if key != "error_message"}
    return list(map(without_messages, value)) if isinstance(value, list) else value


@attrs.frozen(kw_only=True)
class ShareHeartbeat(Step):
    """A heartbeat. `epoch` is relative to the member's own, or the number that joins or leaves."""

    member: int
    epoch: Epoch | int = Epoch.OWN
    topics: tuple[str, ...] | None = None
    rack: str | None = None
    who: Who = Who.OWN
    group: str = GROUP

    def request(self, place: Place) -> tuple[Any, int]:
        members = members_of(place).members
        message = ShareGroupHeartbeatRequest(
            group_id=place.named(self.group),
            member_id=sent_id(self.member, self.who),
            member_epoch=self.epoch if isinstance(self.epoch, int) else members.epoch(self.member, self.epoch),
            rack_id=self.rack,
            subscribed_topic_names=None if self.topics is None else list(map(place.named, self.topics)),
        )
        return message, 1

    def observe(self, place: Place, response: Any) -> None:
        if response.error_code or self.group != GROUP:
            return
        state = members_of(place)
        member = 1 - self.member if self.who is Who.OTHER else self.member
        if self.epoch == LEAVES:
            state.subscriptions.pop(member, None)
            return
        state.members.set_epoch(member, response.member_epoch)
        if self.topics is not None:
            state.subscriptions[member] = self.topics
        state.has_joined = True

    def comparable(self, place: Place, response: Any) -> Any:
        label_topics(place)
        return without_messages(comparable(response, place.labels))


@attrs.frozen(kw_only=True)
class DescribeShareGroups(Step):
    groups: tuple[str, ...] = (GROUP,)
    with_operations: bool = False

    def request(self, place: Place) -> tuple[Any, int]:
        message = ShareGroupDescribeRequest(
            group_ids=list(map(place.named, self.groups)), include_authorized_operations=self.with_operations
        )
        return message, 1

    def comparable(self, place: Place, response: Any) -> Any:
        label_topics(place)
        return without_messages(comparable(response, place.labels))
