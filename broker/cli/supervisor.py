"""Supervises processes: starts them together, prints their output line by line with their names, stops them together.

A process that ends is not restarted, so that the user notices; the others continue.
"""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

import attrs
import trio

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
        self._processes: list[trio.Process] = []
        self._stopping = trio.Event()

    async def run(self) -> None:
        """Run the tasks. The first SIGINT, SIGTERM or SIGHUP stops all cleanly, the next one kills the rest."""
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(handle_signals, signals, self._stop, self._kill)
                async with trio.open_nursery() as running:
                    for task in self._tasks:
                        running.start_soon(self._run_task, task)
                nursery.cancel_scope.cancel()

    def _stop(self) -> None:
        self._stopping.set()
        self._send(signal.SIGTERM)

    def _kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, signal_number: signal.Signals) -> None:
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal_number)

    async def _run_task(self, task: Task) -> None:
        if self._stopping.is_set():
            return
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "broker.cli", *task.arguments, *task.hidden],
            stdin=subprocess.PIPE,  # ends with this process, whatever ends it: a command may stop then, too
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,  # the terminal's Ctrl-C is for this process: it stops the others, each once
        )
        self._processes.append(process)
        if self._stopping.is_set():  # since it was begun
            process.terminate()
        assert process.stdout is not None, "the process was started with a pipe"
        await self._copy_output(task.name, process.stdout)
        await process.wait()
        self._ended(task, process)

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

    def _ended(self, task: Task, process: trio.Process) -> None:
        self._processes.remove(process)
        code = process.returncode
        assert code is not None, "the process has ended"
        if self._stopping.is_set() and code in (0, -signal.SIGTERM):  # it may not have come to listen to the signal yet
            return
        self.failed = True
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        self._print(f"kraft: {task.name} has ended with {how}; to start it again: kraft {' '.join(task.arguments)}")
