"""The requests of members of classic groups."""

from typing import Any, ClassVar, Final

import attrs

from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.wire.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from broker.wire.errors import ErrorCode
from tests.differential.families.groups.members import GROUP, Epoch, Who, members_of
from tests.differential.sequences import Place, Step

# The first versions with instance ids, with a member per entry of LeaveGroup, and with the protocol in SyncGroup.
_JOIN_INSTANCES_FROM: Final = 5
_INSTANCES_FROM: Final = 3
_LEAVE_MANY_FROM: Final = 3
_SYNC_PROTOCOL_FROM: Final = 5
_SUBSCRIPTION_VERSION: Final = 1
_NONE_OR_ID_REQUIRED: Final = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)


@attrs.frozen(kw_only=True)
class MemberStep(Step):
    """A request of a member, which has a connection of its own."""

    member: int
    version: int
    who: Who = Who.OWN
    instance: str | None = None
    group: str = GROUP

    def member_id(self, place: Place) -> str:
        return members_of(place).member_id(self.member, self.who)


@attrs.frozen(kw_only=True)
class Join(MemberStep):
    """`protocols` are names of protocols, and the topics of the subscription; None is metadata that is none."""

    is_awaited: ClassVar[bool] = False

    protocol_type: str = "consumer"
    protocols: tuple[tuple[str, tuple[str, ...] | None], ...] = (("range", ("t",)),)
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000

    def request(self, place: Place) -> tuple[Any, int]:
        message = JoinGroupRequest(
            group_id=place.named(self.group),
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id(place),
            group_instance_id=self.instance if self.version >= _JOIN_INSTANCES_FROM else None,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self._metadata(place, topics))
                for name, topics in self.protocols
            ],
        )
        return message, self.version

    def _metadata(self, place: Place, topics: tuple[str, ...] | None) -> bytes:
        """Metadata that differs from member to member."""
        user_data = f"m{self.member}".encode()
        if topics is None:
            return user_data
        subscription = ConsumerProtocolSubscription(topics=list(map(place.named, topics)), user_data=user_data)
        return encode_subscription(subscription, _SUBSCRIPTION_VERSION)

    def observe(self, place: Place, response: Any) -> None:
        members = members_of(place)
        if response.error_code in _NONE_OR_ID_REQUIRED:
            members.ids[self.member] = response.member_id
        if not response.error_code:
            members.set_epoch(self.member, response.generation_id)
            members.protocols[self.member] = (response.protocol_type, response.protocol_name)
            members.leader_id = response.leader
            if response.members:
                members.joined = [each.member_id for each in response.members]


@attrs.frozen(kw_only=True)
class Sync(MemberStep):
    """The leader assigns to all members that joined, or only to itself (`assigns_all`)."""

    is_awaited: ClassVar[bool] = False

    epoch: Epoch = Epoch.OWN
    assigns_all: bool = True
    protocol: tuple[str | None, str | None] | None = None

    def request(self, place: Place) -> tuple[Any, int]:
        members = members_of(place)
        member_id = self.member_id(place)
        protocol_type, protocol_name = self.protocol or members.protocols.get(self.member, (None, None))
        assigned = members.joined if self.assigns_all else [member_id]
        known = {known_id: number for number, known_id in members.ids.items()}
        message = SyncGroupRequest(
            group_id=place.named(self.group),
            generation_id=members.epoch(self.member, self.epoch),
            member_id=member_id,
            group_instance_id=self.instance if self.version >= _INSTANCES_FROM else None,
            protocol_type=protocol_type if self.version >= _SYNC_PROTOCOL_FROM else None,
            protocol_name=protocol_name if self.version >= _SYNC_PROTOCOL_FROM else None,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=f"by {self.member} to {known.get(each)}".encode())
                for each in assigned
            ]
            if member_id == members.leader_id
            else [],
        )
        return message, self.version


@attrs.frozen(kw_only=True)
class Heartbeat(MemberStep):
    epoch: Epoch = Epoch.OWN

    def request(self, place: Place) -> tuple[Any, int]:
        message = HeartbeatRequest(
            group_id=place.named(self.group),
            generation_id=members_of(place).epoch(self.member, self.epoch),
            member_id=self.member_id(place),
            group_instance_id=self.instance if self.version >= _INSTANCES_FROM else None,
        )
        return message, self.version


@attrs.frozen(kw_only=True)
class Leave(MemberStep):
    """An administrator removes several members by `others`: pairs of whose id and an instance id."""

    others: tuple[tuple[Who, str | None], ...] = ()

    def request(self, place: Place) -> tuple[Any, int]:
        members = members_of(place)
        message = LeaveGroupRequest(group_id=place.named(self.group))
        if self.version < _LEAVE_MANY_FROM:
            message.member_id = self.member_id(place)
        else:
            message.members = [
                MemberIdentity(member_id=members.member_id(self.member, who), group_instance_id=instance)
                for who, instance in ((self.who, self.instance), *self.others)
            ]
        return message, self.version
