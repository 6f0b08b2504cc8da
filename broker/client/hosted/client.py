"""A client on the background loop: opened, called and closed from outside of Trio."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeVar

import trio

from broker.client.errors import ClientFailed, ClosedError
from broker.client.hosted.calls import CURRENT_CALL, Call
from broker.client.hosted.loop import BackgroundLoop

T = TypeVar("T")
A = TypeVar("A")


class HostedClient(Generic[A]):
    """A client that is open on the loop. Its calls run in its own nursery: none outlives it.

    Each face has a subclass, which waits for calls as its users do.
    """

    def __init__(self, loop: BackgroundLoop, manager: AbstractAsyncContextManager[A]) -> None:
        self._loop = loop
        self._manager = manager
        self._calls: trio.Nursery | None = None
        self._closing = trio.Event()
        self._failure: Exception | None = None
        self._untold: Exception | None = None  # until `close` has raised it
        self._block_error: BaseException | None = None
        self._in_flight: dict[Call[Any], None] = {}
        self._openers: list[Call[None]] = []
        self._closers: list[Call[None]] = []
        self._closed = threading.Event()
        self._was_opened = False
        self.ended = trio.Event()
        self.belongs_to_parent = False

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set() or not self._loop.is_usable

    def closed_error(self, message: str) -> ClosedError:
        """The error of a call on a closed client. If the client failed, that is its cause."""
        error = ClosedError(message)
        error.__cause__ = self._failure
        return error

    def call_soon(self, method: Callable[[A], object]) -> None:
        """Has the loop call a method of the client that is not async. Raises ClosedError."""
        self._loop.call_soon(method, self._client)

    def _check_is_no_callback(self, closer: Call[Any]) -> None:
        """Raises RuntimeError in a callback of a call of the same caller: to close the client would wait for itself."""
        if any(call.is_in_callback and call.caller == closer.caller for call in [*self._in_flight, *self._closers]):
            raise RuntimeError(
                "a callback cannot close its client: close it after the call that waits for the callback"
            )

    def _check_opened(self) -> None:
        """Raises why the client was not opened."""
        if not self._was_opened:
            raise self._failure or ClosedError("the background loop of the clients has ended")

    def _raise_failure(self) -> None:
        failure, self._untold = self._untold, None
        if failure is not None:
            raise failure

    def close_soon(self) -> None:
        """Closes a client that was dropped. The thread that collects garbage may be the loop's."""
        with suppress(ClosedError):
            self._loop.call_soon(self.start_closing)

    def start_closing(self) -> None:
        self._closing.set()

    async def live(self) -> None:
        try:
            async with trio.open_nursery() as self._calls:
                await self._host()
                self._calls.cancel_scope.cancel()
        except Exception as failure:  # noqa: BLE001 - of this client alone
            self._failed(failure)
        finally:
            self._calls = None
            self._loop.remove(self)
            self._closed.set()
            self.ended.set()
            for call in (*self._openers, *self._closers):
                call.end()

    async def _host(self) -> None:
        """Opens the client, and closes it when `start_closing` was called."""
        try:
            async with self._manager as self._client:
                self._end_openers()
                await self._closing.wait()
                self._cancel_calls()
                if self._block_error is not None:
                    raise _BlockFailed from self._block_error
        except _BlockFailed:
            pass
        except Exception as failure:  # noqa: BLE001 - the client's user is told
            if self._block_error is None or isinstance(failure, ClientFailed):
                self._failed(failure)

    def _end_openers(self) -> None:
        self._was_opened = True
        openers, self._openers = self._openers, []
        for call in openers:
            call.end()

    def _failed(self, failure: Exception) -> None:
        self._failure = self._untold = failure

    def _cancel_calls(self) -> None:
        """Cancels the calls that are under way. Callbacks are those of the caller that closes, and may still call."""
        for call in list(self._in_flight):
            call.cancel()
        if self._closers:
            CURRENT_CALL.set(self._closers[0])

    def _open_for(self, call: Call[None]) -> None:
        self._openers.append(call)
        self._loop.add(self)

    def _start_closing_for(self, call: Call[None], error: BaseException | None) -> None:
        if self.ended.is_set():
            call.end()
            return
        self._closers.append(call)
        if not self._closing.is_set():
            self._block_error = error
            self._closing.set()

    def _start(self, call: Call[T]) -> None:
        call.is_begun = True
        is_of_closer = any(call.caller == closer.caller for closer in self._closers)
        if self._calls is None or (self._closing.is_set() and not is_of_closer):
            call.refuse(self._failure)
        else:
            try:
                self._calls.start_soon(self._carry_out, call)
            except RuntimeError:  # the nursery has just ended, because the client failed
                call.refuse(self._failure)

    async def _carry_out(self, call: Call[Any]) -> None:
        self._in_flight[call] = None
        try:
            await call.run()
        finally:
            del self._in_flight[call]


class _BlockFailed(Exception):
    """Represents on the loop the exception that left the `with` block of a client."""


async def call_on_loop(client: object, method: Callable[..., T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> T:
    """Call a method of the client that is not async, as `run` calls the others."""
    return method(client, *args, **kwargs)
