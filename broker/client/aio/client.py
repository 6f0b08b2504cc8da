"""The base class of the clients for asyncio: they open with an `async with` block, and pass their calls to the loop."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from broker.client.aio.calls import TaskCall
from broker.client.aio.mailbox import Mailbox
from broker.client.arguments.calls import read_arguments
from broker.client.errors import ClosedError
from broker.client.hosted.client import HostedClient, call_on_loop
from broker.client.hosted.loop import PROCESS_LOOP, BackgroundLoop

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class AsyncioHost(HostedClient[A]):
    """A client on the background loop whose calls are awaited by the tasks of one asyncio loop."""

    def __init__(
        self, loop: BackgroundLoop, manager: AbstractAsyncContextManager[A], asyncio_loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(loop, manager)
        self.mailbox = Mailbox(asyncio_loop)

    async def open(self) -> None:
        call = TaskCall(self.ended.wait, self.mailbox)
        try:
            self._loop.call_soon(self._open_for, call)
            await self._wait_for(call)
        except BaseException:  # cancelled: there is no block that would close it
            self.close_soon()
            raise
        self._check_opened()

    async def run(self, method: Callable[..., Awaitable[T]], *args: object, **kwargs: object) -> T:
        """Calls an async method of the client and waits for its result.

        If the wait is cancelled, the call is cancelled, and has ended before the task goes on.
        """
        self.check_loop()
        call = TaskCall(lambda: method(self._client, *args, **kwargs), self.mailbox)
        try:
            self._loop.call_soon(self._start, call)
            await self._wait_for(call)
        except BaseException:
            call.is_left = True
            with suppress(ClosedError):
                self._loop.call_soon(call.leave)
                with self._loop.serves(call):
                    await call.serve_no_more()
            raise
        return call.result(self._failure)

    async def close(self, error: BaseException | None = None) -> None:
        """Closes the client as the end of its `async with` block under Trio does, or as an `error` in the block does.

        Raises what closing raised, or why the client has failed before, once; RuntimeError in a callback. In a child
        process the client stays the parent's.
        """
        if self.is_closed:
            self._raise_failure()
            return
        self.check_loop()
        call = TaskCall(self.ended.wait, self.mailbox)
        self._check_is_no_callback(call)
        try:
            self._loop.call_soon(self._start_closing_for, call, error)
            await self._wait_for(call)
        except BaseException:  # cancelled: the client is closed all the same
            call.is_left = True
            self.close_soon()
            with suppress(ClosedError):
                self._loop.call_soon(call.cancel)
            raise
        self._raise_failure()

    def check_loop(self) -> None:
        """Raises RuntimeError for a task of another loop: this one would not wake it."""
        if asyncio.get_running_loop() is not self.mailbox.loop:
            raise RuntimeError("the client was opened on another asyncio loop; open one on this loop")

    async def _wait_for(self, call: TaskCall[Any]) -> None:
        with self._loop.serves(call):
            await call.serve()


class AsyncioClient(Generic[A]):
    """A client whose methods are awaited by the tasks of one asyncio loop."""

    def __init__(self, client: AbstractAsyncContextManager[A]) -> None:
        self._client = client
        self._opened: AsyncioHost[A] | None = None

    async def __aenter__(self) -> Self:
        if self._opened is not None:
            raise RuntimeError("a client is opened once; make another one")
        self._opened = AsyncioHost(PROCESS_LOOP.get(), self._client, asyncio.get_running_loop())
        weakref.finalize(self, self._opened.close_soon).atexit = False  # the loop closes what is open at exit
        await self._opened.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client. Calls that other tasks wait for raise ClosedError."""
        await self._hosted.close()

    @property
    def _hosted(self) -> AsyncioHost[A]:
        if self._opened is None:
            raise ClosedError("use the client within `async with`")
        return self._opened


def awaited(
    method: Callable[Concatenate[Any, P], Awaitable[T]],
) -> Callable[Concatenate[AsyncioClient[Any], P], Coroutine[Any, Any, T]]:
    """The form for asyncio of an async method, with the same parameters."""

    @wraps(method)
    async def call(self: AsyncioClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        given, named = read_arguments(method, args, kwargs)
        return await self._hosted.run(method, *given, **named)

    return call


def awaited_on_loop(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[AsyncioClient[Any], P], Coroutine[Any, Any, T]]:
    """The form for asyncio of a method that is not async, but may only be called on the background loop."""

    @wraps(method)
    async def call(self: AsyncioClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        given, named = read_arguments(method, args, kwargs)
        return await self._hosted.run(lambda client: call_on_loop(client, method, given, named))

    return call
