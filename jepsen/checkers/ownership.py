"""The owner of each partition of a group over time, and the records that it received."""

from collections.abc import Iterator, Sequence

import attrs

from jepsen.checkers.records import TopicPartition
from jepsen.history import History, Operation, Outcome


@attrs.define(eq=False)
class OwnershipPeriod:
    """The ownership of one partition by a member, from assignment to revocation.

    `ended_at` is None if the end is unknown or never came. `read` is the last response with the committed offset before
    the first poll, if the member recorded it.
    """

    group: str
    member: str
    instance: str
    partition: TopicPartition
    assignment: Operation
    read: Operation | None = None
    polls: list[Operation] = attrs.field(factory=list)
    # Pairs of generation and time of assignment: the first one, and later ones in which the member kept the partition.
    generations: list[tuple[int, float]] = attrs.field(factory=list)
    ended_at: float | None = None

    @property
    def began_at(self) -> float:
        assert self.assignment.completed_at is not None, "the operation has completed"
        return self.assignment.completed_at

    @property
    def first_poll(self) -> Operation | None:
        return self.polls[0] if self.polls else None

    @property
    def incarnation(self) -> int:
        """The incarnation of the offsets log when the member requested its start position."""
        return (self.read or self.assignment).incarnation

    def successive_polls(self) -> Iterator[tuple[Operation, Operation]]:
        """Pairs of successive polls that returned records in the same incarnation."""
        for before, after in zip(self.polls, self.polls[1:], strict=False):
            if before.incarnation == after.incarnation:
                yield before, after


def find_ownerships(history: History) -> Sequence[OwnershipPeriod]:
    """All ownerships, ordered by their begin. A poll belongs to the ownership at the time when it was recorded."""
    found: list[OwnershipPeriod] = []
    current: dict[tuple[str, str, TopicPartition], OwnershipPeriod] = {}
    functions = "assign", "revoke", "lose", "poll-group", "fetch-committed"
    by_client: dict[str, list[Operation]] = {}
    for operation in history.of(*functions):
        by_client.setdefault(operation.client, []).append(operation)
    for operations in by_client.values():
        for operation in sorted(operations, key=lambda each: each.serial):
            _apply(operation, current, found)
    return sorted(found, key=lambda owned: owned.began_at)


def _apply(
    operation: Operation, current: dict[tuple[str, str, TopicPartition], OwnershipPeriod], found: list[OwnershipPeriod]
) -> None:
    value, is_ok = operation.value, operation.outcome is Outcome.OK
    if operation.function == "assign" and is_ok:
        _assign(operation, current, found)
    elif operation.function in ("revoke", "lose"):
        for partition in value.partitions:
            owned = current.pop((value.group, value.member, partition), None)
            if owned is not None:
                owned.ended_at = operation.invoked_at
    elif operation.function == "poll-group" and is_ok and operation.result:
        owned = current.get((value.group, value.member, (value.topic, value.partition)))
        if owned is not None:
            owned.polls.append(operation)
    elif operation.function == "fetch-committed" and is_ok:
        for partition in value.partitions:
            owned = current.get((value.group, value.member, partition))
            if owned is not None and not owned.polls:
                owned.read = operation


def _assign(
    operation: Operation, current: dict[tuple[str, str, TopicPartition], OwnershipPeriod], found: list[OwnershipPeriod]
) -> None:
    own = operation.value
    for partition in own.partitions:
        key = own.group, own.member, partition
        if key not in current:
            current[key] = OwnershipPeriod(own.group, own.member, own.instance, partition, operation)
            found.append(current[key])
        assert operation.completed_at is not None, "the operation has completed"
        current[key].generations.append((own.generation, operation.completed_at))
