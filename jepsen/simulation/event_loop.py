"""Trio's event loop in virtual time: what `trio.run` does in rounds, without what a simulation does not need.

A round of a simulation does not wait for the kernel and calls no instruments, and most rounds run one task.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Generator, MutableSequence
from random import Random
from typing import Any

import outcome
import trio
from trio._core import _run
from trio._core._run import GLOBAL_RUN_CONTEXT, Task

_private: Any = _run
_CANCEL_SHIELDED_CHECKPOINT: Any = _private.CancelShieldedCheckpoint
_WAIT_TASK_RESCHEDULED: Any = _private.WaitTaskRescheduled
# The frames of the event loop itself at the top of a task's traceback.
_FRAMES_OF_THE_LOOP: int = 1 + _private.CONTEXT_RUN_TB_FRAMES

# A simulation runs a few dozen steps at one instant, seldom thousands. A livelock is detected after twice this number
# of steps at most.
STEPS_AT_ONCE_MAX = 30_000


class TaskQueue(deque[Task]):
    """Trio's queue of runnable tasks, which withholds tasks while it watches: those for which `is_withheld` is true.

    `note_batch` is called with the tasks of every batch before the batch runs, and before the batch is shuffled by the
    seed. `on_livelock` is called with a task after STEPS_AT_ONCE_MAX steps during which `now` has not changed.
    """

    def __init__(
        self,
        is_withheld: Callable[[Task], bool],
        now: Callable[[], float],
        note_batch: Callable[[list[Task]], None],
        on_livelock: Callable[[Task], None],
    ) -> None:
        super().__init__()
        self.is_watching = False
        self.note_batch = note_batch
        self._is_withheld = is_withheld
        self._withheld: list[Task] = []
        self._now = now
        self._on_livelock = on_livelock
        self._time_before = -1.0
        self._queue = super().append

    def watch(self, *, is_watching: bool) -> None:
        """Check each task that becomes runnable, and those that are withheld, or let all of them run.

        Checking every task costs time, and tasks are rarely withheld: usually `append` is the deque's own method.
        """
        self.is_watching = is_watching
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

    def check_progress(self, task: Task) -> None:
        """Detect a livelock, of which `task` is a part, if virtual time has not changed since the last call."""
        time_before, self._time_before = self._time_before, self._now()
        if self._time_before == time_before:
            self._on_livelock(task)


class EventLoop:
    """Runs the tasks of a simulation in rounds. `run` replaces Trio's own `unrolled_run`.

    A round runs the batch of the tasks that are runnable when it begins, in an order that follows from the seed.
    """

    def __init__(self, seed: str) -> None:
        # A str is seeded by its SHA-512, which does not depend on PYTHONHASHSEED.
        self._shuffle: Callable[[MutableSequence[Any]], None] = Random(seed).shuffle
        self._batch: list[Task] = []  # the tasks of the round that have not run yet
        self._queue: TaskQueue | None = None
        self._outside: Any = None  # Trio's queue of calls from outside, such as those of finalizers and of Ctrl-C
        self._steps = 0

    def use(self, queue: TaskQueue) -> None:
        """Replace the queue of runnable tasks, and note the batches of all later rounds in `queue`."""
        runner: Any = GLOBAL_RUN_CONTEXT.runner
        queue.extend(runner.runq)
        self._queue = runner.runq = queue
        self._outside = runner.entry_queue

    def is_runnable(self) -> bool:
        """True if a task is runnable, or a call from outside is queued."""
        return bool(self._queue) or bool(self._outside.queue) or bool(self._outside.idempotent_queue)

    def may_run_on(self) -> bool:
        """True if a task that yields may run on, because it would run next, alone, at the same time.

        All other tasks wait then, and the clock does not move, so a round would only cost time. Every segment that is
        sent and every free lock that is taken yields. Running on counts as a step, so that a task that does nothing
        else is detected as a livelock.
        """
        queue = self._queue
        if self._batch or queue is None:
            return False
        self._steps += 1
        return not queue and not queue.is_watching and self._steps < STEPS_AT_ONCE_MAX

    @trio.lowlevel.enable_ki_protection
    def run(self, runner: Any, main: Callable[..., Awaitable[object]], args: Any) -> Generator[float, Any, None]:
        """Run all tasks. Yields when the kernel has to be polled, because of a call from outside."""
        try:
            runner.instruments = {}  # Trio's own collection answers in Python, in each step, that it is empty
            runner.clock.start_clock()
            runner.init_task = runner.spawn_impl(runner.init, (main, args), None, "<init>", system_task=True)
            outside, clock, deadlines = runner.entry_queue, runner.clock, runner.deadlines
            while runner.tasks:
                if outside.queue or outside.idempotent_queue:
                    runner.io_manager.process_events((yield 0.0))
                elif not runner.runq:
                    clock.deadline_to_sleep_time(deadlines.next_deadline())
                scheduled = deadlines._heap
                if scheduled and scheduled[0][0] <= clock.now:
                    deadlines.expire(clock.now)
                if runner.runq:
                    self._run_batch(runner)
        except trio.TrioInternalError:
            raise
        except BaseException as error:
            raise trio.TrioInternalError("an internal error in the simulation of Trio's event loop") from error
        finally:
            runner.close()
            GLOBAL_RUN_CONTEXT.__dict__.clear()
            if runner.ki_pending:
                runner.main_task_outcome = outcome.Error(KeyboardInterrupt())

    def _run_batch(self, runner: Any) -> None:
        queue = runner.runq
        self._batch = batch = [queue.popleft()]
        if queue:  # The order of the tasks is arbitrary, because Trio wakes the members of sets.
            batch += queue
            queue.clear()
            batch.sort(key=serial_of)
        if self._queue is not None:
            self._note_batch(self._queue, batch)
        if len(batch) > 1:
            self._shuffle(batch)
        while batch:
            self._run_step(runner, batch.pop())

    def _note_batch(self, queue: TaskQueue, batch: list[Task]) -> None:
        queue.note_batch(batch)
        self._steps += len(batch)
        if self._steps >= STEPS_AT_ONCE_MAX:
            self._steps = 0
            queue.check_progress(batch[0])

    def _run_step(self, runner: Any, task: Any) -> None:
        GLOBAL_RUN_CONTEXT.task = task
        send, value = task._next_send_fn, task._next_send
        task._next_send_fn = task._next_send = None
        ended: outcome.Outcome[object] | None = None
        try:
            message = task.context.run(send, value)
        except StopIteration as stop:
            ended = outcome.Value(stop.value)
        except BaseException as error:  # noqa: BLE001 - the task's nursery handles it
            ended = outcome.Error(_without_frames_of_the_loop(error))
        if ended is not None:  # not in an `except` block, whose exception would become the context of others
            runner.task_exited(task, ended)
        else:
            task._schedule_points += 1
            if message is _CANCEL_SHIELDED_CHECKPOINT:
                runner.reschedule(task)
            elif type(message) is _WAIT_TASK_RESCHEDULED:
                _wait(runner, task, message.abort_func)
            else:
                runner.reschedule(task, TypeError(f"a task of Trio cannot wait for {message!r}"))
                task._next_send_fn = task.coro.throw
        del GLOBAL_RUN_CONTEXT.task


def _wait(runner: Any, task: Any, abort: Callable[..., object]) -> None:
    task._cancel_points += 1
    task._abort_func = abort
    if runner.ki_pending and task is runner.main_task:
        task._attempt_delivery_of_pending_ki()
    if task._cancel_status.effectively_cancelled:
        task._attempt_delivery_of_any_pending_cancel()


def _without_frames_of_the_loop(error: BaseException) -> BaseException:
    traceback = error.__traceback__
    for _ in range(_FRAMES_OF_THE_LOOP):
        if traceback is not None:
            traceback = traceback.tb_next
    return error.with_traceback(traceback)


def serial_of(task: Any) -> int:
    serial: int = task._counter
    return serial
