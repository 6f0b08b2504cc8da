"""The interface between a coordinator's state and the runtime. Implementations are pure: no log, no clock."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeAlias, TypeVar

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import Decision
from metadata.image import MetadataDelta, MetadataImage

S_contra = TypeVar("S_contra", contravariant=True)

# Called when a timer is due: decides, given the state and the time of day in ms since 1970.
OnTimer: TypeAlias = Callable[[Any, int], Decision[None]]


class CoordinatorShard(Protocol):
    """The state of a coordinator over one partition.

    It changes only by `replay` and by the `apply` of a decision; the functions that decide only read it.
    """

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int = -1) -> None:
        """Replays a record of the partition, in the order of the log. `value` is None for a tombstone.

        `producer_id` is -1 outside of transactions; a transaction's record takes effect when the transaction commits.
        In a compacted topic, records that a later record of the same key replaces may be missing. Records of unknown
        types are skipped.
        """
        ...

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Replays the end of a transaction: the records of its producer take effect now, or never if it was aborted."""
        ...

    def loaded(self, now_ms: int) -> None:
        """Called when the log is replayed, before requests. Sets up the state that no record holds, such as timers."""
        ...

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Called when the metadata has changed. Decisions that follow from that are made by a timer that is due at
        once.
        """
        ...


class Timers(Protocol):
    """The timers of one shard. They may be used from `CoordinatorShard.loaded` on, and end with the shard.

    Functions that decide must not use them, since their decision may have no effect.
    """

    def schedule(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        """Calls `decide` in `delay_ms`, instead of what was scheduled under the same key.

        If its records cannot be appended, it is called again a little later.
        """
        ...

    def schedule_once(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        """As `schedule`, unless the key is scheduled already."""
        ...

    def postpone(self, key: Hashable, delay_ms: float) -> None:
        """Postpones the key's timer: it is due in `delay_ms` from now. Has no effect if the key is not scheduled."""
        ...

    def cancel(self, key: Hashable) -> None:
        """Cancels the key's timer, if there is one."""
        ...


class ShardContext(Protocol):
    """The runtime's interface for a shard."""

    @property
    def timers(self) -> Timers: ...

    @property
    def image(self) -> MetadataImage:
        """The metadata as this broker knows it now."""
        ...

    def park(self) -> Completion[Any]:
        """Returns a response to be completed later, by a decision's `apply`. It leaves when the state is committed.

        It fails with NOT_COORDINATOR when the shard is closed.
        """
        ...
