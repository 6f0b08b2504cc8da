"""A coordinator's decision: records for its partition, changes that follow from them, and the response."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kraft import lazy_attrs

T = TypeVar("T")


@lazy_attrs.frozen
class CoordinatorRecord:
    """A record of a compacted topic; `value` None is a tombstone."""

    key: bytes
    value: bytes | None


@lazy_attrs.frozen
class Producer:
    """The transactional producer for which records are written."""

    producer_id: int
    epoch: int


@lazy_attrs.frozen
class Decision(Generic[T]):
    """The result of a request or a timer: records to append, a response, and state changes that stand in no record.

    The records are appended and replayed into the state at once; the response leaves when they are committed. A
    response that waits for a later event is a Completion which the state has parked. `apply` changes the part of the
    state that no record holds, such as members' timers and parked responses. It is called after the replay. If the
    records cannot be appended, the decision has no effect.

    The records form one batch, so they are appended all or none. With `atomic=False` they may be split over several
    batches. With a `producer`, they are part of that producer's transaction, and take effect when it is committed.

    A response fails if the commit takes too long. `committed` is called however long it takes, unless this broker ends
    to be the coordinator before. It must not raise.
    """

    records: Sequence[CoordinatorRecord]
    response: T
    apply: Callable[[], None] | None = None
    atomic: bool = True
    producer: Producer | None = None
    committed: Callable[[], None] | None = None
