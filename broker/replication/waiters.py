"""The requests that wait for one partition to change; Kafka keeps them in its purgatories."""

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from broker.wire.errors import ErrorCode

P_contra = TypeVar("P_contra", contravariant=True)
P = TypeVar("P")


class Waiter(Protocol[P_contra]):
    """A parked request that may be complete once the partition has changed."""

    def try_complete(self, partition: P_contra) -> None:
        """Called when the partition has changed, after this waiter was removed from it. Must not raise."""
        ...


class AcknowledgementWaiter(Protocol):
    """A produce request that waits until its records are committed or flushed."""

    def complete(self, code: ErrorCode, /) -> None:
        """Called once: with NONE if the records are committed or flushed. Must not raise."""
        ...


class Acknowledgements:
    """Produce requests that wait until an offset is reached, in the order of their arrival.

    That is the order of their offsets, except for a retried batch that is in the log already and waits for a lower
    offset. It is notified together with the requests that came before it. `waiting` maps each request to its offset.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: OrderedDict[AcknowledgementWaiter, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, waiter: AcknowledgementWaiter, end_offset: int) -> None:
        """Notify `waiter` once everything below `end_offset` is reached."""
        self.waiting[waiter] = end_offset

    def discard(self, waiter: AcknowledgementWaiter) -> None:
        """Drop a waiter without notifying it."""
        self.waiting.pop(waiter, None)

    def complete_up_to(self, end_offset: int) -> None:
        """Complete the requests that wait for offsets up to `end_offset`: these are committed or flushed."""
        waiting = self.waiting
        while waiting:
            waiter, wanted = next(iter(waiting.items()))
            if wanted > end_offset:
                return
            del waiting[waiter]
            waiter.complete(ErrorCode.NONE)

    def fail(self, code: ErrorCode) -> None:
        """Complete all waiting requests with the error `code`: their offsets may never be reached."""
        while self.waiting:
            waiter, _ = self.waiting.popitem(last=False)
            waiter.complete(code)


class PartitionWaiters(Generic[P]):
    """All requests that wait for a partition of type P.

    `for_high_watermark` wait for the high watermark to move, as consumers do. `for_log_end` wait for the log to grow,
    as followers do. `for_deletions` wait for followers to delete the records that this leader has deleted. Produce
    requests in `for_commit` wait for the high watermark (acks=all), and those in `for_flush` for a flush.

    A waiter is removed from a dictionary when it is notified, and adds itself again if it has to wait longer.
    """

    __slots__ = ("for_commit", "for_deletions", "for_flush", "for_high_watermark", "for_log_end")

    def __init__(self) -> None:
        self.for_high_watermark: dict[Waiter[P], None] = {}
        self.for_log_end: dict[Waiter[P], None] = {}
        self.for_deletions: dict[Waiter[P], None] = {}
        self.for_commit = Acknowledgements()
        self.for_flush = Acknowledgements()

    def notify_high_watermark(self, partition: P) -> None:
        waiting, self.for_high_watermark = self.for_high_watermark, {}
        for waiter in waiting:
            waiter.try_complete(partition)

    def notify_log_end(self, partition: P) -> None:
        waiting, self.for_log_end = self.for_log_end, {}
        for waiter in waiting:
            waiter.try_complete(partition)

    def notify_readers(self, partition: P) -> None:
        """Notify all that wait for records, because those that they may read have changed."""
        self.notify_high_watermark(partition)
        self.notify_log_end(partition)

    def notify_deletions(self, partition: P) -> None:
        waiting, self.for_deletions = self.for_deletions, {}
        for waiter in waiting:
            waiter.try_complete(partition)

    def refuse_producers(self, code: ErrorCode) -> None:
        """Complete all waiting produce requests with the error `code`: their records may be removed from the log."""
        self.for_commit.fail(code)
        self.for_flush.fail(code)
