"""The positions of one assigned partition, and whether they are valid. Pure.

    INITIALIZING       no position yet: the committed offset is looked up, where there is a group
    AWAIT_RESET        the position is lost or was never there: an offset is looked up by the reset policy
    AWAIT_VALIDATION   there is a position, and a new leader has not confirmed yet that it has the records before it
    FETCHING           the position is good

There are two positions: `consumed` is that of the next record to return, `fetched` that of the next Fetch; between them
lies what was fetched ahead. Both begin at the same offset.

`generation` changes whenever earlier fetches and requests have become useless.
"""

from enum import Enum, auto
from math import inf
from typing import NamedTuple

import attrs

from broker.client.consumer.errors import LogTruncation
from broker.client.consumer.offset_reset import OffsetReset
from broker.client.types import OffsetAndMetadata, TopicPartition

UNKNOWN_EPOCH = -1


class PositionState(Enum):
    """See the module's docstring."""

    INITIALIZING = auto()
    AWAIT_RESET = auto()
    AWAIT_VALIDATION = auto()
    FETCHING = auto()


class Position(NamedTuple):
    """The offset of the next record, and the leader epoch of the record before it where that is known."""

    offset: int
    epoch: int | None = None


class Leader(NamedTuple):
    """A partition's leader. `epoch` is -1 from a broker that does not report it."""

    node_id: int
    epoch: int


class PositionSnapshot(NamedTuple):
    """The state of a partition when a request was sent. It identifies stale responses."""

    generation: int
    position: Position
    leader: Leader


@attrs.define(eq=False)
class AssignedPartition:
    """See the module's docstring. Times are seconds of Trio's clock."""

    partition: TopicPartition
    state: PositionState = PositionState.INITIALIZING
    generation: int = 0
    consumed: Position | None = None
    fetched: Position | None = None
    leader: Leader | None = None
    is_assigned: bool = True
    is_paused: bool = False
    is_being_revoked: bool = False
    reset: OffsetReset | None = None
    # Raised by the next poll, which clears it; the partition is left alone until then.
    error: Exception | None = None
    # Why the last Fetch of it failed; None after one that did not.
    last_failure: Exception | None = None
    # After a failure, the partition is left alone until then.
    retry_at: float = 0.0
    # A Fetch failed beyond what was fetched ahead: the next one waits until that has been consumed.
    waits_for_buffer: bool = False
    preferred_replica: int | None = None
    preferred_until: float = 0.0
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    # Nothing is fetched from this offset on, where only a range is read.
    fetch_end: float = inf
    # The id of the only topic to fetch from; None for the one that the metadata has under the partition's name.
    topic_id: bytes | None = None
    # Fetches in a row that were answered without an error, without being throttled, and without records.
    empty_fetches: int = 0

    @property
    def is_fetching(self) -> bool:
        return self.state is PositionState.FETCHING

    @property
    def is_returnable(self) -> bool:
        """True if the next poll may return records of this partition."""
        return self.is_fetching and not self.is_paused and not self.is_being_revoked

    @property
    def is_range(self) -> bool:
        """True if only the offsets up to `fetch_end` are read."""
        return self.fetch_end != inf

    def may_fetch(self, now: float) -> bool:
        return (
            self.is_returnable
            and self.error is None
            and not self.waits_for_buffer
            and self.retry_at <= now
            and self.fetched is not None
            and self.fetched.offset < self.fetch_end
        )

    def is_due(self, state: PositionState, now: float) -> bool:
        """True if the partition is in a state that needs a lookup, which may be made now."""
        return self.state is state and self.error is None and self.retry_at <= now

    def seek(self, position: Position) -> None:
        """Moves to a position. One with an epoch is validated first, against the leader's log."""
        self._abandon()
        self.consumed = self.fetched = position
        self.reset = None
        self._validate()

    def read_range(self, start: int, end: int, topic_id: bytes | None = None) -> None:
        """Moves to `start`. Until the next seek, fetches nothing from `end` on, and nothing of another topic id."""
        self.seek(Position(start))
        self.fetch_end = end
        self.topic_id = topic_id

    def request_reset(self, reset: OffsetReset) -> None:
        """Has the position looked up; there is none until then."""
        self._abandon()
        self.consumed = self.fetched = None
        self.state = PositionState.AWAIT_RESET
        self.reset = reset

    def complete_reset(self, reset: OffsetReset, offset: int) -> None:
        """Takes a looked-up offset, unless another position was chosen meanwhile."""
        if self.state is PositionState.AWAIT_RESET and self.reset is reset:
            self.seek(Position(offset))

    def unassign(self) -> None:
        self._abandon()
        self.is_assigned = False

    def rewind(self) -> None:
        """Forgets what was fetched ahead."""
        self.generation += 1
        self.fetched = self.consumed
        self.waits_for_buffer = False

    def consume(self, position: Position) -> None:
        """Moves the consumed position past records that were returned or skipped."""
        assert self.consumed is not None, "records come from a position"
        assert position.offset >= self.consumed.offset, "positions only move forwards, but for seeks"
        self.consumed = position

    def fetch_from(self, position: Position) -> None:
        """Moves the fetched position past a response's last batch."""
        self.fetched = position

    # Leaders

    def update_leader(self, leader: Leader) -> None:
        """Takes the leader from the metadata. A new one has to confirm the position first (KIP-320)."""
        if leader == self.leader:
            return
        self.leader = leader
        self.preferred_replica = None
        self.retry_at = 0.0
        if self.state in (PositionState.FETCHING, PositionState.AWAIT_VALIDATION):
            self._validate()

    def snapshot(self) -> PositionSnapshot:
        """Takes the state on which the next Fetch or validation is based."""
        assert self.fetched is not None, "only a partition with a position is asked for"
        assert self.leader is not None, "only a partition with a leader is asked for"
        return PositionSnapshot(self.generation, self.fetched, self.leader)

    def is_current(self, snapshot: PositionSnapshot) -> bool:
        """False if the partition has changed since the snapshot: a response to that request is stale."""
        return (
            self.generation == snapshot.generation
            and self.fetched == snapshot.position
            and self.leader == snapshot.leader
        )

    def validated(
        self, snapshot: PositionSnapshot, end_epoch: int, end_offset: int, policy: OffsetReset | None
    ) -> LogTruncation | None:
        """Takes the leader's answer: the end of the largest epoch in its log up to that of the position.

        Returns the error to raise where the log was truncated before the consumed position and there is no policy.
        """
        if self.state is not PositionState.AWAIT_VALIDATION or not self.is_current(snapshot):
            return None
        assert self.consumed is not None, "a position that is validated is there"
        if end_epoch < 0 or end_offset < 0:
            if policy is None:
                return LogTruncation(self.partition, self.consumed.offset, None)
            self.request_reset(policy)
        elif end_offset >= snapshot.position.offset:
            self.state = PositionState.FETCHING
        elif end_offset >= self.consumed.offset:
            # Only what was fetched ahead is gone. The consumed position is validated by its own epoch.
            self.rewind()
            self._validate()
        elif policy is None:
            return LogTruncation(self.partition, self.consumed.offset, OffsetAndMetadata(end_offset, end_epoch))
        else:
            self.seek(Position(end_offset, end_epoch))
            self.state = PositionState.FETCHING
        return None

    def skip_validation(self) -> None:
        """Accepts the position without validation, because the leader does not support OffsetForLeaderEpoch."""
        if self.state is PositionState.AWAIT_VALIDATION:
            self.state = PositionState.FETCHING

    def _validate(self) -> None:
        assert self.fetched is not None, "what is validated is there"
        can_compare = self.fetched.epoch is not None and (self.leader is None or self.leader.epoch != UNKNOWN_EPOCH)
        self.state = PositionState.AWAIT_VALIDATION if can_compare else PositionState.FETCHING

    def _abandon(self) -> None:
        self.generation += 1
        self.error = None
        self.retry_at = 0.0
        self.waits_for_buffer = False
        self.fetch_end = inf
        self.topic_id = None
        self.empty_fetches = 0

    # Replicas (KIP-392)

    def prefer_replica(self, node_id: int, until: float) -> None:
        """Reads from this replica until the time is over, the leader changes, or the replica fails."""
        if self.preferred_replica != node_id:
            self.preferred_replica = node_id
            self.preferred_until = until

    def clear_preferred_replica(self) -> bool:
        """Reads from the leader again. False if that was so already."""
        was_preferred = self.preferred_replica is not None
        self.preferred_replica = None
        return was_preferred

    def replica_to_read(self, now: float) -> int | None:
        """The preferred replica, or None for the leader, which is asked once the preference has expired."""
        if self.preferred_replica is not None and now >= self.preferred_until:
            self.preferred_replica = None
        return self.preferred_replica

    # Ends

    def count_fetch(self, *, is_empty: bool) -> None:
        """Counts a response that was neither an error nor throttled."""
        self.empty_fetches = self.empty_fetches + 1 if is_empty else 0

    def update_ends(self, high_watermark: int, last_stable_offset: int) -> None:
        """Takes the ends of the log from a response; negative ones are unknown."""
        if high_watermark >= 0:
            self.high_watermark = high_watermark
        if last_stable_offset >= 0:
            self.last_stable_offset = last_stable_offset

    def lag(self, *, read_committed: bool) -> int | None:
        """The number of offsets from the consumed position to the end, or None before the first Fetch."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        return None if end is None or self.consumed is None else max(end - self.consumed.offset, 0)

    def next_attempt(self, now: float) -> float:
        """The time at which this partition's pause or its preference for a replica ends; infinity if there is none."""
        paused_until = self.retry_at if self.retry_at > now else inf
        return paused_until if self.preferred_replica is None else min(paused_until, self.preferred_until)
