"""What offsets need to know of a group, whichever protocol its members speak."""

from typing import Protocol

from broker.coordinator.runtime.decision import CoordinatorRecord
from broker.coordinator.runtime.shard import Timers


class Group(Protocol):
    """A classic or a consumer group. None of this changes it; `committed` may set its timers.

    A simple group, as those have that only keep their offsets here, is none of these: it is its offsets.
    """

    @property
    def is_empty(self) -> bool:
        """Whether it has no members. Without offsets, it may go then."""
        ...

    def validate_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, api_version: int, is_transactional: bool
    ) -> None:
        """Raises CoordinatorError where this member may not commit in this generation, or at this member epoch."""
        ...

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises CoordinatorError where somebody says to be a member, and is not, or not at this epoch."""
        ...

    def validate_offset_delete(self) -> None:
        """Raises CoordinatorError where its offsets cannot be deleted as long as it has members."""
        ...

    def committed(self, member_id: str, timers: Timers) -> None:
        """The member has committed offsets, and so is alive. Called where a decision is applied."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic, or may for all that is known."""
        ...

    def retention_begins_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when on an offset of that commit grows old; None: not while the group is as it is (KIP-211)."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that remove it, apart from its offsets."""
        ...
