"""Supervises processes: starts them, passes on their output line by line, stops them together.

A process that has ended stays down, or is started again after a delay: `on_end` decides.
"""

import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

import attrs
import trio

from broker.cli.forked_process import ChildCommand, exit_code_if_ended, fork_command, spawn_command
from broker.cli.signals import handle_signals

# A node says so once it serves.
_SERVES: Final = re.compile(rb"kraft: node \d+ of cluster ")
# A longer line is printed in pieces. Lines of nodes are far shorter.
LINE_BYTES_MAX: Final = 64 * 1024
# The wait before another attempt if the system cannot start a process, for example for lack of memory.
_NO_PROCESS_S: Final = 5.0


@attrs.frozen
class Task:
    """A `kraft` command to run in a process of its own, and its name.

    `hidden` are arguments that only the supervisor passes: the command for a restart by hand does not need them. A task
    that `stops_last` is asked to stop when the others have ended.
    """

    name: str
    arguments: Sequence[str]
    hidden: Sequence[str] = ()
    stops_last: bool = False

    @property
    def command(self) -> list[str]:
        return [*self.arguments, *self.hidden]


@attrs.frozen
class TaskEnd:
    """The end of a task's process. `code` is its exit code, or the negative number of the signal that ended it.

    `served_s` is how long it served; None if it never did. `is_stopping` is true if it was asked to stop.
    """

    task: Task
    code: int
    served_s: float | None
    is_stopping: bool


class _Running:
    """A task and its process. `code` is set when the process has ended, `finished` when none will follow it."""

    def __init__(self, task: Task, process: ChildCommand) -> None:
        self.task = task
        self.finished = trio.Event()
        self.begin(process)

    def begin(self, process: ChildCommand) -> None:
        self.process = process
        self.ended = trio.Event()
        self.code: int | None = None
        self.serving_since: float | None = None


class Supervisor:
    """Runs tasks until all have ended. `write` gets the name of a task, and each line of its output.

    `on_serving` is called once all of them serve. `on_end` is called for each process that ended unasked, or not
    cleanly. It returns the seconds after which the task is started again; None if it is to stay down. `failed` is True
    if a task stays down like this.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        write: Callable[[str, str], None],
        on_serving: Callable[[], None],
        on_end: Callable[[TaskEnd], float | None],
    ) -> None:
        self.failed = False
        self._tasks = tasks
        self._write = write
        self._on_serving = on_serving
        self._on_end = on_end
        self._not_serving = {task.name for task in tasks}
        self._running: list[_Running] = []
        self._stopping = trio.Event()

    def fork(self, main: Callable[[Sequence[str]], int]) -> None:
        """Fork the processes, before `run`: a fork of a process with an event loop would have that loop's state.

        They run `main` with the arguments of their tasks. Raises OSError. The forks then end with this process, as
        their standard input does.
        """
        for task in self._tasks:
            self._running.append(_Running(task, fork_command(task.command, main)))

    async def run(self) -> None:
        """Wait for the tasks. The first SIGINT, SIGTERM or SIGHUP stops all cleanly, the next one kills the rest."""
        with (
            trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals,
            trio.open_signal_receiver(signal.SIGCHLD) as ends,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(handle_signals, signals, self.stop, self._kill)
                nursery.start_soon(self._watch_ends, ends)
                nursery.start_soon(self._stop_in_order)
                async with trio.open_nursery() as watching:
                    for running in self._running:
                        watching.start_soon(self._watch, running)
                nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """Stop all tasks cleanly. None is started again."""
        self._stopping.set()

    async def _stop_in_order(self) -> None:
        await self._stopping.wait()
        for is_last in (False, True):
            part = [running for running in self._running if running.task.stops_last is is_last]
            _send(signal.SIGTERM, part)
            for running in part:
                await running.finished.wait()

    def _kill(self) -> None:
        _send(signal.SIGKILL, self._running)

    async def _watch_ends(self, ends: AsyncIterator[int]) -> None:
        """Take the exit codes of processes that have ended. Some may have ended before the signal was listened to."""
        self._take_exit_codes()
        async for _ in ends:
            self._take_exit_codes()

    def _take_exit_codes(self) -> None:
        for running in self._running:
            if running.code is None:
                running.code = exit_code_if_ended(running.process.process_id)
                if running.code is not None:
                    running.ended.set()

    async def _watch(self, running: _Running) -> None:
        """Follow a task's processes, one after the other."""
        while True:
            async with trio.lowlevel.FdStream(running.process.output) as output:
                await self._copy_output(running, output)
            await running.ended.wait()
            os.close(running.process.stdin)
            delay_s = self._report_end(running)
            if delay_s is None or not await self._start_again(running, delay_s):
                break
        running.finished.set()

    async def _copy_output(self, running: _Running, output: trio.abc.ReceiveStream) -> None:
        buffer = bytearray()
        async for chunk in output:
            buffer += chunk
            *lines, rest = bytes(buffer).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            buffer = bytearray(rest)
            for line in lines:
                self._pass_on(running, line)
        if buffer:
            self._pass_on(running, bytes(buffer))

    def _pass_on(self, running: _Running, line: bytes) -> None:
        name = running.task.name
        self._write(name, line.decode(errors="backslashreplace"))
        if running.serving_since is None and _SERVES.match(line):
            running.serving_since = trio.current_time()
            if name in self._not_serving:
                self._not_serving.remove(name)
                if not self._not_serving:
                    self._on_serving()

    def _report_end(self, running: _Running) -> float | None:
        """The seconds after which the task is started again; None if it stays down."""
        code, is_stopping = running.code, self._stopping.is_set()
        assert code is not None, "the process has ended"
        if is_stopping and code in (0, -signal.SIGTERM):  # it may not have come to listen to the signal yet
            return None
        served_s = None if running.serving_since is None else trio.current_time() - running.serving_since
        delay_s = self._on_end(TaskEnd(running.task, code, served_s, is_stopping))
        if delay_s is None:
            self.failed = True
        return delay_s

    async def _start_again(self, running: _Running, delay_s: float) -> bool:
        """Start a new process of the task after the delay. Returns False if the tasks are stopped meanwhile."""
        while True:
            with trio.move_on_after(delay_s):
                await self._stopping.wait()
            if self._stopping.is_set():
                return False
            try:
                running.begin(spawn_command(running.task.command))
            except OSError as error:
                self._write(running.task.name, f"kraft: no process can be started: {error.strerror or error}")
                delay_s = _NO_PROCESS_S
            else:
                return True


def _send(signal_number: signal.Signals, tasks: Iterable[_Running]) -> None:
    for running in tasks:
        if running.code is None:  # until its code is taken, its id belongs to no other process
            os.kill(running.process.process_id, signal_number)


def describe_end(code: int) -> str:
    """The exit code of a process, or the signal that ended it if `code` is negative. Not every signal has a name."""
    if code >= 0:
        return f"exit code {code}"
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
