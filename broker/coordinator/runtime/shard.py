"""What a coordinator's state and the runtime owe each other. Pure: whoever implements it sees no log and no clock."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeAlias, TypeVar

from broker.coordinator.runtime.completion import Completion
from broker.coordinator.runtime.decision import Decision
from metadata.image import MetadataDelta, MetadataImage

S_contra = TypeVar("S_contra", contravariant=True)

# What a timer does when it is due: decide, given the state and the time of day in ms since 1970.
OnTimer: TypeAlias = Callable[[Any, int], Decision[None]]


class Shard(Protocol):
    """The state of a coordinator over one partition.

    It changes by `replay`, and by what a Decision has to `apply`; functions that decide only look at it.
    """

    def replay(
        self,
        key: bytes,
        value: bytes | None,
        offset: int,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        """Take over a record of the partition, in the order of the log; `value` None is a tombstone.

        Records that a later one of the same key has replaced may be missing. One of an unknown type is left alone.
        """
        ...

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Take over the end of a transaction: what its producer's records said is so from now on, or never was."""
        ...

    def loaded(self, now_ms: int) -> None:
        """The log is replayed, and requests come from now on: set up what stands in no record, such as timers."""
        ...

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The metadata is another one now. What is to be decided about that, a timer due at once may decide."""
        ...


class Timers(Protocol):
    """Of one shard, from `Shard.loaded` on; they end with it.

    Not to be touched while deciding, since the decision may come to nothing.
    """

    def schedule(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        """Have `decide` called in `delay_ms`, in place of what was scheduled under the same key.

        Where its records cannot be appended, it is called again a little later.
        """
        ...

    def schedule_once(self, key: Hashable, delay_ms: float, decide: OnTimer) -> None:
        """As `schedule`, unless something is scheduled under this key already."""
        ...

    def put_off(self, key: Hashable, delay_ms: float) -> None:
        """What is scheduled under this key is due in `delay_ms` instead; nothing where nothing is scheduled."""
        ...

    def cancel(self, key: Hashable) -> None:
        """Nothing is due under this key any more."""
        ...


class ShardContext(Protocol):
    """What the runtime gives to a state."""

    @property
    def timers(self) -> Timers: ...

    @property
    def image(self) -> MetadataImage:
        """The metadata as this broker knows it now."""
        ...

    def park(self) -> Completion[Any]:
        """A response for later. The state completes it by what it applies, and it leaves when all that is committed.

        It fails with NOT_COORDINATOR when the shard goes.
        """
        ...
