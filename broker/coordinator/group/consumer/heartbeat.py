"""ConsumerGroupHeartbeat: members join, say that they are there, what they have and what they want (KIP-848)."""

from functools import partial

import attrs

from broker.coordinator.group.config import ConsumerGroupConfig
from broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from broker.coordinator.group.consumer.leaving import await_revocation, leave, start_session, static_member
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
    ConsumerGroupsHolder,
    cancel_timers,
    config_of,
    consumer_group,
    revocation_key,
    surroundings,
)
from broker.coordinator.group.partition_sets import PartitionSets, as_message, is_within, partition_sets
from broker.coordinator.runtime.decision import CoordinatorError, CoordinatorRecord, Decision
from broker.wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.wire.errors import ErrorCode

# How long a group takes it for granted that it has heard of all changes of its topics.
TOPICS_TRUSTED_MS = 60 * 60 * 1000
# How soon members are to ask again while there is something to wait for, which takes seconds. All of a group together
# ask a thousand times a second at most: a tenth of a processor, as long as that lasts.
WAITING_INTERVAL_MS = 500
_WAITING_INTERVAL_MS_BY_MEMBER = 1
# Between two slices of matching topics' names, of 3 ms each: that leaves the node four fifths of its time.
_MATCHING_PAUSE_MS = 12
_MATCHING = "consumer-topic-matching"


@attrs.frozen(kw_only=True)
class Caller:
    """Who sends a heartbeat. `new_member_id` is for one that has no id; it was never given to anybody."""

    client_id: str
    client_host: str
    new_member_id: str


def heartbeat(
    state: ConsumerGroupsHolder, request: ConsumerGroupHeartbeatRequest, caller: Caller, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Raises CoordinatorError."""
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH):
        return leave(state, request, now_ms)
    if request.member_epoch == JOIN_EPOCH and request.group_id not in state.groups:
        group = ConsumerGroup(request.group_id)
    else:
        group = consumer_group(state, request.group_id)
    return heartbeat_of_member(state, group, request, caller, now_ms)


def heartbeat_of_member(
    state: ConsumerGroupsHolder,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    now_ms: int,
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Decides about a heartbeat of a member that does not leave, in this group. Raises CoordinatorError."""
    member_id = request.member_id or caller.new_member_id
    check_size(state, group, member_id)
    owned = None if request.topic_partitions is None else partition_sets(request.topic_partitions)
    former, replaced = _member(group, request, member_id, owned)
    records = [] if replaced is None else replacement(group, former, replaced)
    update = MemberUpdate(group, surroundings(state, now_ms), former, replaced, records)
    member = update.run(_as_it_says(former, request, caller), owned)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=_interval_ms(update, member, config_of(state, group.group_id)),
    )
    if _wants_assignment(request) or member.assigned != former.assigned:
        response.assignment = Assignment(topic_partitions=as_message(member.assigned, TopicPartitions))
    return Decision(records, response, partial(apply_update, state, update, member))


def check_size(state: ConsumerGroupsHolder, group: ConsumerGroup, member_id: str) -> None:
    """Raises CoordinatorError where there is no room for one more."""
    members_max = state.config.consumer.members_max
    if len(group.members) >= members_max and member_id not in group.members:
        raise CoordinatorError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {members_max} members.",
        )


def _member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: PartitionSets | None
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """The member that speaks, as it is until now, and the static one that it takes the place of."""
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
            raise CoordinatorError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {replaced.member_id} member.",
            )
        return successor(replaced, member_id), replaced
    _check_epoch(member, request.member_epoch, owned)
    return member, None


def successor(replaced: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member in its next life: it begins anew, and has what it had."""
    return attrs.evolve(replaced, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)


def replacement(group: ConsumerGroup, member: ConsumerMember, replaced: ConsumerMember) -> list[CoordinatorRecord]:
    """The records by which a static member takes the place of its former self."""
    return [
        *member_tombstones(group.group_id, replaced.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member.member_id, group.target_of(replaced.member_id)),
        assignment_record(group.group_id, member),
    ]


def _check_epoch(member: ConsumerMember, epoch: int, owned: PartitionSets | None) -> None:
    """Raises CoordinatorError where the member is to begin anew. Who does has nothing, and may (KIP-848)."""
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    # The answer that told it the epoch may have been lost.
    is_late = epoch == member.previous_member_epoch and owned is not None and is_within(owned, member.assigned)
    if epoch > member.member_epoch or not is_late:
        than = "greater" if epoch > member.member_epoch else "smaller"
        raise CoordinatorError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )


def _as_it_says(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """The member with what is new in its request; a heartbeat makes it one of the consumer protocol."""
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
    """When the member is to ask again: soon, where others have yet to give up what it is to have, or where the group
    has just moved on, since then somebody else may be about to come or go as well, or topics are still looked for."""
    group, interval_ms = update.group, config.heartbeat_interval_ms
    has_moved = update.moves_epoch or update.around.now_ms < group.moved_at_ms + interval_ms or update.is_unresolved
    if not has_moved and member.state is not MemberState.UNRELEASED_PARTITIONS:
        return interval_ms
    return min(interval_ms, max(WAITING_INTERVAL_MS, len(group.members) * _WAITING_INTERVAL_MS_BY_MEMBER))


def _wants_assignment(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that says everything wants to be told everything: it joins, or has missed an answer."""
    says_all = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    return request.member_epoch == JOIN_EPOCH or says_all


def apply_update(state: ConsumerGroupsHolder, update: MemberUpdate, member: ConsumerMember) -> None:
    """What stands in no record: what is expected of the member by when, and when topics are looked at again."""
    group = state.groups[update.group.group_id]
    assert isinstance(group, ConsumerGroup), "its records were replayed"
    if update.moves_epoch:
        group.moved_at_ms = update.around.now_ms
    if update.looked_at_topics:
        group.refresh_at_ms = update.around.now_ms + TOPICS_TRUSTED_MS
    if update.replaced is not None:
        cancel_timers(state, group.group_id, update.replaced.member_id)
    start_session(state, group.group_id, member)
    if state.topic_matcher.is_busy:
        state.context.timers.schedule_once(_MATCHING, _MATCHING_PAUSE_MS, _match_topics)
    if member.is_classic or member == update.former:
        return
    if member.state is not MemberState.UNREVOKED_PARTITIONS:
        state.context.timers.cancel(revocation_key(group.group_id, member.member_id))
    elif not _is_awaited(update.former, member):
        await_revocation(state, group.group_id, member)


def _match_topics(state: ConsumerGroupsHolder, now_ms: int) -> Decision[None]:
    """Go on with what heartbeats had no time for. Later heartbeats look at what was found."""
    state.topic_matcher.advance()

    def go_on() -> None:
        if state.topic_matcher.is_busy:
            state.context.timers.schedule_once(_MATCHING, _MATCHING_PAUSE_MS, _match_topics)

    return Decision((), None, go_on)


def _is_awaited(former: ConsumerMember, member: ConsumerMember) -> bool:
    """Whether it was to give up the same already, and has been given its time."""
    return (
        former.state is MemberState.UNREVOKED_PARTITIONS
        and former.member_epoch == member.member_epoch
        and former.member_id == member.member_id
    )


def validate(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Raises CoordinatorError where the request says what none may say."""
    problem = _problem(request, api_version)
    if problem is not None:
        raise CoordinatorError(ErrorCode.INVALID_REQUEST, problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise CoordinatorError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _problem(request: ConsumerGroupHeartbeatRequest, api_version: int) -> str | None:
    epoch = request.member_epoch
    needs_member_id = api_version >= 1 or epoch != JOIN_EPOCH
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
