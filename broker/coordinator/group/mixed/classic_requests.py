"""What is decided about requests of classic groups' members, and of those who look after groups."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

from broker.coordinator.group.classic.classic_group import ClassicGroup
from broker.coordinator.group.classic.decisions import begin_step, decided
from broker.coordinator.group.classic.joining import UNKNOWN_MEMBER_ID, Joiner, join
from broker.coordinator.group.classic.leaving import leave
from broker.coordinator.group.classic.syncing import sync
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.shard import ConsumerGroupsHolder
from broker.coordinator.group.mixed import classic_members
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorError, Decision
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity, MemberResponse
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.errors import ErrorCode
from broker.wire.schema import STRING_BYTES_MAX

# Of the name in front of a UUID, so that both fit a string of the protocol.
_PREFIX_BYTES_MAX: Final = STRING_BYTES_MAX - 37


def join_group(
    state: ConsumerGroupsHolder, request: JoinGroupRequest, joiner: Joiner, now_ms: int
) -> Decision[Completion[JoinGroupResponse]]:
    """Answered when the generation begins that the member is part of. Who comes without a name begins a group."""
    group = state.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        return classic_members.join(state, group, request, joiner, now_ms)
    if not isinstance(group, ClassicGroup):
        if group is not None and not group.is_empty:
            raise CoordinatorError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id != UNKNOWN_MEMBER_ID:
            raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
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
    state: ConsumerGroupsHolder, request: SyncGroupRequest, now_ms: int
) -> Decision[Completion[SyncGroupResponse]]:
    """Answered when the leader has assigned."""
    group = _group(state, request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.sync(state, group, request)
    step, waiter = begin_step(state, group, now_ms), state.context.park()
    sync(step, request, waiter)
    return decided(state, step, waiter)


def heartbeat(state: ConsumerGroupsHolder, request: HeartbeatRequest) -> Decision[ErrorCode]:
    """Whether the member may go on as it does."""
    group = _group(state, request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.heartbeat(state, group, request)
    member_id = request.member_id
    error = group.heartbeat_error(request.generation_id, member_id, request.group_instance_id)
    if error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        return Decision((), error)
    return Decision((), error, partial(group.committed, member_id, state.context.timers))


def leave_group(
    state: ConsumerGroupsHolder, group_id: str, members: Sequence[MemberIdentity], now_ms: int
) -> Decision[list[MemberResponse]]:
    """What became of each."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.leave(state, group, members, now_ms)
    if not isinstance(group, ClassicGroup):
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return Decision(
            (),
            [
                MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=unknown)
                for each in members
            ],
        )
    step = begin_step(state, group, now_ms)
    responses = leave(step, members)
    return decided(state, step, responses)


def _group(state: ConsumerGroupsHolder, group_id: str) -> ClassicGroup | ConsumerGroup:
    """Raises CoordinatorError."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup):
        raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


def new_member_id(prefix: str, random_bits: int) -> str:
    """An id that no member had before: a random UUID behind the name of the client. `random_bits` are 128.

    A name that is too long for a string of the protocol together with the UUID is cut.
    """
    digits = f"{random_bits:032x}"
    fitting = prefix.encode()[:_PREFIX_BYTES_MAX].decode(errors="ignore")
    return "-".join((fitting, digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
