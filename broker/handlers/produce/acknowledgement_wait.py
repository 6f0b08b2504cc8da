"""Waits until the records of a produce request are committed or flushed."""

from collections.abc import Mapping
from typing import Final

from broker.net.completion import RequestWait
from broker.net.deadlines import Deadlines
from broker.replication.waiters import Acknowledgements
from broker.wire.errors import ErrorCode

_NONE: Final = ErrorCode.NONE


class PartitionWait(RequestWait[ErrorCode]):
    """The wait for one partition. Completes with NONE when all records below `end_offset` are committed or flushed."""

    __slots__ = ("_acknowledgements",)

    def __init__(self, acknowledgements: Acknowledgements, end_offset: int) -> None:
        super().__init__()
        self._acknowledgements = acknowledgements
        acknowledgements.add(self, end_offset)

    def expire(self) -> None:
        """Fail with REQUEST_TIMED_OUT."""
        self.complete(ErrorCode.REQUEST_TIMED_OUT)

    def stop_waiting(self) -> None:
        self._acknowledgements.discard(self)


class AcknowledgementWait(RequestWait[Mapping[int, ErrorCode]]):
    """Completes with the errors of those partitions that failed, by number in the order in which they were added.

    Partitions are added one by one while the request is appended. The wait completes after `begin` at the earliest.
    """

    __slots__ = ("_left", "_waits")

    def __init__(self) -> None:
        super().__init__()
        self._waits: list[PartitionWait] = []
        self._left = 0

    def add(self, acknowledgements: Acknowledgements, end_offset: int) -> None:
        """Wait for `end_offset` of a further partition."""
        self._waits.append(PartitionWait(acknowledgements, end_offset))

    def begin(self, deadlines: Deadlines, timeout_ms: int) -> None:
        """Wait for the added partitions, for at most `timeout_ms`; the unacknowledged ones fail then."""
        self._left = len(self._waits)
        self.expire_in(deadlines, timeout_ms / 1000, self._expire)
        for wait in self._waits:
            wait.then(self._partition_completed)

    def stop_waiting(self) -> None:
        for wait in self._waits:
            wait.abandon()

    def _partition_completed(self, _: ErrorCode) -> None:
        self._left -= 1
        if not self._left:
            outcomes = enumerate(wait.outcome for wait in self._waits)
            self.complete({number: code for number, code in outcomes if code is not _NONE})

    def _expire(self) -> None:
        for wait in self._waits:
            wait.expire()
