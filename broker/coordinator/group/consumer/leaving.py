"""Members leave a consumer group, or are removed when a timeout is over."""

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from broker.coordinator.group.consumer.consumer_group import ConsumerGroup, members_with
from broker.coordinator.group.consumer.member import LEAVE_FOR_A_WHILE_EPOCH, ConsumerMember
from broker.coordinator.group.consumer.records import (
    assignment_record,
    epoch_record,
    member_tombstones,
    regex_record,
)
from broker.coordinator.group.consumer.shard import (
    ConsumerGroupShard,
    cancel_timers,
    config_of,
    consumer_group,
    pending_join_key,
    rebalance_timeout_key,
    session_key,
)
from broker.coordinator.group.consumer.subscriptions import metadata_hash
from broker.coordinator.runtime.decision import Decision
from broker.coordinator.runtime.shard import OnTimer
from broker.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from broker.wire.errors import ErrorCode, KafkaError

T = TypeVar("T")


def leave(
    state: ConsumerGroupShard, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Decides about a member that leaves: for good, or, if it is static, for a while. Raises KafkaError."""
    group = consumer_group(state, request.group_id)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is None:
        return remove_members(state, group, [group.member(request.member_id)], response, now_ms)
    member = static_member(group, request.instance_id, request.member_id)
    if request.member_epoch != LEAVE_FOR_A_WHILE_EPOCH:
        return remove_members(state, group, [member], response, now_ms)
    stop_waiting = partial(state.context.timers.cancel, rebalance_timeout_key(group.group_id, member.member_id))
    return Decision([assignment_record(group.group_id, member.away())], response, stop_waiting)


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The member of this instance id. Raises KafkaError if another member has replaced `member_id` (KIP-345)."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise fenced(member_id, instance_id, member.member_id)
    return member


def fenced(member_id: str, instance_id: str, by: str) -> KafkaError:
    """The error for a static member that member `by` has replaced."""
    what = f"Static member {member_id} with instance id {instance_id} was fenced by member {by}."
    return KafkaError(ErrorCode.FENCED_INSTANCE_ID, what)


def remove_members(
    state: ConsumerGroupShard, group: ConsumerGroup, leaving: Sequence[ConsumerMember], response: T, now_ms: int
) -> Decision[T]:
    """Removes members. Their partitions are free at once; the next heartbeat of another member computes a new target.

    If all remaining members use the classic protocol, the group becomes a classic one.
    """
    if not leaving:
        return Decision((), response)
    group_id, gone = group.group_id, [member.member_id for member in leaving]
    left = members_with(group, without=gone)
    downgraded = state.downgrade(group, left.values(), response, now_ms)
    if downgraded is not None:
        return downgraded
    wanted = {member.topic_regex for member in left.values()}
    regexes = {regex: resolved for regex, resolved in group.regexes.items() if regex in wanted}
    records = [record for member_id in gone for record in member_tombstones(group_id, member_id)]
    records += [regex_record(group_id, regex, None) for regex in group.regexes if regex not in regexes]
    topics_hash = metadata_hash(left.values(), regexes, state.context.image)
    records.append(epoch_record(group_id, group.epoch + 1, topics_hash))

    def apply() -> None:
        group.epoch_changed_at_ms = now_ms
        for member_id in gone:
            cancel_timers(state, group_id, member_id)

    return Decision(records, response, apply)


# Timeouts


def start_session(state: ConsumerGroupShard, group_id: str, member: ConsumerMember) -> None:
    """Starts the member's session again, after a request that shows the member is alive."""
    of_member = config_of(state, group_id) if member.classic is None else member.classic
    key = session_key(group_id, member.member_id)
    state.context.timers.schedule(key, of_member.session_timeout_ms, removal_timer(group_id, member.member_id))


def add_pending_join(state: ConsumerGroupShard, group: ConsumerGroup, member_id: str, timeout_ms: int) -> None:
    """Remembers for `timeout_ms` a member id that was given to a client, which has yet to join with it (KIP-394)."""

    def decide(state: ConsumerGroupShard, now_ms: int) -> Decision[None]:
        return Decision((), None, lambda: group.pending_joins.discard(member_id))

    group.pending_joins.add(member_id)
    state.context.timers.schedule(pending_join_key(group.group_id, member_id), timeout_ms, decide)


def start_rebalance_timeout(state: ConsumerGroupShard, group_id: str, member: ConsumerMember) -> None:
    """Removes the member unless it revokes its partitions within its rebalance timeout."""
    key = rebalance_timeout_key(group_id, member.member_id)
    state.context.timers.schedule(
        key, member.rebalance_timeout_ms, removal_timer(group_id, member.member_id, while_at=member.member_epoch)
    )


def removal_timer(group_id: str, member_id: str, while_at: int | None = None) -> OnTimer:
    """Returns a timer that removes the member; if `while_at` is given, only if it is still at that epoch."""

    def decide(state: ConsumerGroupShard, now_ms: int) -> Decision[None]:
        group = state.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or while_at not in (None, member.member_epoch):
            return Decision((), None)
        assert isinstance(group, ConsumerGroup)
        return remove_members(state, group, [member], None, now_ms)

    return decide
