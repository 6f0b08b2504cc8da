"""A produce request that has appended, and waits until that is committed, or flushed, before it is answered."""

from collections.abc import Callable
from typing import Protocol

import trio

from broker.net.connection import Connection
from broker.net.deadlines import Deadline, Deadlines
from broker.net.reply import Pending
from broker.replication.waiters import Acknowledgements
from broker.wire.errors import ErrorCode


class Answer(Protocol):
    """Completes a reply. `errors` maps the number of a wait to its error; absent waits succeeded."""

    def __call__(self, pending: Pending, errors: dict[int, ErrorCode]) -> None: ...


class ParkedProduce(Pending):
    """Complete when all of its partitions have settled, or when its time is over: those that have not then fail.

    Waits may be added one by one while the request is appended. It is answered after `wait` at the earliest.
    """

    __slots__ = ("_answer", "_deadline", "_errors", "_open", "_waits")

    def __init__(self, connection: Connection, answer: Answer) -> None:
        super().__init__(connection)
        self._answer = answer
        self._deadline: Deadline | None = None
        self._errors: dict[int, ErrorCode] = {}
        self._open: dict[_Wait, None] = {}
        self._waits = 0
        self.on_abandon = self._stop_waiting

    def add(self, acknowledgements: Acknowledgements, end_offset: int) -> None:
        """Wait here for an offset. The first wait has the number 0."""
        wait = _Wait(self.settled, acknowledgements, self._waits)
        self._waits += 1
        self._open[wait] = None
        acknowledgements.add(wait, end_offset)

    def wait(self, deadlines: Deadlines, timeout_ms: int) -> None:
        """Wait for what was added, for `timeout_ms` at most."""
        self._deadline = deadlines.add(trio.current_time() + timeout_ms / 1000, self._expire)
        if not self._open:
            self._finish()

    def settled(self, wait: "_Wait", code: ErrorCode) -> None:
        """One of the partitions is as far as it was waited for, or will never be."""
        del self._open[wait]
        if code is not ErrorCode.NONE:
            self._errors[wait.index] = code
        if not self._open and self._deadline is not None:
            self._finish()

    def _expire(self) -> None:
        for wait in self._open:
            self._errors[wait.index] = ErrorCode.REQUEST_TIMED_OUT
        self._finish()

    def _finish(self) -> None:
        self._stop_waiting()
        if not self.done:
            self._answer(self, self._errors)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for wait in self._open:
            wait.acknowledgements.discard(wait)


class _Wait:
    """One partition's share."""

    __slots__ = ("_settled", "acknowledgements", "index")

    def __init__(
        self, settled: "Callable[[_Wait, ErrorCode], None]", acknowledgements: Acknowledgements, index: int
    ) -> None:
        self._settled = settled
        self.acknowledgements = acknowledgements
        self.index = index

    def settled(self, code: ErrorCode) -> None:
        self._settled(self, code)
