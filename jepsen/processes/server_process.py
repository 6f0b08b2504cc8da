"""A server in a process of its own, over all its uptimes: its output, its resources and its end."""

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from jepsen.processes.launcher import LaunchedProcess, Program, launcher

_LISTENING = re.compile(rb"^kraft: listening on \w+://\S+$", re.MULTILINE)


class ServerProcess:
    """The common part of all that run a node. Nothing here waits; subclasses do, with threads or in Trio.

    `output_path` has the stdout and stderr of all its uptimes.
    """

    def __init__(self, output_path: Path) -> None:
        self.output_path = output_path
        self._process: subprocess.Popen[bytes] | LaunchedProcess | None = None
        self._output_start = 0

    def command(self) -> Sequence[str]:
        """The command line that starts it."""
        raise NotImplementedError

    def launch(self) -> None:
        """Start the process. It may not serve before other processes run."""
        with self.begin_output() as output:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def fork(self, program: Program, arguments: Sequence[str]) -> None:
        """Start the process as a fork of one that has imported the program."""
        with self.begin_output() as output:
            self._process = launcher().start(program, arguments, output.fileno())

    def begin_output(self) -> BinaryIO:
        """Open the file for the output of the process that is about to start."""
        assert not self.is_running, f"process {self.pid} runs already"
        self._output_start = self.output_path.stat().st_size if self.output_path.exists() else 0
        return self.output_path.open("ab")

    @property
    def process(self) -> subprocess.Popen[bytes] | LaunchedProcess:
        assert self._process is not None, "the node was never started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_serving(self) -> bool:
        """True if the node has printed that it listens, since it was last started."""
        return _LISTENING.search(self._output()) is not None

    def send(self, signal_number: int) -> None:
        self.process.send_signal(signal_number)

    def pause(self) -> None:
        """Pause the process with SIGSTOP."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def discard(self) -> None:
        """Kill the process if it still exists, whatever its state."""
        if self.is_running:
            self.process.kill()
            self.process.wait()

    def output(self) -> str:
        """The node's stdout and stderr since it was last started."""
        return self._output().decode(errors="replace")

    def output_tail(self, lines: int = 40) -> str:
        return "\n".join(self.output().splitlines()[-lines:])

    def resident_bytes(self) -> int:
        """Resident memory of the process now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None, "Linux tells"
        return int(match.group(1)) * 1024

    def open_files(self) -> int:
        """File descriptors the process holds now, sockets included."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self) -> float:
        """Processor time that the process has used since its start, in user and system mode."""
        return cpu_seconds_of(self.pid)

    def _output(self) -> bytes:
        with self.output_path.open("rb") as file:
            file.seek(self._output_start)
            return file.read()


def cpu_seconds_of(pid: int) -> float:
    """Processor time that a process has used since its start, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
