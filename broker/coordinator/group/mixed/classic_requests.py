"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, as a shard of groups decides them for groups of either kind."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.kind import begin_step, decided
from broker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoiningClient, join, leave, sync
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.shard import ConsumerGroupShard
from broker.coordinator.group.mixed import classic_members
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import Decision
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.errors import ErrorCode, KafkaError
from broker.wire.schema import STRING_BYTES_MAX

# The most bytes of the name before a UUID, so that both fit a string of the protocol.
_PREFIX_BYTES_MAX: Final = STRING_BYTES_MAX - 37


def join_group(
    state: ConsumerGroupShard, request: JoinGroupRequest, joiner: JoiningClient, now_ms: int
) -> Decision[Completion[JoinGroupResponse]]:
    """Decides about a JoinGroup. A client without a member id creates the group if there is none. Raises
    KafkaError.

    The response completes when the generation begins that the member belongs to.
    """
    group = state.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        return classic_members.join(state, group, request, joiner, now_ms)
    if not isinstance(group, ClassicGroup):
        if group is not None and not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        # A simple group, which has offsets alone, exists; its protocols are checked as for any group.
        if request.member_id != UNKNOWN_MEMBER_ID and not state.is_simple(request.group_id):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        emptied, group = group, ClassicGroup(request.group_id)
    else:
        emptied = None
    step, waiter = begin_step(state, group, now_ms), state.context.park()
    join(step, request, joiner, waiter)
    decision = decided(state, step, waiter)
    if emptied is None or step.group.is_blank:
        return decision
    return attrs.evolve(decision, records=[*emptied.tombstones(), *decision.records])


def sync_group(
    state: ConsumerGroupShard, request: SyncGroupRequest, now_ms: int
) -> Decision[Completion[SyncGroupResponse]]:
    """Decides about a SyncGroup. The response completes when the leader has sent the assignment."""
    group = _group(state, request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.sync(state, group, request)
    step, waiter = begin_step(state, group, now_ms), state.context.park()
    sync(step, request, waiter)
    return decided(state, step, waiter)


def heartbeat(state: ConsumerGroupShard, request: HeartbeatRequest) -> Decision[ErrorCode]:
    """Decides about a Heartbeat: NONE, REBALANCE_IN_PROGRESS if the member has to join again, or an error."""
    group = _group(state, request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.heartbeat(state, group, request)
    member_id = request.member_id
    error = group.heartbeat_error(request.generation_id, member_id, request.group_instance_id)
    if error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        return Decision((), error)
    return Decision((), error, partial(group.committed, member_id, state.context.timers))


def leave_group(
    state: ConsumerGroupShard, group_id: str, members: Sequence[MemberIdentity], now_ms: int
) -> Decision[list[ErrorCode]]:
    """Decides on an error code for each member.

    A request can name 10,000 members, about which one decision is made: it must do little for each of them.
    """
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.leave(state, group, members, now_ms)
    if not isinstance(group, ClassicGroup):
        return Decision((), [ErrorCode.UNKNOWN_MEMBER_ID] * len(members))
    step = begin_step(state, group, now_ms)
    codes = leave(step, members)
    return decided(state, step, codes)


def _group(state: ConsumerGroupShard, group_id: str) -> ClassicGroup | ConsumerGroup:
    """The group of this id. Raises KafkaError if it has no members of the classic protocol."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


def new_member_id(prefix: str, random_bits: int) -> str:
    """A member id that was never used before: the client's name and a random UUID of 128 `random_bits`.

    The name is cut if the id would be too long for a string of the protocol.
    """
    digits = f"{random_bits:032x}"
    fitting = prefix.encode()[:_PREFIX_BYTES_MAX].decode(errors="ignore")
    return "-".join((fitting, digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
