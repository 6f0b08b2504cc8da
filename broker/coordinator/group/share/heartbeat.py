"""ShareGroupHeartbeat: members join, change their subscriptions, learn what they are assigned, and leave (KIP-932)."""

from collections.abc import Mapping
from functools import partial
from typing import Final

import attrs

from broker.coordinator.group.assignors import MemberSpec, assign_simply
from broker.coordinator.group.config import ShareGroupConfig
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, as_message
from broker.coordinator.group.share.leaving import leave, start_session
from broker.coordinator.group.share.partition_states import Initialization
from broker.coordinator.group.share.records import (
    assignment_epoch_record,
    assignment_record,
    epoch_record,
    member_record,
    states_record,
    target_record,
)
from broker.coordinator.group.share.shard import ShareGroupShard, config_of, share_group, share_group_or_new
from broker.coordinator.group.share.share_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ShareGroup,
    ShareMember,
    members_with,
)
from broker.coordinator.group.topics_hash import topics_hash
from broker.coordinator.runtime.decision import CoordinatorRecord, Decision
from broker.wire.api.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from metadata.image import MetadataImage, TopicImage

# The heartbeat interval while members wait for an assignment. With Kafka's, a new group has none for 5 s. All members
# of a group together send at most a thousand heartbeats per second meanwhile.
WAITING_INTERVAL_MS: Final = 500
_WAITING_INTERVAL_MS_BY_MEMBER: Final = 1


@lazy_attrs.frozen(kw_only=True)
class ShareHeartbeatClient:
    """The client that sends a heartbeat. `config` are the broker's configs in force."""

    client_id: str
    client_host: str
    config: ShareGroupConfig


@lazy_attrs.frozen
class HeartbeatOutcome:
    """The response, and what the share coordinator has to initialize, if anything.

    `changes_epoch` is true if the group's epoch increases.
    """

    response: ShareGroupHeartbeatResponse
    initialization: Initialization | None = None
    changes_epoch: bool = False


def share_group_heartbeat(
    state: ShareGroupShard, request: ShareGroupHeartbeatRequest, client: ShareHeartbeatClient, now_ms: int
) -> Decision[HeartbeatOutcome]:
    """Decides about a heartbeat. A joining member creates the group if there is none. Raises KafkaError."""
    if request.member_epoch == LEAVE_EPOCH:
        left = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
        return leave(state, request.group_id, request.member_id, HeartbeatOutcome(left))
    joins = request.member_epoch == JOIN_EPOCH
    group = (share_group_or_new if joins else share_group)(state, request.group_id)
    _check_size(group, request.member_id, client.config)
    former = group.members.get(request.member_id) if joins else group.member(request.member_id)
    if former is None:
        former = ShareMember(member_id=request.member_id)
    _check_epoch(former, request.member_epoch)
    update = _MemberUpdate(group, state.context.image, config_of(state, group.group_id, client.config), now_ms, former)
    return update.run(state, request, client)


def _check_size(group: ShareGroup, member_id: str, config: ShareGroupConfig) -> None:
    if len(group.members) >= config.members_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {config.members_max} members.",
        )


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Raises KafkaError if the member is fenced. The response with its present epoch may have been lost."""
    if epoch in (JOIN_EPOCH, member.member_epoch, member.previous_member_epoch):
        return
    than, previous = (
        ("greater", "")
        if epoch > member.member_epoch
        else ("smaller", f", and it does not match the previous member epoch ({member.previous_member_epoch})")
    )
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {than} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}){previous}. The member must abandon all its partitions and rejoin.",
    )


@lazy_attrs.define
class _MemberUpdate:
    """The changes that one heartbeat makes to its group.

    `epoch` is the group's epoch after it, and `topics` are the existing topics that members are subscribed to then.
    """

    group: ShareGroup
    image: MetadataImage
    config: ShareGroupConfig
    now_ms: int
    former: ShareMember
    epoch: int = 0
    changes_epoch: bool = False
    refreshes_topics: bool = False
    assignment_epoch: int = 0
    topics: Mapping[str, TopicImage] = attrs.Factory(dict)
    records: list[CoordinatorRecord] = attrs.Factory(list)

    def run(
        self, state: ShareGroupShard, request: ShareGroupHeartbeatRequest, client: ShareHeartbeatClient
    ) -> Decision[HeartbeatOutcome]:
        group, former = self.group, self.former
        member = _updated_from(former, request, client)
        self.topics = group.topics_with(member, self.image)
        if member != former:
            self.records.append(member_record(group.group_id, member.member_id, member.metadata_value()))
        self._update_epoch(member)
        reconciled = self._reconciled(member, self._target(member))
        if reconciled != member:
            self.records.append(assignment_record(group.group_id, member.member_id, reconciled.assignment_value()))
        to_initialize = self._partitions_to_initialize()
        if to_initialize:
            value = group.states.beginning(to_initialize).as_value(self.image)
            self.records.append(states_record(group.group_id, value))
        response = ShareGroupHeartbeatResponse(
            member_id=reconciled.member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=self._interval_ms(to_initialize),
        )
        has_sent_all = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
        if has_sent_all or reconciled.assigned != former.assigned:
            response.assignment = Assignment(topic_partitions=as_message(reconciled.assigned, TopicPartitions))
        outcome = HeartbeatOutcome(response, self._initialization(to_initialize), self.changes_epoch)
        return Decision(self.records, outcome, partial(self._apply, state, member.member_id, to_initialize))

    def _update_epoch(self, member: ShareMember) -> None:
        group = self.group
        self.epoch, self.assignment_epoch = group.epoch, group.assignment_epoch
        has_changed = member.topic_names != self.former.topic_names or not group.epoch
        if group.assignment_epoch >= group.epoch:
            has_changed = has_changed or group.misses_partitions(self.image)
        if not (has_changed or group.has_stale_topics):
            return
        self.refreshes_topics = True
        new_hash = topics_hash(self.topics, self.image)
        if has_changed or new_hash != group.metadata_hash:
            self.changes_epoch = True
            self.epoch += 1
            self.records.append(epoch_record(group.group_id, self.epoch, new_hash))

    def _target(self, member: ShareMember) -> PartitionSets:
        """The member's target assignment, computed again if the epoch is newer and the last one is old enough.

        The time of the last one is of the clock of an earlier coordinator, or this clock was set back since. If it is
        in the future, the group does not wait for it: members that join would get no partitions until then.
        """
        group, interval_ms = self.group, self.config.assignment_interval_ms
        is_soon = group.assigned_at_ms and 0 <= self.now_ms - group.assigned_at_ms < interval_ms
        if self.epoch <= group.assignment_epoch or is_soon:
            return group.target_of(member.member_id)
        self.assignment_epoch = self.epoch
        targets = new_targets(group, member, self.topics)
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self.records.append(target_record(group.group_id, member_id, target))
        self.records.append(assignment_epoch_record(group.group_id, self.epoch, self.now_ms))
        return targets[member.member_id]

    def _reconciled(self, member: ShareMember, target: PartitionSets) -> ShareMember:
        """The member with its target assignment. It gets no topics that it is not subscribed to, as after a change of
        its subscription that no assignment has followed.
        """
        if member.member_epoch == self.assignment_epoch and not self.changes_epoch:
            return member
        subscribed = frozenset(topic_ids(member, self.topics))
        assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in subscribed}
        return member.at_epoch(self.assignment_epoch, assigned)

    def _partitions_to_initialize(self) -> PartitionSets:
        group = self.group
        pause_ms = group.initialize_at_ms - self.now_ms
        if 0 < pause_ms <= self.config.heartbeat_interval_ms:  # it is longer if the clock was set back
            return NO_PARTITIONS
        subscribed = [self.topics[name].topic_id for name in sorted(self.topics)]
        return group.states.missing(subscribed, self.image, under_way=self._under_way())

    def _initialization(self, partitions: PartitionSets) -> Initialization | None:
        if not partitions:
            return None
        offset = self.group.states.start_offset
        start_offsets = {topic_id: dict.fromkeys(indexes, offset(topic_id)) for topic_id, indexes in partitions.items()}
        return Initialization(self.group.group_id, self.epoch, start_offsets)

    def _under_way(self) -> PartitionSets:
        """The partitions that this coordinator initializes, unless that has taken too long."""
        return self.group.under_way_since(self.now_ms - self.config.initialize_retry_interval_ms)

    def _interval_ms(self, to_initialize: PartitionSets) -> int:
        """The time until the member's next heartbeat: short while the group waits for states or an assignment."""
        interval_ms, group = self.config.heartbeat_interval_ms, self.group
        is_waiting = to_initialize or any(self._under_way().values()) or self.epoch > self.assignment_epoch
        if not is_waiting:
            return interval_ms
        return min(interval_ms, max(WAITING_INTERVAL_MS, len(group.members) * _WAITING_INTERVAL_MS_BY_MEMBER))

    def _apply(self, state: ShareGroupShard, member_id: str, to_initialize: PartitionSets) -> None:
        """Applies the changes that no record holds."""
        group = share_group(state, self.group.group_id)
        if self.refreshes_topics:
            group.has_stale_topics = False
        group.begin_initialization(to_initialize, self.now_ms)
        start_session(state, group.group_id, member_id, self.config)


def _updated_from(
    member: ShareMember, request: ShareGroupHeartbeatRequest, client: ShareHeartbeatClient
) -> ShareMember:
    """The member with the changes of its request."""
    names = request.subscribed_topic_names
    return attrs.evolve(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topic_names=member.topic_names if names is None else tuple(sorted(dict.fromkeys(names))),
        client_id=client.client_id,
        client_host=client.client_host,
    )


def topic_ids(member: ShareMember, topics: Mapping[str, TopicImage]) -> tuple[bytes, ...]:
    """Those of these topics that the member is subscribed to, in ascending order."""
    if len(topics) < len(member.topic_names):
        names = frozenset(member.topic_names)
        return tuple(sorted(topic.topic_id for name, topic in topics.items() if name in names))
    return tuple(sorted(topics[name].topic_id for name in member.topic_names if name in topics))


def new_targets(
    group: ShareGroup, member: ShareMember, topics: Mapping[str, TopicImage]
) -> Mapping[str, PartitionSets]:
    """The target assignment of the group after a change of this member: the partitions that have a state.

    `topics` are the existing topics that members are subscribed to.
    """
    specs = {
        each.member_id: MemberSpec(topic_ids(each, topics), current=group.target_of(each.member_id))
        for each in members_with(group, member).values()
    }
    return assign_simply(specs, group.states.initialized)


def validate(request: ShareGroupHeartbeatRequest) -> None:
    """Raises KafkaError if the request is invalid by itself."""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
