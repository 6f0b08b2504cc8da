"""Makes Trio run tasks in an order that depends only on the seed. The only module that uses Trio's internals.

The private names may change with any release of Trio. Its version is pinned, and the determinism test detects changes.
"""

import gc
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import trio
from trio._core import _run, _thread_cache
from trio._core._run import GLOBAL_RUN_CONTEXT, Task

T = TypeVar("T")

_private: Any = _run
_TheIOManager: Any = _private.TheIOManager

# A simulation takes a few dozen steps at one time, seldom thousands. After twice as many at most it is noticed.
STEPS_AT_ONCE_MAX = 200_000


class ThreadStarted(RuntimeError):
    """Something asked for a thread: what threads do is in no order, and takes no virtual time."""


class Livelock(RuntimeError):
    """Tasks run on and on, and no time passes: in real time they would spin until the clock has moved."""


class WithholdingQueue(deque[Task]):
    """Trio's queue of runnable tasks, which keeps back those that `is_withheld` names, until `release`.

    `note_batch` is told the tasks of every batch before any of it runs, and before Trio shuffles it as the seed has it.
    `on_livelock` is told one once there have been STEPS_AT_ONCE_MAX steps at one time of `now`.
    """

    def __init__(
        self,
        tasks: deque[Task],
        is_withheld: Callable[[Task], bool],
        now: Callable[[], float],
        note_batch: Callable[[list[Task]], None],
        on_livelock: Callable[[str], None],
    ) -> None:
        super().__init__(tasks)
        self._is_withheld = is_withheld
        self._withheld: list[Task] = []
        self._now = now
        self._note_batch = note_batch
        self._on_livelock = on_livelock
        self._steps = 0
        self._time_before = -1.0
        self.is_watching = False  # asking about every task costs time, and hardly ever is one withheld

    def append(self, task: Task) -> None:
        if self.is_watching and self._is_withheld(task):
            self._withheld.append(task)
        else:
            super().append(task)

    def clear(self) -> None:
        """Called by Trio with a batch of tasks that it is about to run.

        The tasks are in any order, because Trio wakes the members of sets; Trio sorts them before it shuffles them.
        """
        tasks = sorted(self, key=_serial) if len(self) > 1 else list(self)
        super().clear()
        self._note_batch(tasks)
        self._steps += len(tasks)
        if self._steps >= STEPS_AT_ONCE_MAX:
            self._look_at_clock(tasks[0].name)

    def _look_at_clock(self, task_name: str) -> None:
        time_before, self._time_before, self._steps = self._time_before, self._now(), 0
        if self._time_before == time_before:
            self._on_livelock(task_name)

    def release(self) -> None:
        """Look at what was kept back again; who is still withheld stays."""
        tasks, self._withheld = self._withheld, []
        for task in tasks:
            self.append(task)


def _serial(task: Task) -> int:
    return task._counter


class QuietIOManager(_TheIOManager):  # type: ignore[misc]
    """Trio's own, which asks the kernel for news only where there are some: of what comes from outside, as Ctrl-C does.

    Nothing else of the kernel's can concern a simulation, and a system call in each round costs time.
    """

    def get_events(self, timeout: float) -> Any:
        return super().get_events(timeout) if _is_called_from_outside() else []


def is_runnable() -> bool:
    """Whether a task can run, or a callback waits in the queue for calls from outside."""
    return bool(GLOBAL_RUN_CONTEXT.runner.runq) or _is_called_from_outside()


def _is_called_from_outside() -> bool:
    entries = GLOBAL_RUN_CONTEXT.runner.entry_queue
    return bool(entries.queue or entries.idempotent_queue)


def withhold_tasks(
    is_withheld: Callable[[Task], bool],
    now: Callable[[], float],
    note_batch: Callable[[list[Task]], None],
    on_livelock: Callable[[str], None],
) -> WithholdingQueue:
    """Put a queue that can withhold tasks in the place of the running Trio's own."""
    runner = GLOBAL_RUN_CONTEXT.runner
    queue = WithholdingQueue(runner.runq, is_withheld, now, note_batch, on_livelock)
    runner.runq = queue
    return queue


def run_deterministically(main: Callable[[], Awaitable[T]], *, seed: str, clock: trio.abc.Clock) -> T:
    """`trio.run(main)` with tasks in an order that follows from `seed`, without threads and without a collector.

    The garbage collector would run finalisers whenever it likes. Raises what `main` raises, and ThreadStarted.
    """
    with _deterministic_order(seed), _no_threads(), _no_collector(), _no_polling():
        return trio.run(main, clock=clock, strict_exception_groups=True)


@contextmanager
def _deterministic_order(seed: str) -> Iterator[None]:
    before = _private._ALLOW_DETERMINISTIC_SCHEDULING, _private._r.getstate()
    _private._ALLOW_DETERMINISTIC_SCHEDULING = True
    _private._r.seed(seed)  # a str is seeded by its SHA-512, whatever PYTHONHASHSEED is
    try:
        yield
    finally:
        _private._ALLOW_DETERMINISTIC_SCHEDULING = before[0]
        _private._r.setstate(before[1])


@contextmanager
def _no_polling() -> Iterator[None]:
    _private.TheIOManager = QuietIOManager
    try:
        yield
    finally:
        _private.TheIOManager = _TheIOManager


@contextmanager
def _no_threads() -> Iterator[None]:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise ThreadStarted("a thread was asked for within the simulation")

    cache: Any = _thread_cache.ThreadCache
    before = cache.start_thread_soon
    cache.start_thread_soon = refuse
    try:
        yield
    finally:
        cache.start_thread_soon = before


@contextmanager
def _no_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
