"""Members of classic groups: they join, the leader assigns ranges, and all of them sync and send heartbeats.

A member revokes all partitions before it joins again (the eager protocol).
"""

from collections.abc import Sequence
from typing import Final

import trio

from broker.client.consumer.group.assignors import MemberSubscription, RangeAssignor
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from broker.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from broker.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    group_by_topic,
)
from broker.wire.errors import ErrorCode
from jepsen.workloads.group_member import REBALANCE_MS, SESSION_MS, GroupMember, TopicPartition

_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_LEAVE_VERSION: Final = 5
_PROTOCOL_TYPE: Final = "consumer"
_PROTOCOL: Final = "range"
# A join waits until all previous members have joined again.
_JOIN_SECONDS: Final = REBALANCE_MS / 1000 + 3
_HEARTBEAT_SECONDS: Final = 1.5
_SUBSCRIPTION_VERSION: Final = 1


class ClassicMember(GroupMember):
    """See the module's docstring."""

    _is_joined = False
    _heartbeat_at = 0.0

    async def take_part(self) -> None:
        if not self._is_joined:
            await self._join()
        elif trio.current_time() >= self._heartbeat_at:
            await self._heartbeat()

    async def leave(self) -> None:
        if self._is_joined:
            await self.commit()
        self.give_up("revoke")
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        await self.ask(LeaveGroupRequest(group_id=self.group.name, members=[identity]), _LEAVE_VERSION)

    def refused(self, code: ErrorCode) -> None:
        self._is_joined = False
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return
        self.give_up("lose")
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.is_over = True
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def fetch_identity(self) -> tuple[str | None, int]:
        return None, -1

    async def _heartbeat(self) -> None:
        self._heartbeat_at = trio.current_time() + _HEARTBEAT_SECONDS
        request = HeartbeatRequest(
            group_id=self.group.name,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        response, _ = await self.ask(request, _HEARTBEAT_VERSION)
        code = ErrorCode(response.error_code)
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            await self.commit()  # still in the old generation
        if code is not ErrorCode.NONE:
            await self.handle_error(code)

    async def _join(self) -> None:
        self.give_up("revoke")
        subscription = ConsumerProtocolSubscription(topics=sorted(self.group.topics))
        metadata = encode_subscription(subscription, _SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self.group.name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
        )
        response, _ = await self.ask(request, _JOIN_VERSION, _JOIN_SECONDS)
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            self.member_id, self.generation = response.member_id, response.generation_id
            await self._sync(response)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        else:
            await self.handle_error(code)
            await self.client.back_off()

    async def _sync(self, joined: JoinGroupResponse) -> None:
        assigns = joined.leader == self.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self.group.name,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=self._assignments(joined.members) if assigns else [],
        )
        asked_at = trio.current_time()
        response, incarnation = await self.ask(request, _SYNC_VERSION, _JOIN_SECONDS)
        code = ErrorCode(response.error_code)
        if code is not ErrorCode.NONE:
            await self.handle_error(code)
            return
        self._is_joined, self._heartbeat_at = True, trio.current_time() + _HEARTBEAT_SECONDS
        self.assigned(_partitions(response.assignment), incarnation, asked_at)

    def _assignments(self, members: Sequence[JoinGroupResponseMember]) -> list[SyncGroupRequestAssignment]:
        topics = {topic: [frozenset[str]()] * count for topic, count in self.group.topics.items()}
        subscriptions = {each.member_id: MemberSubscription(topics=list(topics)) for each in members}
        return [
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=group_by_topic(partitions)), _SUBSCRIPTION_VERSION
                ),
            )
            for member, partitions in RangeAssignor().assign(topics, subscriptions).items()
        ]


def _partitions(assignment: bytes) -> list[TopicPartition]:
    assigned = decode_assignment(assignment).assigned_partitions if assignment else []
    return [(each.topic, index) for each in assigned for index in each.partitions]
