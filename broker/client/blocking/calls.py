"""Calls of threads, and functions that the background loop has the waiting threads run."""

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

import trio

from broker.client.errors import ClosedError
from broker.client.hosted.calls import CURRENT_CALL, Call

T = TypeVar("T")


class ThreadCall(Call[T]):
    """A call that a thread waits for. The thread serves what the call wants done on it."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        super().__init__(function, threading.get_ident())
        # Jobs for the thread; None when the call has ended.
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()

    def wake_caller(self) -> None:
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
        super().cancel()
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is None:
                self.end()
                return
            job.refuse()

    def serve(self) -> None:
        """Waits until the call has ended, and does its jobs meanwhile."""
        while (job := self._jobs.get()) is not None:
            self.is_in_callback = True
            try:
                job.run()
            finally:
                self.is_in_callback = False


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


async def do_in_calling_thread(function: Callable[[], object]) -> None:
    """Runs a function on the thread whose blocking call the current task carries out. Raises what it raises.

    Where no thread waits, as for a client that closes at the end of the process, it gets a thread of its own.
    """
    call = CURRENT_CALL.get(None)
    if isinstance(call, ThreadCall):
        await call.do_in_thread(function)
    else:
        await trio.to_thread.run_sync(function)
