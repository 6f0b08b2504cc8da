"""Makes Trio run tasks in an order that depends only on the seed. The only module that uses Trio's internals.

The private names may change with any release of Trio. Its version is pinned, and the determinism test detects changes.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableSequence
from contextlib import contextmanager
from random import Random
from threading import get_ident
from typing import Any, NoReturn, TypeVar

import outcome
import trio
from trio._core import _run, _thread_cache
from trio._core._run import GLOBAL_RUN_CONTEXT, Task

from jepsen.collection import no_collection

T = TypeVar("T")

_private: Any = _run
_TheIOManager: Any = _private.TheIOManager

# A simulation runs a few dozen steps at one instant, seldom thousands. A livelock is detected after twice this number
# of steps at most.
STEPS_AT_ONCE_MAX = 30_000


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


class WithholdingQueue(deque[Task]):
    """Trio's queue of runnable tasks, which withholds tasks while it watches: those for which `is_withheld` is true.

    `note_batch` is called with the tasks of every batch before the batch runs, and before Trio shuffles it by the seed.
    `on_livelock` is called with a task after STEPS_AT_ONCE_MAX steps during which `now` has not changed.
    """

    def __init__(
        self,
        tasks: deque[Task],
        is_withheld: Callable[[Task], bool],
        now: Callable[[], float],
        note_batch: Callable[[list[Task]], None],
        on_livelock: Callable[[Task], None],
    ) -> None:
        super().__init__(tasks)
        self._is_withheld = is_withheld
        self._withheld: list[Task] = []
        self._now = now
        self._note_batch = note_batch
        self._on_livelock = on_livelock
        self._steps = 0
        self._is_watching = False
        self._time_before = -1.0
        self._queue = super().append

    def watch(self, *, is_watching: bool) -> None:
        """Check each task that becomes runnable, and those that are withheld, or let all of them run.

        Checking every task costs time, and tasks are rarely withheld: usually `append` is the deque's own method.
        """
        self._is_watching = is_watching
        if is_watching:
            self.append = self._append_or_withhold  # type: ignore[method-assign]
        elif "append" in self.__dict__:
            del self.append
        tasks, self._withheld = self._withheld, []
        for task in tasks:
            self.append(task)

    def _append_or_withhold(self, task: Task) -> None:
        if self._is_withheld(task):
            self._withheld.append(task)
        else:
            self._queue(task)

    def clear(self) -> None:
        """Note the batch of tasks that Trio is about to run; Trio calls this method at that time.

        The order of the tasks is arbitrary, because Trio wakes the members of sets. Trio sorts them before it shuffles
        them.
        """
        tasks = list(self)
        super().clear()
        if len(tasks) > 1:
            tasks.sort(key=_serial)
        self._note_batch(tasks)
        self._steps += len(tasks)
        if self._steps >= STEPS_AT_ONCE_MAX:
            self._check_progress(tasks[0])

    def may_run_on(self) -> bool:
        """True if the last task of a batch may run on where it yields, because no task has become runnable meanwhile.

        Running on counts as a step, so that a task that does nothing else is detected as a livelock.
        """
        self._steps += 1
        return not self and not self._is_watching and self._steps < STEPS_AT_ONCE_MAX

    def _check_progress(self, task: Task) -> None:
        time_before, self._time_before, self._steps = self._time_before, self._now(), 0
        if self._time_before == time_before:
            self._on_livelock(task)


def _serial(task: Task) -> int:
    return task._counter


class QuietIOManager(_TheIOManager):  # type: ignore[misc]
    """Trio's I/O manager without needless system calls: it polls the kernel only after a call from outside, such as
    Ctrl-C.

    A simulation has no other events of the kernel, and a system call in each round costs time.
    """

    def get_events(self, timeout: float) -> Any:
        return super().get_events(timeout) if _is_called_from_outside() else []


def is_runnable() -> bool:
    """True if a task is runnable, or a call from outside is queued."""
    return bool(GLOBAL_RUN_CONTEXT.runner.runq) or _is_called_from_outside()


def _is_called_from_outside() -> bool:
    entries = GLOBAL_RUN_CONTEXT.runner.entry_queue
    return bool(entries.queue or entries.idempotent_queue)


def kill_tasks(is_doomed: Callable[[Task], bool], error: Killed) -> None:
    """Raise an error in tasks where they wait, or would run next. Their scopes cannot shield them from it."""

    def raise_error() -> NoReturn:
        raise error

    for task in sorted(filter(is_doomed, GLOBAL_RUN_CONTEXT.runner.tasks), key=_serial):
        doomed: Any = task
        if doomed._abort_func is not None:
            doomed._attempt_abort(raise_error)
        elif doomed._next_send_fn is not None:
            doomed._next_send_fn, doomed._next_send = task.coro.send, outcome.Error(error)


def withhold_tasks(
    is_withheld: Callable[[Task], bool],
    now: Callable[[], float],
    note_batch: Callable[[list[Task]], None],
    on_livelock: Callable[[Task], None],
) -> WithholdingQueue:
    """Replace the running Trio's task queue by one that can withhold tasks."""
    runner: Any = GLOBAL_RUN_CONTEXT.runner
    queue = WithholdingQueue(runner.runq, is_withheld, now, note_batch, on_livelock)
    runner.runq = queue
    runner.instruments = {}  # Trio's own collection answers several times in each step, in Python, that it is empty
    return queue


def run_deterministically(
    main: Callable[[], Awaitable[T]], *, seed: str, clock: trio.abc.Clock, threads_run_inline: bool = False
) -> T:
    """`trio.run(main)` with an order of tasks determined by `seed`, without threads and without garbage collection.

    With `threads_run_inline`, functions for Trio's threads run at once, in the calling task; without it, the call
    raises ThreadStarted. The garbage collector would run finalizers at arbitrary times. Raises what `main` raises.
    """
    threads = _no_threads(run_inline=threads_run_inline)
    with _deterministic_order(seed) as order, _no_needless_rounds(order), threads, no_collection(), _no_polling():
        return trio.run(main, clock=clock, strict_exception_groups=True)


class _BatchRandom:
    """Stands for Trio's random generator, and shuffles the batches of this thread's loop by the seed.

    All loops of a process share Trio's generator. Those of other threads, as blocking clients have one, take their
    numbers from `others`, so that the order of the simulation's tasks does not depend on them.
    """

    def __init__(self, seed: str, others: Random) -> None:
        # A str is seeded by its SHA-512, which does not depend on PYTHONHASHSEED.
        self.batch: MutableSequence[Any] = []  # Trio takes out each task that it runs
        self._shuffle = Random(seed).shuffle
        self._thread = get_ident()
        self._others = others

    def shuffle(self, batch: MutableSequence[Any]) -> None:
        if get_ident() != self._thread:
            self._others.shuffle(batch)
            return
        self.batch = batch
        if len(batch) > 1:  # most batches have one task
            self._shuffle(batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others, name)


@contextmanager
def _deterministic_order(seed: str) -> Iterator[_BatchRandom]:
    before = _private._ALLOW_DETERMINISTIC_SCHEDULING, _private._r
    _private._r = order = _BatchRandom(seed, _private._r)
    _private._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        yield order
    finally:
        _private._ALLOW_DETERMINISTIC_SCHEDULING, _private._r = before


@contextmanager
def _no_needless_rounds(order: _BatchRandom) -> Iterator[None]:
    """Let a task that yields run on if Trio would run it next, alone, at the same time.

    All other tasks wait then, and the clock does not move, so a round of Trio's loop would only cost time. Every
    segment that is sent and every free lock that is taken yields.
    """
    yield_to_others = _private.cancel_shielded_checkpoint

    async def checkpoint() -> None:
        queue = GLOBAL_RUN_CONTEXT.runner.runq
        if order.batch or type(queue) is not WithholdingQueue or not queue.may_run_on():
            await yield_to_others()

    _private.cancel_shielded_checkpoint = trio.lowlevel.cancel_shielded_checkpoint = checkpoint
    try:
        yield
    finally:
        _private.cancel_shielded_checkpoint = trio.lowlevel.cancel_shielded_checkpoint = yield_to_others


@contextmanager
def _no_polling() -> Iterator[None]:
    thread = get_ident()

    def manager() -> Any:
        return QuietIOManager() if get_ident() == thread else _TheIOManager()

    _private.TheIOManager = manager
    try:
        yield
    finally:
        _private.TheIOManager = _TheIOManager


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
