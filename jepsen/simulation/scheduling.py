"""Makes Trio run tasks in an order that depends only on the seed.

Only this module, `event_loop` and `fast_paths` use Trio's internals. The private names may change with any release of
Trio. Its version is pinned, and the determinism test detects changes.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, Final, NoReturn, TypeVar

import outcome
import trio
from trio._core import _run, _thread_cache
from trio._core._run import GLOBAL_RUN_CONTEXT, Task

from jepsen.collection import no_collection
from jepsen.simulation.event_loop import EventLoop, serial_of
from jepsen.simulation.fast_paths import fast_paths

T = TypeVar("T")

_private: Any = _run

# Held by the thread that runs a simulation. A simulation replaces functions of the whole process and puts the previous
# ones back at its end, so a second one at the same time would lose the replacements, or keep them after its own end.
SIMULATION_LOCK: Final = RLock()


class ThreadStarted(RuntimeError):
    """The code under simulation started a thread. The order of threads is not deterministic, and they take no virtual
    time.
    """


class Livelock(RuntimeError):
    """Tasks keep running while virtual time stands still. In real time they would busy-wait until the clock
    advances.
    """


class Killed(BaseException):
    """Raised in a task that has to end at once, whatever scopes shield it.

    Not an Exception, so that the task does not handle it as one of its own.
    """


def kill_tasks(is_doomed: Callable[[Task], bool], error: Killed) -> None:
    """Raise an error in tasks where they wait, or would run next. Their scopes cannot shield them from it."""

    def raise_error() -> NoReturn:
        raise error

    for task in sorted(filter(is_doomed, GLOBAL_RUN_CONTEXT.runner.tasks), key=serial_of):
        doomed: Any = task
        if doomed._abort_func is not None:
            doomed._attempt_abort(raise_error)
        elif doomed._next_send_fn is not None:
            doomed._next_send_fn, doomed._next_send = task.coro.send, outcome.Error(error)


def run_deterministically(
    main: Callable[[EventLoop], Awaitable[T]], *, seed: str, clock: trio.abc.Clock, threads_run_inline: bool = False
) -> T:
    """`trio.run(main)` with an order of tasks determined by `seed`, without threads and without garbage collection.

    With `threads_run_inline`, functions for Trio's threads run at once, in the calling task; without it, the call
    raises ThreadStarted. The garbage collector would run finalizers at arbitrary times. Raises what `main` raises.
    """
    loop = EventLoop(seed)
    with _event_loop(loop), fast_paths(), _no_threads(run_inline=threads_run_inline), no_collection():
        return trio.run(main, loop, clock=clock, strict_exception_groups=True)


@contextmanager
def _event_loop(loop: EventLoop) -> Iterator[None]:
    """Let this thread's calls of `trio.run` use `loop`, and let its tasks run on where they need not yield.

    Blocking clients have loops on threads of their own, which are Trio's.
    """
    thread, run, yield_to_others = get_ident(), _private.unrolled_run, _private.cancel_shielded_checkpoint

    def run_in_rounds(*args: Any, **kwargs: Any) -> Any:
        return (loop.run if get_ident() == thread else run)(*args, **kwargs)

    async def checkpoint() -> None:
        if get_ident() != thread or not loop.may_run_on():
            await yield_to_others()

    _private.unrolled_run = run_in_rounds
    _private.cancel_shielded_checkpoint = trio.lowlevel.cancel_shielded_checkpoint = checkpoint
    try:
        yield
    finally:
        _private.unrolled_run = run
        _private.cancel_shielded_checkpoint = trio.lowlevel.cancel_shielded_checkpoint = yield_to_others


@contextmanager
def _no_threads(*, run_inline: bool) -> Iterator[None]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise ThreadStarted("a thread was asked for within the simulation")

    def run(
        cache: object,
        function: Callable[[], T],
        deliver: Callable[[outcome.Outcome[T]], object],
        name: str | None = None,
    ) -> None:
        deliver(outcome.capture(function))

    cache: Any = _thread_cache.ThreadCache
    before = cache.start_thread_soon
    inside = run if run_inline else refuse
    thread = get_ident()

    def start(*args: Any, **kwargs: Any) -> None:
        (inside if get_ident() == thread else before)(*args, **kwargs)

    cache.start_thread_soon = start
    try:
        yield
    finally:
        cache.start_thread_soon = before
