"""ConsumerGroupHeartbeat: members join, report their partitions, and change their subscriptions (KIP-848)."""

from collections.abc import Callable
from functools import partial

import attrs

from broker.coordinator.group.config import ConsumerGroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.leaving import leave, start_rebalance_timeout, start_session, static_member
from broker.coordinator.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    ConsumerMember,
    MemberState,
)
from broker.coordinator.group.consumer.member_update import MemberUpdate
from broker.coordinator.group.consumer.records import (
    assignment_record,
    member_record,
    member_tombstones,
    target_record,
)
from broker.coordinator.group.consumer.shard import (
    ConsumerGroupShard,
    cancel_timers,
    config_of,
    consumer_group,
    decision_context,
    rebalance_timeout_key,
)
from broker.coordinator.group.partition_sets import PartitionSets, as_message, is_within, partition_sets
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

# How long a group relies on notifications of changed topics before it looks at its topics anyway.
METADATA_REFRESH_INTERVAL_MS = 60 * 60 * 1000
# The heartbeat interval while members wait for changes, which takes seconds. All members of a group together send at
# most a thousand heartbeats per second meanwhile, which cost a tenth of a processor.
WAITING_INTERVAL_MS = 500
_WAITING_INTERVAL_MS_BY_MEMBER = 1
# The pause between two slices of topic matching, of 3 ms each. It leaves four fifths of the time to others.
_MATCHING_PAUSE_MS = 12
_MATCHING = "consumer-topic-matching"


@lazy_attrs.frozen(kw_only=True)
class HeartbeatClient:
    """The client that sends a heartbeat. `new_member_id` is for a client without one; it was never used before.

    `topic_filter` is true for the topics that the client may describe; None if it may describe all.
    """

    client_id: str
    client_host: str
    new_member_id: str
    topic_filter: Callable[[str], bool] | None = None


def heartbeat(
    state: ConsumerGroupShard, request: ConsumerGroupHeartbeatRequest, caller: HeartbeatClient, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Decides about a heartbeat. A joining member creates the group if there is none. Raises KafkaError."""
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH):
        return leave(state, request, now_ms)
    if request.member_epoch == JOIN_EPOCH and request.group_id not in state.groups:
        group = ConsumerGroup(request.group_id)
    else:
        group = consumer_group(state, request.group_id)
    return heartbeat_of_member(state, group, request, caller, now_ms)


def heartbeat_of_member(
    state: ConsumerGroupShard,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    caller: HeartbeatClient,
    now_ms: int,
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Decides about a heartbeat of a member that does not leave, in this group. Raises KafkaError."""
    member_id = request.member_id or caller.new_member_id
    check_size(state, group, member_id)
    owned = None if request.topic_partitions is None else partition_sets(request.topic_partitions)
    former, replaced = _member(group, request, member_id, owned)
    records = [] if replaced is None else replacement(group, former, replaced)
    update = MemberUpdate(group, decision_context(state, now_ms, caller.topic_filter), former, replaced, records)
    member = update.run(_updated_from(former, request, caller), owned)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=_interval_ms(update, member, config_of(state, group.group_id)),
    )
    if _wants_assignment(request) or member.assigned != former.assigned:
        response.assignment = Assignment(topic_partitions=as_message(member.assigned, TopicPartitions))
    return Decision(records, response, partial(apply_update, state, update, member))


def check_size(state: ConsumerGroupShard, group: ConsumerGroup, member_id: str) -> None:
    """Raises KafkaError if the group is full and the member is not in it."""
    members_max = state.config.consumer.members_max
    if len(group.members) >= members_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {members_max} members.",
        )


def _member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: PartitionSets | None
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """The member before this heartbeat, and the static member that it replaces, if any. Raises KafkaError."""
    joins, instance_id = request.member_epoch == JOIN_EPOCH, request.instance_id
    if instance_id is None:
        member = group.members.get(member_id) if joins else group.member(member_id)
        if member is None:
            return ConsumerMember(member_id=member_id), None
    elif not joins:
        member = static_member(group, instance_id, member_id)
    else:
        replaced = group.static_member(instance_id)
        if replaced is None:
            return group.members.get(member_id, ConsumerMember(member_id=member_id)), None
        if not replaced.is_away and not replaced.is_classic:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {replaced.member_id} member.",
            )
        return successor(replaced, member_id), replaced
    _check_epoch(member, request.member_epoch, owned)
    return member, None


def successor(replaced: ConsumerMember, member_id: str) -> ConsumerMember:
    """The new incarnation of a static member: it has the former one's subscription and partitions, and joins at epoch
    0.
    """
    return attrs.evolve(replaced, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)


def replacement(group: ConsumerGroup, member: ConsumerMember, replaced: ConsumerMember) -> list[CoordinatorRecord]:
    """The records that replace a static member by its new incarnation."""
    return [
        *member_tombstones(group.group_id, replaced.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member.member_id, group.target_of(replaced.member_id)),
        assignment_record(group.group_id, member),
    ]


def _check_epoch(member: ConsumerMember, epoch: int, owned: PartitionSets | None) -> None:
    """Raises KafkaError if the member is fenced. A member that rejoins at epoch 0 owns nothing, and never is
    (KIP-848).
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    # The response with the member's new epoch may have been lost.
    is_late = epoch == member.previous_member_epoch and owned is not None and is_within(owned, member.assigned)
    if epoch > member.member_epoch or not is_late:
        than = "greater" if epoch > member.member_epoch else "smaller"
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )


def _updated_from(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: HeartbeatClient
) -> ConsumerMember:
    """The member with the changes of its request. A heartbeat makes it a member of the consumer protocol."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return attrs.evolve(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else tuple(sorted(dict.fromkeys(names))),
        topic_regex=member.topic_regex if regex is None else regex or None,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _interval_ms(update: MemberUpdate, member: ConsumerMember, config: ConsumerGroupConfig) -> int:
    """The time until the member's next heartbeat, which is shorter while changes are under way.

    That is the case if other members have yet to revoke partitions that the member waits for, if topics of regular
    expressions are still looked up, or if the group's epoch has just changed, since more members may be about to join
    or leave.
    """
    group, interval_ms = update.group, config.heartbeat_interval_ms
    has_moved = (
        update.changes_epoch or update.context.now_ms < group.epoch_changed_at_ms + interval_ms or update.is_unresolved
    )
    if not has_moved and member.state is not MemberState.UNRELEASED_PARTITIONS:
        return interval_ms
    return min(interval_ms, max(WAITING_INTERVAL_MS, len(group.members) * _WAITING_INTERVAL_MS_BY_MEMBER))


def _wants_assignment(request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if the member joins, or sends all its fields because it may have missed a response."""
    says_all = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    return request.member_epoch == JOIN_EPOCH or says_all


def apply_update(state: ConsumerGroupShard, update: MemberUpdate, member: ConsumerMember) -> None:
    """Applies the changes that no record holds: the member's timers, and when topics are looked at again."""
    group = state.groups[update.group.group_id]
    assert isinstance(group, ConsumerGroup), "its records were replayed"
    if update.changes_epoch:
        group.epoch_changed_at_ms = update.context.now_ms
    if update.refreshed_topics:
        group.refresh_at_ms = update.context.now_ms + METADATA_REFRESH_INTERVAL_MS
    if update.replaced is not None:
        cancel_timers(state, group.group_id, update.replaced.member_id)
    start_session(state, group.group_id, member)
    if state.topic_matcher.is_busy:
        state.context.timers.schedule_once(_MATCHING, _MATCHING_PAUSE_MS, _match_topics)
    if member.is_classic or member == update.former:
        return
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        state.context.timers.cancel(rebalance_timeout_key(group.group_id, member.member_id))
    elif not _is_timeout_running(update.former, member):
        start_rebalance_timeout(state, group.group_id, member)


def _match_topics(state: ConsumerGroupShard, now_ms: int) -> Decision[None]:
    """Continues a lookup of topics that takes longer than a heartbeat may. Later heartbeats use its result."""
    state.topic_matcher.advance()

    def schedule_next() -> None:
        if state.topic_matcher.is_busy:
            state.context.timers.schedule_once(_MATCHING, _MATCHING_PAUSE_MS, _match_topics)

    return Decision((), None, schedule_next)


def _is_timeout_running(former: ConsumerMember, member: ConsumerMember) -> bool:
    """True if the member already had to revoke these partitions, so that its rebalance timeout is running."""
    return (
        former.state is MemberState.UNREVOKED_PARTITIONS
        and former.pending_revocation == member.pending_revocation
        and former.member_epoch == member.member_epoch
        and former.member_id == member.member_id
    )


def validate(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Raises KafkaError if the request is invalid by itself."""
    problem = _problem(request, api_version)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _problem(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    epoch = request.member_epoch
    needs_member_id = api_version >= 1 or epoch not in (JOIN_EPOCH, LEAVE_FOR_A_WHILE_EPOCH)
    if needs_member_id and not request.member_id.strip():
        return "MemberId can't be empty."
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if epoch < LEAVE_FOR_A_WHILE_EPOCH:
        return "MemberEpoch is invalid."
    if epoch == LEAVE_FOR_A_WHILE_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    return _problem_of_joining(request) if epoch == JOIN_EPOCH else None


def _problem_of_joining(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None
