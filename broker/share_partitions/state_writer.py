"""Has the changes of one share-partition stored, one write after the other."""

from bisect import bisect
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from broker.coordinator.runtime.completion import Completion, completed
from broker.coordinator.share.share_state import StateBatch
from broker.net.completion import Completion as OwnCompletion
from broker.share_partitions.in_flight import StateWrite
from broker.wire.errors import ErrorCode, KafkaError
from kraft import lazy_attrs

# The share coordinator may answer the next request: the share-partition goes on with its state in memory.
TEMPORARY: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)
_FENCED: Final = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH)
_FORWARDED: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
# A group without a state is asked for by its members of before its deletion, or by clients that are no members.
EXPECTED: Final = (*TEMPORARY, *_FENCED, *_FORWARDED, ErrorCode.INVALID_REQUEST)


def client_error(error: KafkaError) -> KafkaError:
    """The error for a client after an error of the share coordinator, as in Kafka."""
    code, message = error.code, str(error)
    if code in TEMPORARY:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    if code in _FENCED:
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    return error if code in _FORWARDED else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)


@lazy_attrs.frozen(eq=False)
class QueuedWrite:
    """A write, and the completion of the acknowledgement that waits for it: None, or the error for the client."""

    write: StateWrite
    stored: Completion[None]


class StateWriter:
    """Stores writes in the order in which they are added.

    One request is under way at a time: the share coordinator may execute two in another order, and records that were
    released and acquired again would get an old state. Writes that are added meanwhile share the next request.

    `store` sends batches to the share coordinator. `written` is called with the writes of each request and its error,
    and returns the error for those who wait for the writes.
    """

    __slots__ = ("_is_sending", "_queue", "_store", "_under_way", "_written")

    def __init__(
        self,
        store: Callable[[tuple[StateBatch, ...]], Completion[None]],
        written: Callable[[Sequence[QueuedWrite], KafkaError | None], KafkaError | None],
    ) -> None:
        self._store = store
        self._written = written
        self._queue: deque[QueuedWrite] = deque()
        self._under_way: list[QueuedWrite] = []
        self._is_sending = False

    @property
    def is_idle(self) -> bool:
        """True if all writes are completed."""
        return not self._queue and not self._under_way

    def add(self, write: StateWrite) -> Completion[None]:
        """Store a write; completes with None or the error of the share coordinator."""
        stored: Completion[None] = OwnCompletion()
        queued = QueuedWrite(write, stored)
        self._queue.append(queued)
        self._send()
        return queued.stored

    def drained(self) -> Completion[None]:
        """Completes when the writes that were added so far are completed."""
        if self.is_idle:
            return completed(None)
        return (self._queue or self._under_way)[-1].stored

    def fail_queued(self, error: KafkaError) -> None:
        """Complete the writes that were not sent yet with an error. The request under way goes on."""
        queue, self._queue = self._queue, deque()
        for queued in queue:
            queued.stored.complete(error)

    def _send(self) -> None:
        """Send the next requests; a store that answers at once calls `_answered` within."""
        if self._is_sending:
            return
        self._is_sending = True
        while self._queue and not self._under_way:
            self._under_way = self._next_writes()
            batches = tuple(batch for queued in self._under_way for batch in queued.write.batches)
            self._store(batches).then(self._answered)
        self._is_sending = False

    def _next_writes(self) -> list[QueuedWrite]:
        """The first writes of the queue, up to one that changes the same offsets as an earlier one."""
        writes: list[QueuedWrite] = []
        taken: list[tuple[int, int]] = []
        while self._queue:
            for batch in self._queue[0].write.batches:
                place = bisect(taken, (batch.first_offset, batch.last_offset))
                follows = taken[place - 1][1] < batch.first_offset if place else True
                if not follows or (place < len(taken) and taken[place][0] <= batch.last_offset):
                    return writes
                taken.insert(place, (batch.first_offset, batch.last_offset))
            writes.append(self._queue.popleft())
        return writes

    def _answered(self, outcome: KafkaError | None) -> None:
        writes, self._under_way = self._under_way, []
        error = self._written(writes, outcome)
        for queued in writes:
            queued.stored.complete(error)
        self._send()
