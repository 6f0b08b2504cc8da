"""Calls of threads that the background loop carries out, and functions that it has the waiting threads run."""

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

import trio

from broker.client.errors import ClosedError

T = TypeVar("T")


class _Interrupted(Exception):
    """The error of a call that has not ended by itself."""


class Call(Generic[T]):
    """One call: run by the loop, waited for by a thread, which serves what the call wants done on its own thread."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self.thread_id = threading.get_ident()
        self.is_left = False
        self.is_begun = False
        self._has_ended = False
        self._function = function
        self._scope = trio.CancelScope()
        self._value: T | None = None
        self._error: BaseException | None = _Interrupted("the client was closed during the call")
        # Jobs for the thread; None when the call has ended.
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()

    async def run(self) -> None:
        CURRENT_CALL.set(self)
        try:
            with self._scope:
                self._value = await self._function()
                self._error = None
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._error = error
        finally:
            self.end()

    def end(self) -> None:
        """Ends the call: the waiting thread continues."""
        self._has_ended = True
        self._jobs.put(None)

    async def do_in_thread(self, function: Callable[[], object]) -> None:
        """Runs a function on the thread that waits for this call. Raises what the function raises."""
        job = _Job(function, trio.lowlevel.current_trio_token())
        if self.is_left:
            job.refuse()
        else:
            self._jobs.put(job)
        await job.done.wait()
        if job.error is not None:
            raise job.error

    def cancel(self) -> None:
        """Cancels the call. Jobs that the thread has not begun are refused: it was interrupted."""
        self._scope.cancel()
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is None:
                self.end()
                return
            job.refuse()

    def leave(self) -> None:
        """Cancels the call of a thread that was interrupted, and lets the thread go on when the call has ended.

        The interrupt may come before the loop has the call, or after the call has ended.
        """
        self.cancel()
        if not self.is_begun or self._has_ended:
            self.end()

    def refuse(self, failure: BaseException | None) -> None:
        """Ends the call without running it."""
        self._error = ClosedError("the client is closed; open a new one")
        self._error.__cause__ = failure
        self.end()

    def serve(self) -> None:
        """Waits until the call has ended, and does its jobs meanwhile."""
        while (job := self._jobs.get()) is not None:
            job.run()

    def result(self, failure: Exception | None) -> T:
        """The result. `failure` is that of the client, which ends its calls."""
        if isinstance(self._error, _Interrupted):
            raise ClosedError(*self._error.args) from failure
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # it is that of the function


class _Job:
    """A function that a call on the loop wants run on the thread that waits for the call."""

    def __init__(self, function: Callable[[], object], token: trio.lowlevel.TrioToken) -> None:
        self.done = trio.Event()
        self.error: Exception | None = None
        self._function = function
        self._token = token

    def run(self) -> None:
        try:
            self._function()
        except Exception as error:  # noqa: BLE001 - raised by the call
            self.error = error
        except BaseException:
            self.error = ClosedError("the thread was interrupted")
            raise
        finally:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self.done.set)

    def refuse(self) -> None:
        self.error = ClosedError("the thread was interrupted")
        self.done.set()


CURRENT_CALL: Final[ContextVar[Call[Any]]] = ContextVar("CURRENT_CALL")


async def do_in_calling_thread(function: Callable[[], object]) -> None:
    """Runs a function on the thread whose blocking call the current task carries out. Raises what it raises.

    Where no thread waits, as for a client that closes at the end of the process, it gets a thread of its own.
    """
    call = CURRENT_CALL.get(None)
    if call is None:
        await trio.to_thread.run_sync(function)
    else:
        await call.do_in_thread(function)
