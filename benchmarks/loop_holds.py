"""Measures holds of an event loop: the CPU time of its thread between two polls of its sockets."""

from time import thread_time

import trio


class LoopHolds(trio.abc.Instrument):
    """`longest_s` is the longest hold since `reset`, and `task` is the task that took most of it.

    It measures CPU time, because elapsed time would include other programs.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.task = ""
        self._since: float | None = None
        self._step_since = 0.0
        self._longest_step_s = 0.0
        self._longest_task = ""

    def reset(self) -> None:
        self.longest_s = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_since = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_s = thread_time() - self._step_since
        if took_s > self._longest_step_s:
            self._longest_step_s, self._longest_task = took_s, ".".join(task.name.split(".")[-2:])

    def before_io_wait(self, timeout: float) -> None:
        if self._since is not None and (held_s := thread_time() - self._since) > self.longest_s:
            self.longest_s, self.task = held_s, self._longest_task

    def after_io_wait(self, timeout: float) -> None:
        self._since = thread_time()
        self._longest_step_s = 0.0
