"""A share fetch that waits until it can acquire records."""

from broker.handlers.share_fetch.share_reader import ShareReader
from broker.net.completion import RequestWait
from broker.server.context import BrokerContext
from broker.share_partitions.led_partition import LedSharePartition
from broker.share_partitions.share_sessions import ShareSession


class DelayedShareFetch(RequestWait[None]):
    """Waits at all share-partitions of a request, for records that are committed or available again.

    The records are acquired as soon as they are there: otherwise two requests would be answered for the same records.
    With `min_bytes` above 1, the request acquires records itself once there are enough. `_sizes` has the bytes of each
    share-partition when it changed last, so that a commit costs the count of one share-partition.
    """

    __slots__ = ("_context", "_min_bytes", "_reader", "_session", "_size", "_sizes", "_watched")

    def __init__(self, context: BrokerContext, reader: ShareReader, session: ShareSession, min_bytes: int) -> None:
        super().__init__()
        self._context = context
        self._reader = reader
        self._session = session
        self._min_bytes = min_bytes
        self._watched: dict[LedSharePartition, None] = {}
        self._sizes: dict[LedSharePartition, int] = {}
        self._size = 0
        session.waiting = self

    def watch(self, led: LedSharePartition) -> None:
        """Wait at a share-partition, too."""
        self._watched[led] = None
        led.watch(self)

    def begin(self, max_wait_ms: int) -> None:
        """Wait for at most `max_wait_ms`."""
        if not self.done:
            self.expire_in(self._context.services.deadlines, max_wait_ms / 1000, self.expire)

    def share_partition_changed(self, led: LedSharePartition) -> None:
        """See `broker.share_partitions.led_partition.Waiter`."""
        if not self.done:
            self._context.timed_call(lambda: self._look_again(led))

    def has_enough(self) -> bool:
        """True if `min_bytes` of records, or an error, can be sent now. Counts all share-partitions."""
        self._sizes = {led: self._reader.sendable_bytes(led, self._min_bytes) for led in self._reader.led}
        self._size = sum(self._sizes.values())
        return self._size >= self._min_bytes

    def _has_enough_after_change(self, led: LedSharePartition) -> bool:
        size = self._reader.sendable_bytes(led, self._min_bytes)
        self._size += size - self._sizes.get(led, 0)
        self._sizes[led] = size
        # Other members may have acquired records of the other share-partitions meanwhile.
        return self._size >= self._min_bytes and self.has_enough()

    def _look_again(self, led: LedSharePartition) -> None:
        reader = self._reader
        if self._min_bytes > 1:
            is_enough = self._has_enough_after_change(led)
        else:
            reader.acquire(led)
            is_enough = reader.must_repeat or reader.can_respond
        if is_enough:
            self.complete(None)
        else:
            led.watch(self)

    def expire(self) -> None:
        """Respond with what there is now."""
        self.complete(None)

    def stop_waiting(self) -> None:
        for led in self._watched:
            led.waiters.pop(self, None)
        if self._session.waiting is self:
            self._session.waiting = None
