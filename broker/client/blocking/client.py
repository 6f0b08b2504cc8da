"""The base class of the blocking clients: they open when they are constructed, and pass their calls to the loop."""

import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from broker.client.arguments.calls import read_arguments
from broker.client.blocking.loop import PROCESS_LOOP, HostedClient

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class BlockingClient(Generic[A]):
    """A client whose methods block. It may be used by several threads, and is closed by `close` or a `with` block."""

    def __init__(self, client: AbstractAsyncContextManager[A]) -> None:
        self._hosted = HostedClient(PROCESS_LOOP.get(), client)
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

        async def on_the_loop(client: object) -> T:
            return method(client, *given, **named)

        return self._hosted.run(on_the_loop)

    return call
