"""One Trio loop on a thread of its own, for all clients of a process that are used from outside of Trio.

The loop begins with the first client and ends with the process. A process that is forked gets a loop of its own: the
thread exists in the parent only, and clients that were opened there are of no use in the child.
"""

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, ParamSpec, Protocol

import trio

from broker.client.errors import ClosedError
from broker.client.hosted.calls import Call

P = ParamSpec("P")

_log: Final = logging.getLogger(__name__)

# How long clients that are still open at the end of the process may take to close: a producer sends what it has.
_EXIT_TIMEOUT_S: Final = 10.0


class Resident(Protocol):
    """A client that lives on the loop."""

    ended: trio.Event
    belongs_to_parent: bool

    async def live(self) -> None:
        """Open the client, and close it after `start_closing`. Raises nothing."""
        ...

    def start_closing(self) -> None: ...


class BackgroundLoop:
    """Runs Trio until `close`. Clients live in it as tasks."""

    def __init__(self) -> None:
        self._is_running = threading.Event()
        self._belongs_to_parent = False
        self.has_ended = False
        self._clients: dict[Resident, None] = {}
        # The calls that are waited for. Each is added and removed by the thread that waits.
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

    @contextmanager
    def serves(self, call: Call[Any]) -> Iterator[None]:
        """A block that waits for a call. Should the loop itself end before it, the call is refused."""
        self._calls[call] = None
        try:
            if self.has_ended:
                call.refuse(None)
            yield
        finally:
            self._calls.pop(call, None)

    def check_thread(self) -> None:
        """Raises RuntimeError on the loop's own thread, which must not wait for the loop."""
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                "a blocking call from a callback would wait for itself; use what the callback is given, or a thread"
            )

    def add(self, client: Resident) -> None:
        self._clients[client] = None
        self._nursery.start_soon(client.live)

    def remove(self, client: Resident) -> None:
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


def _contained(function: Callable[[], object]) -> None:
    """Calls a function for the loop, which an exception would end, with all clients of the process."""
    try:
        function()
    except Exception:  # noqa: BLE001 - it must not end the loop
        _log.exception("a call on the background loop of the clients failed")


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
