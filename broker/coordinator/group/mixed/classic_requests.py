"""What is decided about requests of classic groups' members, and of those who look after groups."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

import attrs

from broker.coordinator.group.classic.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, GroupState, Member
from broker.coordinator.group.classic.decisions import begin_step, decided
from broker.coordinator.group.classic.joining import UNKNOWN_MEMBER_ID, Joiner, join
from broker.coordinator.group.classic.leaving import leave
from broker.coordinator.group.classic.syncing import sync
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.mixed import classic_members
from broker.coordinator.group.offsets.requests import delete_all_offsets
from broker.coordinator.group.shard import GroupsState
from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import CoordinatorError, CoordinatorRecord, Decision
from broker.wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from broker.wire.api.heartbeat import HeartbeatRequest
from broker.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from broker.wire.api.leave_group import MemberIdentity, MemberResponse
from broker.wire.api.list_groups import ListedGroup
from broker.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.wire.errors import ErrorCode
from broker.wire.schema import STRING_BYTES_MAX

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
# Of the name in front of a UUID, so that both fit a string of the protocol.
_PREFIX_BYTES_MAX: Final = STRING_BYTES_MAX - 37


def join_group(
    state: GroupsState, request: JoinGroupRequest, joiner: Joiner, now_ms: int
) -> Decision[Completion[JoinGroupResponse]]:
    """Answered when the generation begins that the member is part of. Who comes without a name begins a group."""
    group = state.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and not group.is_empty:
        return classic_members.join(state, group, request, joiner, now_ms)
    if not isinstance(group, ClassicGroup):
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


def sync_group(state: GroupsState, request: SyncGroupRequest, now_ms: int) -> Decision[Completion[SyncGroupResponse]]:
    """Answered when the leader has assigned."""
    group = _group(state, request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.sync(state, group, request)
    step, waiter = begin_step(state, group, now_ms), state.context.park()
    sync(step, request, waiter)
    return decided(state, step, waiter)


def heartbeat(state: GroupsState, request: HeartbeatRequest) -> Decision[ErrorCode]:
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
    state: GroupsState, group_id: str, members: Sequence[MemberIdentity], now_ms: int
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


def _group(state: GroupsState, group_id: str) -> ClassicGroup | ConsumerGroup:
    """Raises CoordinatorError."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup):
        raise CoordinatorError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


# Looking after groups


def describe_group(state: GroupsState, group_id: str) -> DescribedGroup:
    """Raises CoordinatorError where there is no such classic group."""
    group = state.groups.get(group_id)
    if group is None and state.offsets.has_group(group_id):
        group = ClassicGroup(group_id)
    if not isinstance(group, ClassicGroup):
        what = "not found" if group is None else "is not a classic group"
        raise CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_described(member, group.protocol_name if is_stable else None) for member in group.members.values()],
    )


def _described(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    """What the clients told each other is told of a stable group only, where it has a protocol."""
    described = DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
    if protocol_name is not None:
        described.member_metadata = member.metadata(protocol_name)
        described.member_assignment = member.assignment
    return described


def lower_case(names: Iterable[str]) -> Collection[str]:
    """Names of a filter, to be compared in any case of letters."""
    return frozenset(map(str.lower, names))


def list_groups(state: GroupsState, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
    """The groups of this shard that are in one of these states and of one of these types, given in lower case.

    Filters that are empty let everything pass.
    """
    groups = [group for group in state.groups.values() if isinstance(group, ClassicGroup | ConsumerGroup)]
    simple = [ClassicGroup(group_id) for group_id in state.offsets.group_ids() if group_id not in state.groups]
    listed = [_listed(group) for group in [*groups, *simple]]
    return [each for each in listed if _is_among(each.group_state, states) and _is_among(each.group_type, types)]


def _listed(group: ClassicGroup | ConsumerGroup) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            group_state=group.state,
            group_type=CONSUMER,
        )
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state,
        group_type=CLASSIC,
    )


def _is_among(name: str, wanted: Collection[str]) -> bool:
    return not wanted or name.lower() in wanted


def delete_groups(state: GroupsState, now_ms: int, group_ids: Sequence[str]) -> Decision[dict[str, ErrorCode]]:
    """Forget groups without members, and what they have committed (KIP-229)."""
    records: list[CoordinatorRecord] = []
    codes: dict[str, ErrorCode] = {}
    for group_id in group_ids:
        group = state.groups.get(group_id)
        if group is None and not state.offsets.has_group(group_id):
            codes[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
        elif group is not None and not group.is_empty:
            codes[group_id] = ErrorCode.NON_EMPTY_GROUP
        else:
            codes[group_id] = ErrorCode.NONE
            records += delete_all_offsets(state, group_id)
            records += [] if group is None else group.tombstones()
    return Decision(records, codes, atomic=False)


def new_member_id(prefix: str, random_bits: int) -> str:
    """An id that no member had before: a random UUID behind the name of the client. `random_bits` are 128.

    A name that is too long for a string of the protocol together with the UUID is cut.
    """
    digits = f"{random_bits:032x}"
    fitting = prefix.encode()[:_PREFIX_BYTES_MAX].decode(errors="ignore")
    return "-".join((fitting, digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
