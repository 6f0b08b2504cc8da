"""What a coordinator decides: records for its partition, what follows from them, and the answer."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs

from broker.wire.errors import KafkaError

T = TypeVar("T")


class CoordinatorError(KafkaError):
    """The answer to a request that its coordinator refuses as a whole, or cannot serve."""


@attrs.frozen
class CoordinatorRecord:
    """A record of a compacted topic; `value` None is a tombstone."""

    key: bytes
    value: bytes | None


@attrs.frozen
class Decision(Generic[T]):
    """`records` are appended, and replayed into the state at once; the response leaves when they are committed.

    A response that has to wait for what happens later is a Completion that the state has parked. `apply` changes what
    of the state stands in no record (members' timers, who waits for what), behind the replay. Where the records cannot
    be appended, nothing of all this happens.

    The records are one batch, all or nothing, unless they need not be `atomic`: then they may be many.
    """

    records: Sequence[CoordinatorRecord]
    response: T
    apply: Callable[[], None] | None = None
    atomic: bool = True
