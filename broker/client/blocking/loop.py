"""One Trio loop on a thread of its own, for all blocking clients of a process.

The loop begins with the first client and ends with the process. A process that is forked gets a loop of its own: the
thread exists in the parent only, and clients that were opened there are of no use in the child.
"""

import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Generic, ParamSpec, TypeVar

import trio

from broker.client.blocking.calls import CURRENT_CALL, Call
from broker.client.errors import ClientFailed, ClosedError

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

_log: Final = logging.getLogger(__name__)

# A thread that waits for a client to open looks this often whether the loop still runs.
_LOOK_AGAIN_S: Final = 1.0
# How long clients that are still open at the end of the process may take to close: a producer sends what it has.
_EXIT_TIMEOUT_S: Final = 10.0


class BackgroundLoop:
    """Runs Trio until `close`. Clients live in it as tasks."""

    def __init__(self) -> None:
        self._is_running = threading.Event()
        self._belongs_to_parent = False
        self.has_ended = False
        self._clients: dict[HostedClient[Any], None] = {}
        # The calls that threads wait for. Threads add to it and remove from it, each its own.
        self._calls: dict[Call[Any], None] = {}
        self._thread = threading.Thread(target=self._run, name="kraft-client", daemon=True)
        self._thread.start()
        self._is_running.wait()

    @property
    def is_usable(self) -> bool:
        """False in a child process, and after the end."""
        return not self._belongs_to_parent and self._thread.is_alive()

    def abandon(self) -> None:
        """Tells the loop and its clients that they belong to the parent of this process."""
        self._belongs_to_parent = True
        for client in self._clients:
            client.belongs_to_parent = True

    def call_soon(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Has the loop call a function. Any thread may call this, at any time. Raises ClosedError."""
        if self._belongs_to_parent:
            raise ClosedError("the client was opened before this process was forked; open a new one in this process")
        try:
            self._token.run_sync_soon(_contained, lambda: function(*args, **kwargs))
        except trio.RunFinishedError:
            raise ClosedError("the process is ending") from None

    def wait_for(self, call: "Call[Any]") -> None:
        """Waits until a call has ended. Should the loop itself end before it, the call is refused."""
        self._calls[call] = None
        try:
            if self.has_ended:
                call.refuse(None)
            call.serve()
        finally:
            self._calls.pop(call, None)

    def check_thread(self) -> None:
        """Raises RuntimeError on the loop's own thread, which must not wait for the loop."""
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                "a blocking call from a callback would wait for itself; use what the callback is given, or a thread"
            )

    def add(self, client: "HostedClient[Any]") -> None:
        self._clients[client] = None
        self._nursery.start_soon(client.live)

    def remove(self, client: "HostedClient[Any]") -> None:
        self._clients.pop(client, None)

    def close(self) -> None:
        """Closes the clients that are open, and ends the loop."""
        if self.is_usable:
            with suppress(ClosedError):
                self.call_soon(self._nursery.start_soon, self._end)
            self._thread.join(2 * _EXIT_TIMEOUT_S)

    def _run(self) -> None:
        try:
            trio.run(self._main)
        finally:
            self.has_ended = True
            self._is_running.set()
            for call in list(self._calls):
                call.refuse(None)

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._is_running.set()
            await trio.sleep_forever()

    async def _end(self) -> None:
        with trio.move_on_after(_EXIT_TIMEOUT_S):
            for client in list(self._clients):
                client.start_closing()
            for client in list(self._clients):
                await client.ended.wait()
        self._nursery.cancel_scope.cancel()


class HostedClient(Generic[A]):
    """A client that is open on the loop. Its calls run in its own nursery: none outlives it."""

    def __init__(self, loop: BackgroundLoop, manager: AbstractAsyncContextManager[A]) -> None:
        self._loop = loop
        self._manager = manager
        self._calls: trio.Nursery | None = None
        self._closing = trio.Event()
        self._failure: Exception | None = None
        self._untold: Exception | None = None  # until `close` has raised it
        self._block_error: BaseException | None = None
        self._in_flight: dict[Call[Any], None] = {}
        self._closers: list[Call[None]] = []
        self._opened = threading.Event()
        self._closed = threading.Event()
        self.ended = trio.Event()
        self.belongs_to_parent = False
        loop.check_thread()
        loop.call_soon(loop.add, self)
        try:
            while not self._opened.wait(_LOOK_AGAIN_S):
                if loop.has_ended:
                    raise ClosedError("the loop of the blocking clients has ended")
        except BaseException:  # interrupted: the caller cannot close it
            self.close_soon()
            raise
        if self._failure is not None:
            raise self._failure

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

    def run(self, method: Callable[..., Awaitable[T]], *args: object, **kwargs: object) -> T:
        """Calls an async method of the client and waits for its result.

        If the wait is interrupted, by KeyboardInterrupt for instance, the call is cancelled, and has ended before the
        exception leaves.
        """
        self._loop.check_thread()
        call = Call(lambda: method(self._client, *args, **kwargs))
        try:
            self._loop.call_soon(self._start, call)
            self._loop.wait_for(call)
        except BaseException:
            call.is_left = True
            with suppress(ClosedError):
                self._loop.call_soon(call.leave)
                self._loop.wait_for(call)
            raise
        return call.result(self._failure)

    def close(self, error: BaseException | None = None) -> None:
        """Closes the client as the end of its `async with` block does, or as an `error` in the block does.

        Raises what closing raised, or why the client has failed before, once. In a child process the client stays the
        parent's.
        """
        if self.is_closed:
            self._raise_failure()
            return
        self._loop.check_thread()
        call = Call(self.ended.wait)
        try:
            self._loop.call_soon(self._start_closing_for, call, error)
            self._loop.wait_for(call)
        except BaseException:  # interrupted: the client is closed all the same
            call.is_left = True
            self.close_soon()
            with suppress(ClosedError):
                self._loop.call_soon(call.cancel)
            raise
        self._raise_failure()

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
            self._opened.set()
            self._closed.set()
            self.ended.set()
            for call in self._closers:
                call.end()

    async def _host(self) -> None:
        """Opens the client, and closes it when `start_closing` was called."""
        try:
            async with self._manager as self._client:
                self._opened.set()
                await self._closing.wait()
                self._cancel_calls()
                if self._block_error is not None:
                    raise _BlockFailed from self._block_error
        except _BlockFailed:
            pass
        except Exception as failure:  # noqa: BLE001 - the client's user is told
            if self._block_error is None or isinstance(failure, ClientFailed):
                self._failed(failure)

    def _failed(self, failure: Exception) -> None:
        self._failure = self._untold = failure

    def _cancel_calls(self) -> None:
        """Cancels the calls that are under way. Callbacks run on the thread that closes, and may still call."""
        for call in list(self._in_flight):
            call.cancel()
        if self._closers:
            CURRENT_CALL.set(self._closers[0])

    def _start_closing_for(self, call: "Call[None]", error: BaseException | None) -> None:
        if self.ended.is_set():
            call.end()
            return
        self._closers.append(call)
        if not self._closing.is_set():
            self._block_error = error
            self._closing.set()

    def _start(self, call: "Call[T]") -> None:
        call.is_begun = True
        is_of_closer = any(call.thread_id == closer.thread_id for closer in self._closers)
        if self._calls is None or (self._closing.is_set() and not is_of_closer):
            call.refuse(self._failure)
        else:
            try:
                self._calls.start_soon(self._carry_out, call)
            except RuntimeError:  # the nursery has just ended, because the client failed
                call.refuse(self._failure)

    async def _carry_out(self, call: "Call[Any]") -> None:
        self._in_flight[call] = None
        try:
            await call.run()
        finally:
            del self._in_flight[call]


class _BlockFailed(Exception):
    """Represents on the loop the exception that left the `with` block of a client."""


def _contained(function: Callable[[], object]) -> None:
    """Calls a function for the loop, which an exception would end, with all clients of the process."""
    try:
        function()
    except Exception:  # noqa: BLE001 - it must not end the loop
        _log.exception("a call on the loop of the blocking clients failed")


class ProcessLoop:
    """The loop of this process, made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: BackgroundLoop | None = None
        # Loops of parent processes stay referenced: to finalize their tasks would run code on the parents' sockets.
        self._parent_loops: list[BackgroundLoop] = []
        self._is_registered = False
        # Hooks run in the order of their registration. One of a module that imports this one may drop clients: by then
        # these have to know that they belong to the parent, or they would take a lock that the parent's loop may hold.
        os.register_at_fork(after_in_child=self._after_fork)

    def get(self) -> BackgroundLoop:
        with self._lock:
            if self._loop is None or not self._loop.is_usable:
                self._loop = BackgroundLoop()
            if not self._is_registered:
                atexit.register(self._close)
                self._is_registered = True
            return self._loop

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it
        if self._loop is not None:
            self._loop.abandon()
            self._parent_loops.append(self._loop)
            self._loop = None

    def _close(self) -> None:
        if self._loop is not None:
            self._loop.close()


# The one thing that a process has of this kind; see the module's docstring.
PROCESS_LOOP: Final = ProcessLoop()
