"""Who waits for which offset of a partition to be reached."""

from collections import OrderedDict
from typing import Protocol

from broker.wire.errors import ErrorCode


class Awaiting(Protocol):
    """Somebody who waits for what was appended; told once, with NONE where all went well. It must not fail."""

    def settled(self, code: ErrorCode) -> None: ...


class Acknowledgements:
    """Those who wait, in the order in which they came, which is that of their offsets.

    Only a batch that is sent again, and found to be there, waits for a lower one. It is told with those before it.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: OrderedDict[Awaiting, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Awaiting, end_offset: int) -> None:
        """Tell `waiter` once everything below `end_offset` is reached."""
        self._waiting[waiter] = end_offset

    def discard(self, waiter: Awaiting) -> None:
        """It waits no more."""
        self._waiting.pop(waiter, None)

    def reach(self, end_offset: int, code: ErrorCode = ErrorCode.NONE) -> None:
        """Everything below `end_offset` is reached; `code` is what those are told who waited for it."""
        waiting = self._waiting
        while waiting:
            waiter, wanted = next(iter(waiting.items()))
            if wanted > end_offset:
                return
            del waiting[waiter]
            waiter.settled(code)

    def fail(self, code: ErrorCode) -> None:
        """What is waited for will not be reached here, or nobody could tell."""
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            waiter.settled(code)
