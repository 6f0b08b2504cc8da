"""The assigned partitions of a consumer, chosen by the user or by its group. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum, auto

from broker.client.consumer.errors import NotAssigned
from broker.client.consumer.offset_reset import OffsetReset
from broker.client.consumer.positions import AssignedPartition, Leader, PositionState
from broker.client.errors import ClientError
from broker.client.types import OffsetAndMetadata, TopicPartition


class SubscriptionKind(Enum):
    """How partitions are chosen: not yet, by `assign`, or by the group for `subscribe`."""

    NONE = auto()
    ASSIGNED = auto()
    SUBSCRIBED = auto()


class SubscriptionState:
    """The assigned partitions, in the order in which they are asked for.

    `policy` is `auto.offset.reset`. `reassigned` is called when the group has replaced the assignment.
    """

    def __init__(self, policy: OffsetReset | None, reassigned: Callable[[], None] = lambda: None) -> None:
        self._policy = policy
        self._reassigned = reassigned
        self.kind = SubscriptionKind.NONE
        self._partitions: dict[TopicPartition, AssignedPartition] = {}

    @property
    def partitions(self) -> Collection[AssignedPartition]:
        return self._partitions.values()

    def assignment(self) -> set[TopicPartition]:
        return set(self._partitions)

    def find(self, partition: TopicPartition) -> AssignedPartition | None:
        return self._partitions.get(partition)

    def assigned(self, partition: TopicPartition) -> AssignedPartition:
        """Returns the state of a partition. Raises NotAssigned."""
        found = self._partitions.get(partition)
        if found is None:
            raise NotAssigned(
                f"{partition.topic}-{partition.partition} is not assigned to this consumer: assign() it, or wait for "
                "the group to assign it"
            )
        return found

    def all_assigned(self, partitions: Iterable[TopicPartition]) -> list[AssignedPartition]:
        """Returns the states of these partitions. Raises NotAssigned if one of them is not assigned."""
        return [self.assigned(partition) for partition in partitions]

    def policy_of(self, assigned: AssignedPartition) -> OffsetReset | None:
        """The reset policy for positions that are out of range. None, which is an error, while a range is read."""
        return None if assigned.is_range else self._policy

    # Choosing

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replaces the assignment by the user's; partitions that stay keep their positions. Raises ClientError."""
        self._check_kind(SubscriptionKind.ASSIGNED)
        self._replace(partitions)
        self.kind = SubscriptionKind.ASSIGNED if self._partitions else SubscriptionKind.NONE

    def subscribe(self) -> None:
        """Leaves the choice to the group from now on. Raises ClientError."""
        self._check_kind(SubscriptionKind.SUBSCRIBED)
        self.kind = SubscriptionKind.SUBSCRIBED

    def unsubscribe(self) -> None:
        """Gives up all partitions."""
        self._replace(())
        self.kind = SubscriptionKind.NONE

    def _check_kind(self, wanted: SubscriptionKind) -> None:
        if self.kind not in (SubscriptionKind.NONE, wanted):
            raise ClientError("assign() and subscribe() exclude each other: unsubscribe() first")

    def _replace(self, partitions: Iterable[TopicPartition]) -> None:
        before = self._partitions
        self._partitions = {}
        for partition in map(TopicPartition._make, partitions):
            known = before.pop(partition) if partition in before else self._partitions.get(partition)
            self._partitions[partition] = known or AssignedPartition(partition)
        for gone in before.values():
            gone.unassign()

    # For the group

    def assigned_partitions(self) -> Collection[TopicPartition]:
        """The partitions that the group has assigned."""
        return list(self._partitions) if self.kind is SubscriptionKind.SUBSCRIBED else []

    def assign_from_group(self, partitions: Collection[TopicPartition]) -> None:
        """Replaces the assignment. Partitions that stay keep their positions; pending revocations end.

        Late news of a group whose topics the user has unsubscribed from meanwhile is ignored.
        """
        if self.kind is SubscriptionKind.SUBSCRIBED:
            self._replace(partitions)
            for assigned in self._partitions.values():
                assigned.is_being_revoked = False
            self._reassigned()

    def mark_pending_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Stops returning records of `partitions`: what is committed now stays true until they are gone."""
        for partition in partitions:
            if (assigned := self._partitions.get(partition)) is not None:
                assigned.is_being_revoked = True

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets to commit: the position of each partition whose position is valid."""
        return {
            assigned.partition: OffsetAndMetadata(assigned.consumed.offset, assigned.consumed.epoch)
            for assigned in self._partitions.values()
            if assigned.consumed is not None and assigned.state is PositionState.FETCHING
        }

    # For metadata and lookups

    def update_leaders(self, leaders: Mapping[TopicPartition, tuple[int, int] | None]) -> None:
        """Takes leaders and their epochs from the metadata; where a partition has none now, the last one stays."""
        for partition, leader in leaders.items():
            assigned = self._partitions.get(partition)
            if assigned is not None and leader is not None:
                assigned.update_leader(Leader(*leader))

    def without_leader(self) -> list[AssignedPartition]:
        """The partitions that have never had a known leader."""
        return [assigned for assigned in self._partitions.values() if assigned.leader is None]

    def move_to_end(self, partition: TopicPartition) -> None:
        """Moves this partition to the end of the order in which partitions are fetched."""
        if (assigned := self._partitions.pop(partition, None)) is not None:
            self._partitions[partition] = assigned

    def take_error(self) -> Exception | None:
        """Returns and clears the error of one partition, which is then retried."""
        for assigned in self._partitions.values():
            if assigned.error is not None:
                error, assigned.error = assigned.error, None
                return error
        return None
