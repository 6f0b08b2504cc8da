"""A produce request that has appended, and waits until that is committed, or flushed, before it is answered."""

from collections.abc import Callable
from typing import Protocol

import trio

from broker.net.connection import Connection
from broker.net.deadlines import Deadline, Deadlines
from broker.net.reply import Part, Pending
from broker.replication.acknowledgements import Acknowledgements
from broker.wire.errors import ErrorCode


class Answering(Protocol):
    """Makes the reply of errors by the index of what waits; what is not among them went well."""

    def __call__(self, errors: dict[int, ErrorCode]) -> bytes | list[Part]: ...


class ParkedProduce(Pending):
    """Complete when all of its partitions have settled, or when its time is over: those that have not then fail."""

    __slots__ = ("_answer", "_deadline", "_errors", "_open")

    def __init__(self, connection: Connection, answer: Answering) -> None:
        super().__init__(connection)
        self._answer = answer
        self._deadline: Deadline | None = None
        self._errors: dict[int, ErrorCode] = {}
        self._open: dict[_Wait, None] = {}

    def wait(self, deadlines: Deadlines, timeout_ms: int, waits: "list[tuple[Acknowledgements, int]]") -> None:
        """Wait at each of these for an offset, for `timeout_ms` at most."""
        self.on_abandon = self._stop_waiting
        self._deadline = deadlines.add(trio.current_time() + timeout_ms / 1000, self._expire)
        for index, (acknowledgements, end_offset) in enumerate(waits):
            wait = _Wait(self.settled, acknowledgements, index)
            self._open[wait] = None
            acknowledgements.add(wait, end_offset)

    def settled(self, wait: "_Wait", code: ErrorCode) -> None:
        """One of the partitions is as far as it was waited for, or will never be."""
        del self._open[wait]
        if code is not ErrorCode.NONE:
            self._errors[wait.index] = code
        if not self._open:
            self._finish()

    def _expire(self) -> None:
        for wait in self._open:
            self._errors[wait.index] = ErrorCode.REQUEST_TIMED_OUT
        self._finish()

    def _finish(self) -> None:
        self._stop_waiting()
        if not self.done:
            self.complete(self._answer(self._errors))

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
