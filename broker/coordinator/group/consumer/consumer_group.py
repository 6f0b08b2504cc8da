"""A group of the consumer protocol (KIP-848), as the records of its partition describe it."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import ClassVar, Final

from broker.coordinator.group.consumer.member import ConsumerMember, ResolvedRegex
from broker.coordinator.group.consumer.records import group_tombstones
from broker.coordinator.group.group_kind import CONSUMER_PROTOCOL_TYPE, GroupType, PartitionValidator
from broker.coordinator.group.partition_sets import NO_PARTITIONS, PartitionSets
from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.runtime.shard import Timers
from broker.wire.errors import ErrorCode, KafkaError

NO_ASSIGNMENT_EPOCH: Final = -1
# OffsetCommit and TxnOffsetCommit know epochs of members from these versions on (KIP-848, KIP-1319).
_COMMIT_WITH_EPOCH_FROM: Final = 9
_TXN_COMMIT_WITH_EPOCH_FROM: Final = 6
_NO_EPOCH: Final = -1


class ConsumerGroupState(StrEnum):
    """The states by their names in responses."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """A consumer group. It changes only by replay, apart from the attributes that no record holds.

    `epoch` increases when the members, their subscriptions or the topics they are subscribed to change. `targets` is
    the target assignment, computed for `assignment_epoch`. `metadata_hash` tells whether the subscribed topics have
    changed.

    These attributes are in no record. At `refresh_at_ms` the topics are looked at again; 0 if they may have changed.
    `epoch_changed_at_ms` is the time at which this coordinator increased the epoch last. `pending_joins` are member ids
    that were given to classic clients, which have yet to join (KIP-394).
    """

    group_type: ClassVar = GroupType.CONSUMER
    protocol_type: ClassVar = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, PartitionSets] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.refresh_at_ms = 0
        self.epoch_changed_at_ms = 0
        self.pending_joins: set[str] = set()
        self._owners: dict[bytes, dict[int, str]] = {}
        self._topic_names: frozenset[str] | None = None

    # Attributes

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def topic_names(self) -> frozenset[str]:
        """The topics that members are subscribed to by name."""
        if self._topic_names is None:
            self._topic_names = frozenset(name for member in self.members.values() for name in member.topic_names)
        return self._topic_names

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member is subscribed to the topic, by name or by a regular expression as it was resolved last."""
        return topic in self.topic_names or any(topic in regex.topic_names for regex in self.regexes.values())

    def owner_of(self, topic_id: bytes, partition: int) -> str | None:
        """The member that the partition is assigned to, or that has yet to revoke it."""
        owners = self._owners.get(topic_id)
        return None if owners is None else owners.get(partition)

    def target_of(self, member_id: str) -> PartitionSets:
        return self.targets.get(member_id, NO_PARTITIONS)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def member(self, member_id: str) -> ConsumerMember:
        """The member of this id. Raises KafkaError if there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def preferred_assignor(self, members: Iterable[ConsumerMember], default: str) -> str:
        """The assignor that most of these members prefer; of several, the first by name."""
        votes: dict[str, int] = {}
        for member in members:
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return min(votes, key=lambda name: (-votes[name], name), default=default)

    # Offsets, see `broker.coordinator.group.group_kind.Group`

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, is_transactional: bool
    ) -> PartitionValidator | None:
        """A member may commit at its epoch. At an earlier one it may commit offsets of the partitions that it has owned
        since (KIP-1251).
        """
        if epoch < 0 and not self.members:
            return None  # an administrator, or a consumer that assigns its partitions itself
        if is_transactional and (member_id, instance_id, epoch) == ("", None, _NO_EPOCH):
            return None  # a producer that does not name its member (KIP-447)
        member = self.member(member_id)
        if not is_transactional and not member.is_classic and api_version < _COMMIT_WITH_EPOCH_FROM:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the modern group protocol",
            )
        knows_epochs = not is_transactional or api_version >= _TXN_COMMIT_WITH_EPOCH_FROM
        stale = _stale_code(member, knows_epochs=knows_epochs)
        if epoch < member.member_epoch:
            return partial(_check_assignment_epoch, member, epoch, stale)
        _check_epoch(member, epoch, stale)
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is not None or member_epoch >= 0:
            member = self.member(member_id or "")
            _check_epoch(member, member_epoch, _stale_code(member))

    def validate_offset_delete(self) -> None:
        """Always permitted. Partitions of subscribed topics are refused one by one."""

    def committed(self, member_id: str, timers: Timers) -> None:
        """A commit does not prolong the session of a consumer group's member; only heartbeats do."""

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        return group_tombstones(self.group_id, dict.fromkeys([*self.members, *self.targets]), self.regexes)

    # Replay

    def put(self, member: ConsumerMember) -> None:
        former = self.members.get(member.member_id)
        if former is not None:
            self._disown(former)
        self.members[member.member_id] = member
        self._own(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if former is None or former.topic_names != member.topic_names:
            self._topic_names = None

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._disown(member)
            if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
                del self.static_members[member.instance_id]
            self._topic_names = None

    def _own(self, member: ConsumerMember) -> None:
        for sets in (member.assigned, member.pending_revocation):
            for topic_id, partitions in sets.items():
                owners = self._owners.setdefault(topic_id, {})
                for partition in partitions:
                    owners[partition] = member.member_id

    def _disown(self, member: ConsumerMember) -> None:
        """A partition stays with another member that owns it by now: compaction may have removed the records in
        between.
        """
        for sets in (member.assigned, member.pending_revocation):
            for topic_id, partitions in sets.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)


def _stale_code(member: ConsumerMember, *, knows_epochs: bool = True) -> ErrorCode:
    """The error code of an epoch that is not the member's, for a request whose version `knows_epochs` or not."""
    is_epoch = knows_epochs and not member.is_classic
    return ErrorCode.STALE_MEMBER_EPOCH if is_epoch else ErrorCode.ILLEGAL_GENERATION


def _check_epoch(member: ConsumerMember, epoch: int, stale: ErrorCode) -> None:
    if epoch != member.member_epoch:
        expected = member.member_epoch
        raise KafkaError(stale, f"The received epoch {epoch} does not match the expected member epoch {expected}.")


def _check_assignment_epoch(
    member: ConsumerMember, epoch: int, stale: ErrorCode, topic: str, topic_id: bytes, partition: int
) -> None:
    """Raises KafkaError if the member does not own the partition, or has got it after this epoch."""
    assigned_at = member.assignment_epoch(topic_id, partition)
    if assigned_at is None:
        raise KafkaError(
            stale, f"Partition {topic}-{partition} is not assigned to member {member.member_id}, nor to be revoked."
        )
    if epoch < assigned_at:
        raise KafkaError(
            stale,
            f"The received epoch {epoch} is older than epoch {assigned_at}, at which partition {topic}-{partition} was"
            f" assigned to member {member.member_id}.",
        )


def members_with(
    group: ConsumerGroup, *changed: ConsumerMember, without: Iterable[str] = ()
) -> Mapping[str, ConsumerMember]:
    """The group's members after a change, in the order in which they joined."""
    members = dict(group.members)
    for member_id in without:
        members.pop(member_id, None)
    for member in changed:
        members[member.member_id] = member
    return members
