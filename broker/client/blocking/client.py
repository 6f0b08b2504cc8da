"""The base class of the blocking clients: they open when they are constructed, and pass their calls to the loop."""

import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from broker.client.arguments.calls import read_arguments
from broker.client.blocking.calls import ThreadCall
from broker.client.errors import ClosedError
from broker.client.hosted.client import HostedClient, call_on_loop
from broker.client.hosted.loop import PROCESS_LOOP, BackgroundLoop

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class BlockingHost(HostedClient[A]):
    """A client on the loop whose calls block. It is open from its construction on."""

    def __init__(self, loop: BackgroundLoop, manager: AbstractAsyncContextManager[A]) -> None:
        super().__init__(loop, manager)
        loop.check_thread()
        call = ThreadCall(self.ended.wait)
        try:
            loop.call_soon(self._open_for, call)
            self._wait_for(call)
        except BaseException:  # interrupted: the caller cannot close it
            self.close_soon()
            raise
        self._check_opened()

    def run(self, method: Callable[..., Awaitable[T]], *args: object, **kwargs: object) -> T:
        """Calls an async method of the client and waits for its result.

        If the wait is interrupted, by KeyboardInterrupt for instance, the call is cancelled, and has ended before the
        exception leaves.
        """
        self._loop.check_thread()
        call = ThreadCall(lambda: method(self._client, *args, **kwargs))
        try:
            self._loop.call_soon(self._start, call)
            self._wait_for(call)
        except BaseException:
            call.is_left = True
            with suppress(ClosedError):
                self._loop.call_soon(call.leave)
                self._wait_for(call)
            raise
        return call.result(self._failure)

    def close(self, error: BaseException | None = None) -> None:
        """Closes the client as the end of its `async with` block does, or as an `error` in the block does.

        Raises what closing raised, or why the client has failed before, once; RuntimeError in a callback. In a child
        process the client stays the parent's.
        """
        if self.is_closed:
            self._raise_failure()
            return
        self._loop.check_thread()
        call = ThreadCall(self.ended.wait)
        self._check_is_no_callback(call)
        try:
            self._loop.call_soon(self._start_closing_for, call, error)
            self._wait_for(call)
        except BaseException:  # interrupted: the client is closed all the same
            call.is_left = True
            self.close_soon()
            with suppress(ClosedError):
                self._loop.call_soon(call.cancel)
            raise
        self._raise_failure()

    def _wait_for(self, call: ThreadCall[Any]) -> None:
        with self._loop.serves(call):
            call.serve()


class BlockingClient(Generic[A]):
    """A client whose methods block. It may be used by several threads, and is closed by `close` or a `with` block."""

    def __init__(self, client: AbstractAsyncContextManager[A]) -> None:
        self._hosted = BlockingHost(PROCESS_LOOP.get(), client)
        weakref.finalize(self, self._hosted.close_soon).atexit = False  # the loop closes what is open at exit

    def close(self) -> None:
        """Closes the client. Calls that other threads wait for raise ClosedError."""
        self._hosted.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def blocking(method: Callable[Concatenate[Any, P], Awaitable[T]]) -> Callable[Concatenate[BlockingClient[Any], P], T]:
    """The blocking form of an async method, with the same parameters."""

    @wraps(method)
    def call(self: BlockingClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        given, named = read_arguments(method, args, kwargs)
        return self._hosted.run(method, *given, **named)

    return call


def on_loop(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[BlockingClient[Any], P], T]:
    """The form for threads of a method that is not async, but may only be called on the loop."""

    @wraps(method)
    def call(self: BlockingClient[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        given, named = read_arguments(method, args, kwargs)
        return self._hosted.run(lambda client: call_on_loop(client, method, given, named))

    return call
