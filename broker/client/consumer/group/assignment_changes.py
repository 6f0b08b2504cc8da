"""Changes of a consumer's assignment: decided by the background task of its group, applied by the task that polls.

Kafka runs rebalance listeners inside poll(), so a listener never runs while the application works on records that it
was given before. The same holds here: the background task requests a change and waits; the consumer's next poll commits
offsets, calls the listener and replaces the assignment, in that order.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final, Protocol

import attrs
import trio

from broker.client.types import OffsetAndMetadata, TopicPartition

Partitions = Sequence[TopicPartition]


class RebalanceListener:
    """Base class of rebalance listeners. Override what you need; partitions come sorted by topic and number.

    The methods run in the task that polls (iterates or fetches), which goes on when they return. They may commit, seek
    and pause. A poll's cancellation does not interrupt them, but `max.poll.interval.ms` does. The poll raises their
    exceptions; the rebalance continues nevertheless.
    """

    async def on_revoked(self, partitions: Partitions) -> None:
        """Called before `partitions` are given up, after auto commit: the last chance to commit their offsets."""

    async def on_assigned(self, partitions: Partitions) -> None:
        """Called at the end of every rebalance with the partitions that are new, possibly none; may seek in them."""

    async def on_lost(self, partitions: Partitions) -> None:
        """Called when the member was removed from the group: other members may own `partitions` already."""
        await self.on_revoked(partitions)


class SubscriptionState(Protocol):
    """The consumer's own record of its partitions, as far as its group reads and changes it."""

    def assigned_partitions(self) -> Collection[TopicPartition]:
        """The partitions that the group has given to this consumer and that are still assigned."""

    def mark_pending_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Stops returning records of `partitions`, so that what is committed now stays true until they are gone."""

    def assign_from_group(self, partitions: Collection[TopicPartition]) -> None:
        """Replaces the assignment. Partitions that stay keep their positions; pending revocations end."""

    def consumed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The offsets that auto commit may commit: after the last records that were returned before this poll."""


@attrs.frozen
class AssignmentChange:
    """A change for the next poll: it first revokes the partitions that are not in `target`, which is the new
    assignment.

    With `is_lost`, the member has lost its partitions already. With `completes`, the rebalance ends with this change,
    and the listener's on_assigned is called. With `commits`, auto commit runs first.
    """

    target: frozenset[TopicPartition] = frozenset()
    is_lost: bool = False
    completes: bool = False
    commits: bool = False


@attrs.define(eq=False)
class _Requested:
    change: AssignmentChange
    is_applied: bool = False
    ended: trio.Event = attrs.field(factory=trio.Event)


_NO_LISTENER: Final = RebalanceListener()


class AssignmentChanges:
    """The queue between the background task and the polling task.

    `commit` writes offsets to the group before a revocation; it raises nothing. A listener is interrupted after
    `listener_timeout_ms`: by then the coordinator has removed the member.
    """

    def __init__(
        self,
        state: SubscriptionState,
        commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], Awaitable[None]],
        listener_timeout_ms: float,
    ) -> None:
        self.listener = _NO_LISTENER
        self._state = state
        self._commit = commit
        self._listener_timeout_s = listener_timeout_ms / 1000
        self._requested: deque[_Requested] = deque()
        self._is_applying = False
        self._arrived = trio.Event()

    @property
    def is_pending(self) -> bool:
        """True if the next poll has a change to apply."""
        return bool(self._requested) and not self._is_applying

    async def wait_pending(self) -> None:
        """Returns when a change waits for the next poll, so that a poll that waits for records can apply it at once."""
        while not self.is_pending:
            self._arrived = trio.Event()
            await self._arrived.wait()

    async def request(self, change: AssignmentChange) -> bool:
        """Waits until a poll has applied `change`; False if it was withdrawn before that."""
        requested = _Requested(change)
        self._requested.append(requested)
        self._arrived.set()
        try:
            await requested.ended.wait()
        finally:
            if requested in self._requested:
                self._requested.remove(requested)
        return requested.is_applied

    def withdraw(self) -> None:
        """Drops the changes that no poll has begun with: the membership that they belong to is over."""
        while self._requested:
            self._requested.popleft().ended.set()

    async def apply(self) -> None:
        """Applies the requested changes, in the task that polls. Raises what a listener raises.

        Does nothing where another task applies changes already, or where a listener polls.
        """
        if self._is_applying:
            return
        self._is_applying = True
        try:
            while self._requested:
                requested = self._requested.popleft()
                try:
                    await self._apply_shielded(requested.change)
                finally:
                    requested.is_applied = True
                    requested.ended.set()
        finally:
            self._applied()

    async def lose(self) -> None:
        """Gives up all partitions, which the member has lost already. Raises what a listener raises."""
        if self._is_applying:
            return
        self._is_applying = True
        try:
            await self._apply_shielded(AssignmentChange(is_lost=True))
        finally:
            self._applied()

    def _applied(self) -> None:
        """Another poll may apply changes now: announce those that arrived meanwhile."""
        self._is_applying = False
        if self._requested:
            self._arrived.set()

    async def apply_at_once(self, change: AssignmentChange, timeout_s: float = inf) -> None:
        """Applies `change` in this task, which leaves the group; changes that wait for a poll are dropped."""
        self.withdraw()
        await self._apply_shielded(change, timeout_s)

    async def _apply_shielded(self, change: AssignmentChange, timeout_s: float = inf) -> None:
        deadline = trio.current_time() + min(self._listener_timeout_s, timeout_s)
        with trio.CancelScope(shield=True, deadline=deadline):
            if change.is_lost:
                await self._lose()
            else:
                await self._revoke_and_assign(change)

    async def _lose(self) -> None:
        lost = _sorted(self._state.assigned_partitions())
        if lost:
            try:
                await self.listener.on_lost(lost)
            finally:
                self._state.assign_from_group(())

    async def _revoke_and_assign(self, change: AssignmentChange) -> None:
        owned = frozenset(self._state.assigned_partitions())
        try:
            await self._revoke(owned - change.target, owned & change.target, commits=change.commits)
        finally:
            if change.completes:
                self._state.assign_from_group(_sorted(change.target))
                await self.listener.on_assigned(_sorted(change.target - owned))

    async def _revoke(
        self, revoked: frozenset[TopicPartition], kept: frozenset[TopicPartition], *, commits: bool
    ) -> None:
        """Commits first: what the listener commits is newer than what auto commit does."""
        if revoked:
            self._state.mark_pending_revocation(_sorted(revoked))
        if commits and (offsets := self._state.consumed_offsets()):
            await self._commit(offsets)
        if revoked:
            try:
                await self.listener.on_revoked(_sorted(revoked))
            finally:
                self._state.assign_from_group(_sorted(kept))


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(partitions)
