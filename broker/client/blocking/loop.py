"""One Trio loop on a thread of its own, for all blocking clients of a process.

The loop begins with the first client and ends with the process. A process that is forked gets a loop of its own: the
thread exists in the parent only, and clients that were opened there are of no use in the child.
"""

import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, Final, Generic, ParamSpec, TypeVar

import trio

from broker.client.errors import ClosedError

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")

# How long clients that are still open at the end of the process may take to close: a producer sends what it has.
_EXIT_TIMEOUT_S: Final = 10.0


class BackgroundLoop:
    """Runs Trio until `close`. Clients live in it as tasks."""

    def __init__(self) -> None:
        self._is_running = threading.Event()
        self._belongs_to_parent = False
        self._clients: dict[HostedClient[Any], None] = {}
        self._thread = threading.Thread(target=trio.run, args=(self._main,), name="kraft-client", daemon=True)
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
            self._token.run_sync_soon(lambda: function(*args, **kwargs))
        except trio.RunFinishedError:
            raise ClosedError("the process is ending") from None

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
        self._failure: BaseException | None = None
        self._block_error: BaseException | None = None
        self._in_flight: dict[_Call[Any], None] = {}
        self._closers: list[_Call[None]] = []
        self._opened = threading.Event()
        self._closed = threading.Event()
        self.ended = trio.Event()
        self.belongs_to_parent = False
        loop.check_thread()
        loop.call_soon(loop.add, self)
        try:
            self._opened.wait()
        except BaseException:  # interrupted: the caller cannot close it
            self.close_soon()
            raise
        if self._failure is not None:
            raise self._failure

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set() or not self._loop.is_usable

    def call_soon(self, method: Callable[[A], object]) -> None:
        """Has the loop call a method of the client that is not async. Raises ClosedError."""
        self._loop.call_soon(method, self._client)

    def run(self, method: Callable[..., Awaitable[T]], *args: object, **kwargs: object) -> T:
        """Calls an async method of the client and waits for its result.

        If the wait is interrupted, by KeyboardInterrupt for instance, the call is cancelled, and has ended before the
        exception leaves.
        """
        self._loop.check_thread()
        call = _Call(lambda: method(self._client, *args, **kwargs))
        try:
            self._loop.call_soon(self._start, call)
            call.serve()
        except BaseException:
            call.is_left = True
            with suppress(ClosedError):
                self._loop.call_soon(call.leave)
                call.serve()
            raise
        return call.result()

    def close(self, error: BaseException | None = None) -> None:
        """Closes the client as the end of its `async with` block does, or as an `error` in the block does.

        Raises what closing raised, unless there is an error already. In a child process the client stays the parent's.
        """
        if self.is_closed:
            return
        self._loop.check_thread()
        call = _Call(self.ended.wait)
        try:
            self._loop.call_soon(self._start_closing_for, call, error)
            call.serve()
        except BaseException:  # interrupted: the client is closed all the same
            call.is_left = True
            self.close_soon()
            with suppress(ClosedError):
                self._loop.call_soon(call.cancel)
            raise
        if self._failure is not None:
            raise self._failure

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
        except Exception as failure:  # noqa: BLE001 - the client's user is told
            if self._block_error is None:
                self._failure = failure

    def _cancel_calls(self) -> None:
        """Cancels the calls that are under way. Callbacks run on the thread that closes, and may still call."""
        for call in list(self._in_flight):
            call.cancel()
        if self._closers:
            _CURRENT_CALL.set(self._closers[0])

    def _start_closing_for(self, call: "_Call[None]", error: BaseException | None) -> None:
        if self.ended.is_set():
            call.end()
            return
        self._closers.append(call)
        if not self._closing.is_set():
            self._block_error = error
            self._closing.set()

    def _start(self, call: "_Call[T]") -> None:
        call.is_begun = True
        is_of_closer = any(call.thread_id == closer.thread_id for closer in self._closers)
        if self._calls is None or (self._closing.is_set() and not is_of_closer):
            call.refuse(self._failure)
        else:
            self._calls.start_soon(self._carry_out, call)

    async def _carry_out(self, call: "_Call[Any]") -> None:
        self._in_flight[call] = None
        try:
            await call.run()
        finally:
            del self._in_flight[call]


class _BlockFailed(Exception):
    """Represents on the loop the exception that left the `with` block of a client."""


class _Call(Generic[T]):
    """One call: run by the loop, waited for by a thread, which serves what the call wants done on its own thread."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self.thread_id = threading.get_ident()
        self.is_left = False
        self.is_begun = False
        self._has_ended = False
        self._function = function
        self._scope = trio.CancelScope()
        self._value: T | None = None
        self._error: BaseException | None = ClosedError("the client was closed during the call")
        # Jobs for the thread; None when the call has ended.
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()

    async def run(self) -> None:
        _CURRENT_CALL.set(self)
        try:
            with self._scope:
                self._value = await self._function()
                self._error = None
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - raised in the thread that waits
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

    def result(self) -> T:
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


_CURRENT_CALL: Final[ContextVar[_Call[Any]]] = ContextVar("_CURRENT_CALL")


async def do_in_calling_thread(function: Callable[[], object]) -> None:
    """Runs a function on the thread whose blocking call the current task carries out. Raises what it raises.

    Where no thread waits, as for a client that closes at the end of the process, it gets a thread of its own.
    """
    call = _CURRENT_CALL.get(None)
    if call is None:
        await trio.to_thread.run_sync(function)
    else:
        await call.do_in_thread(function)


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
