"""Calls of asyncio tasks, and functions that the background loop has the waiting tasks run."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import trio

from broker.client.aio.mailbox import Mailbox
from broker.client.errors import ClosedError
from broker.client.hosted.calls import CURRENT_CALL, Call

T = TypeVar("T")


class TaskCall(Call[T]):
    """A call that an asyncio task waits for. The task serves what the call wants done by it."""

    def __init__(self, function: Callable[[], Awaitable[T]], mailbox: Mailbox) -> None:
        super().__init__(function, asyncio.current_task())
        self._mailbox = mailbox
        # Jobs for the task; None when the call has ended.
        self._jobs: asyncio.Queue[_Job | None] = asyncio.Queue()

    def wake_caller(self) -> None:
        self._mailbox.post(self._jobs.put_nowait, None)

    async def do_in_task(self, function: Callable[[], Awaitable[object]]) -> None:
        """Runs an async function in the task that waits for this call. Raises what the function raises."""
        job = _Job(function, trio.lowlevel.current_trio_token())
        if self.is_left or not self._mailbox.post(self._jobs.put_nowait, job):
            raise job.refusal()
        await job.done.wait()
        if job.error is not None:
            raise job.error

    async def serve(self) -> None:
        """Waits until the call has ended, and does its jobs meanwhile."""
        while (job := await self._jobs.get()) is not None:
            self.is_in_callback = True
            try:
                await job.run()
            finally:
                self.is_in_callback = False

    async def serve_no_more(self) -> None:
        """Waits until the call has ended, which was cancelled; a further cancellation of the task changes nothing."""
        while True:
            with suppress(asyncio.CancelledError):
                job = await self._jobs.get()
                if job is None:
                    return
                job.refuse()


class _Job:
    """A function that a call on the background loop wants run by the task that waits for the call."""

    def __init__(self, function: Callable[[], Awaitable[object]], token: trio.lowlevel.TrioToken) -> None:
        self.done = trio.Event()
        self.error: Exception | None = None
        self._function = function
        self._token = token

    async def run(self) -> None:
        try:
            await self._function()
        except Exception as error:  # noqa: BLE001 - raised by the call
            self.error = error
        except BaseException:
            self.error = self.refusal()
            raise
        finally:
            self._end()

    def refuse(self) -> None:
        self.error = self.refusal()
        self._end()

    def refusal(self) -> ClosedError:
        return ClosedError("the task was cancelled")

    def _end(self) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.done.set)


async def do_in_calling_task(function: Callable[[], Awaitable[Any]]) -> None:
    """Runs an async function in the asyncio task whose call the current Trio task carries out. Raises what it raises.

    Where no task waits, as for a client that closes at the end of the process, it gets an asyncio loop of its own.
    """
    call = CURRENT_CALL.get(None)
    if isinstance(call, TaskCall):
        await call.do_in_task(function)
    else:
        await trio.to_thread.run_sync(asyncio.run, _as_coroutine(function))


async def _as_coroutine(function: Callable[[], Awaitable[Any]]) -> None:
    await function()
