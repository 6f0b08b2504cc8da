"""Supervises processes: forks them, prints their output line by line with their names, stops them together.

A process that ends is not restarted, so that the user notices; the others continue.
"""

import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import attrs
import trio

from broker.cli.forked_process import exit_code_if_ended, fork_command
from broker.cli.signals import handle_signals

# A node says so once it serves.
_SERVES: Final = re.compile(rb"kraft: node \d+ of cluster ")
# A longer line is printed in pieces. Lines of nodes are far shorter.
LINE_BYTES_MAX: Final = 64 * 1024
_CHUNK_BYTES: Final = 64 * 1024


@attrs.frozen
class Task:
    """A `kraft` command to run in a process of its own, and the name that its lines begin with.

    `hidden` are arguments that only the supervisor passes: the command for a restart by hand does not need them.
    """

    name: str
    arguments: Sequence[str]
    hidden: Sequence[str] = ()


class _Running:
    """A task and its process. `code` is set when the process has ended."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.process = fork_command([*task.arguments, *task.hidden])
        self.ended = trio.Event()
        self.code: int | None = None


class Supervisor:
    """Runs tasks until all have ended. `write` gets each line. `failed` is True if a task failed or ended unasked.

    `on_serving` is called once all of them serve.
    """

    def __init__(self, tasks: Sequence[Task], write: Callable[[str], None], on_serving: Callable[[], None]) -> None:
        self.failed = False
        self._tasks = tasks
        self._print = write
        self._on_serving = on_serving
        self._not_serving = {task.name for task in tasks}
        self._running: list[_Running] = []
        self._is_stopping = False

    def fork(self) -> None:
        """Fork the processes, before `run`: a fork of a process with an event loop would have that loop's state.

        Raises OSError. The forks then end with this process, as their standard input does.
        """
        for task in self._tasks:
            self._running.append(_Running(task))

    async def run(self) -> None:
        """Wait for the tasks. The first SIGINT, SIGTERM or SIGHUP stops all cleanly, the next one kills the rest."""
        with (
            trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals,
            trio.open_signal_receiver(signal.SIGCHLD) as ends,
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(handle_signals, signals, self._stop, self._kill)
                nursery.start_soon(self._watch_ends, ends)
                async with trio.open_nursery() as watching:
                    for running in self._running:
                        watching.start_soon(self._watch, running)
                nursery.cancel_scope.cancel()

    def _stop(self) -> None:
        self._is_stopping = True
        self._send(signal.SIGTERM)

    def _kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, signal_number: signal.Signals) -> None:
        for running in self._running:
            if running.code is None:  # until its code is taken, its id belongs to no other process
                os.kill(running.process.process_id, signal_number)

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
        await self._copy_output(running.task.name, trio.lowlevel.FdStream(running.process.output))
        await running.ended.wait()
        self._report_end(running)

    async def _copy_output(self, name: str, output: trio.abc.ReceiveStream) -> None:
        buffer = bytearray()
        async for chunk in output:
            buffer += chunk
            *lines, rest = bytes(buffer).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            buffer = bytearray(rest)
            for line in lines:
                self._print_line(name, line)
        if buffer:
            self._print_line(name, bytes(buffer))

    def _print_line(self, name: str, line: bytes) -> None:
        self._print(f"{name} | {line.decode(errors='backslashreplace')}")
        if _SERVES.match(line) and name in self._not_serving:
            self._not_serving.remove(name)
            if not self._not_serving:
                self._on_serving()

    def _report_end(self, running: _Running) -> None:
        task, code = running.task, running.code
        assert code is not None, "the process has ended"
        if self._is_stopping and code in (0, -signal.SIGTERM):  # it may not have come to listen to the signal yet
            return
        self.failed = True
        start = f"to start it again: kraft {' '.join(task.arguments)}"
        self._print(f"kraft: {task.name} has ended with {describe_end(code)}; {start}")


def describe_end(code: int) -> str:
    """The exit code of a process, or the signal that ended it if `code` is negative. Not every signal has a name."""
    if code >= 0:
        return f"exit code {code}"
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
