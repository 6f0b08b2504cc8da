"""A share group and its members, as the records of the group's partition describe them (KIP-932)."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from operator import is_
from typing import ClassVar, Final

import attrs

from broker.coordinator.group.group_kind import GroupType, PartitionValidator
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets, as_message, of_topic, partition_sets
from broker.coordinator.group.share.partition_states import NO_STATES, PartitionStates
from broker.coordinator.group.share.record_formats import (
    SharedTopicPartitions,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
)
from broker.coordinator.group.share.records import group_tombstones
from broker.coordinator.group.share.subscribed_topics import SubscribedTopics
from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.runtime.shard import Timers
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs
from metadata.image import MetadataImage, TopicImage

SHARE_PROTOCOL_TYPE: Final = "share"
# Epochs with a special meaning in heartbeats.
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
NO_ASSIGNMENT_EPOCH: Final = -1
# The state of a member in Kafka's records. Members of share groups have no other: they revoke nothing.
_STABLE: Final = 0


class ShareGroupState(StrEnum):
    """The states by their names in responses. A group that does not exist is Dead."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@lazy_attrs.frozen(kw_only=True)
class ShareMember:
    """A member as the records describe it.

    Heartbeats carry `member_epoch`. A heartbeat with `previous_member_epoch` is accepted as well, since the response
    with the new epoch may have been lost. `topic_names` are in ascending order.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    assigned: PartitionSets = NO_PARTITIONS

    def at_epoch(self, epoch: int, assigned: PartitionSets) -> "ShareMember":
        """The member with this assignment at this epoch. If the epoch is new, its present one becomes the previous."""
        previous = self.previous_member_epoch if epoch == self.member_epoch else self.member_epoch
        return attrs.evolve(self, member_epoch=epoch, previous_member_epoch=previous, assigned=assigned)

    # Records

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> "ShareMember":
        return attrs.evolve(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(sorted(value.subscribed_topic_names)),
        )

    def metadata_value(self) -> ShareGroupMemberMetadataValue:
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.topic_names),
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> "ShareMember":
        return attrs.evolve(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned=partition_sets(value.assigned_partitions),
        )

    def assignment_value(self) -> ShareGroupCurrentMemberAssignmentValue:
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=_STABLE,
            assigned_partitions=as_message(self.assigned, SharedTopicPartitions),
        )


class ShareGroup:
    """A share group. It changes only by replay, apart from the attributes that no record holds.

    `epoch` increases when the members, their subscriptions, the subscribed topics, or their partitions with a state
    change. `targets` is the target assignment, computed for `assignment_epoch` at `assigned_at_ms`. `states` are the
    partitions that have a state. `subscribed` has the topics of all members.

    These attributes are in no record. `has_stale_topics` is true if the subscribed topics may have changed.
    `under_way` has the partitions whose initialization has not ended, by topic id, each with the time in ms at which
    this coordinator decided it. After a failure, states are not initialized before `initialize_at_ms`.
    """

    group_type: ClassVar = GroupType.SHARE
    protocol_type: ClassVar = SHARE_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, PartitionSets] = {}
        self.states: PartitionStates = NO_STATES
        self.has_stale_topics = True
        self.under_way: dict[bytes, dict[int, int]] = {}
        self.initialize_at_ms = 0
        self.subscribed = SubscribedTopics()
        self._assigned: dict[bytes, frozenset[int]] | None = None
        # The states and the topics for which the target assignment was found to be complete.
        self._complete: tuple[PartitionStates, object] | None = None

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed.names

    def target_of(self, member_id: str) -> PartitionSets:
        return self.targets.get(member_id, NO_PARTITIONS)

    def member(self, member_id: str) -> ShareMember:
        """The member of this id. Raises KafkaError if there is none."""
        member = self.members.get(member_id)
        if member is None:
            what = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, what)
        return member

    def misses_partitions(self, image: MetadataImage) -> bool:
        """True if the target assignment is not that of the subscribed partitions that have a state now."""
        if not self.members:
            return False
        seen = self.states, image.topics
        if self._complete is not None and all(map(is_, self._complete, seen)):
            return False
        if self._assigned is None:
            self._assigned = {}
            for target in self.targets.values():
                for topic_id, indexes in target.items():
                    self._assigned[topic_id] = of_topic(self._assigned, topic_id) | indexes
        topics, names = image.topics.by_id, self.subscribed.names
        misses = any(
            topic_id in topics and topics[topic_id].name in names and of_topic(self._assigned, topic_id) != indexes
            for topic_id, indexes in self.states.initialized.items()
        )
        if not misses:
            self._complete = seen
        return misses

    def under_way_since(self, earliest_ms: int) -> PartitionSets:
        """The partitions whose initialization was decided after `earliest_ms` and has not ended."""
        return {
            topic_id: frozenset(index for index, since_ms in times.items() if since_ms > earliest_ms)
            for topic_id, times in self.under_way.items()
        }

    def begin_initialization(self, partitions: PartitionSets, now_ms: int) -> None:
        """Notes that these partitions are initialized by this coordinator. Called by `Decision.apply`."""
        for topic_id, indexes in partitions.items():
            self.under_way.setdefault(topic_id, {}).update(dict.fromkeys(indexes, now_ms))

    def end_initialization(self, partitions: PartitionSets) -> None:
        """Notes that the initialization of these partitions has ended. Called by `Decision.apply`."""
        for topic_id, indexes in partitions.items():
            times = self.under_way.get(topic_id, {})
            for index in indexes:
                times.pop(index, None)
            if not times:
                self.under_way.pop(topic_id, None)

    # Offsets, see `broker.coordinator.group.group_kind.Group`. Share groups have none in `__consumer_offsets`.

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, is_transactional: bool
    ) -> PartitionValidator | None:
        """Raises KafkaError: a share group has no committed offsets."""
        raise self._no_consumer_group()

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Always permitted. There are no offsets, and Kafka answers so, without an error."""

    def validate_offset_delete(self) -> None:
        """Raises KafkaError: there are no offsets."""
        raise self._no_consumer_group()

    def committed(self, member_id: str, timers: Timers) -> None:
        """Never called, since no offset is committed."""

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return group_tombstones(self.group_id, dict.fromkeys([*self.members, *self.targets]))

    def _no_consumer_group(self) -> KafkaError:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    # Replay

    def put(self, member: ShareMember) -> None:
        former = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if former is None or former.topic_names != member.topic_names:
            self._replace_names(former, member)

    def remove(self, member_id: str) -> None:
        former = self.members.pop(member_id, None)
        if former is not None:
            self._replace_names(former, None)

    def _replace_names(self, former: ShareMember | None, member: ShareMember | None) -> None:
        self.subscribed.replace(names_of(former), names_of(member))
        self._complete = None

    def topics_with(self, member: ShareMember, image: MetadataImage) -> Mapping[str, TopicImage]:
        """The existing topics that members are subscribed to, by name, with this member instead of its former state."""
        former = self.members.get(member.member_id)
        if former is not None and former.topic_names == member.topic_names:
            return self.subscribed.existing(image)
        return self.subscribed.existing_after(names_of(former), names_of(member), image)

    def topics_without(self, member_id: str, image: MetadataImage) -> Mapping[str, TopicImage]:
        """The existing topics that the other members are subscribed to, by name."""
        return self.subscribed.existing_after(names_of(self.members[member_id]), (), image)

    def set_target(self, member_id: str, target: PartitionSets | None) -> None:
        """Sets the member's target assignment; None removes it."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target
        self._assigned = self._complete = None


def members_with(group: ShareGroup, member: ShareMember) -> Mapping[str, ShareMember]:
    """The group's members after a change of one, in the order in which they joined."""
    return {**group.members, member.member_id: member}


def names_of(member: ShareMember | None) -> Collection[str]:
    """The distinct names of the topics that a member is subscribed to. A record may repeat them."""
    return () if member is None else dict.fromkeys(member.topic_names)
