"""A node as its operator meets it: a process on a data directory, to be started, stopped and killed.

`KRAFT_TEST_COMMAND` replaces the command that is started (`kraft` beside this interpreter). Anything that understands
`start --override key=value ...` and prints the same line will do, so that a test can be tried on another broker.
"""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

LISTENING = re.compile(r"^kraft: listening on PLAINTEXT://(\S+)$", re.MULTILINE)

# A JVM ends with 128 + SIGTERM when it is asked to stop, whether or not it shut down cleanly.
CLEAN_EXIT_CODES = (0, 128 + signal.SIGTERM)


def command() -> list[str]:
    """The command line of the program under test, without its arguments."""
    given = os.environ.get("KRAFT_TEST_COMMAND")
    return shlex.split(given) if given else [str(Path(sys.executable).with_name("kraft"))]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. They stay the same over restarts, so that clients find their node again."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


class NodeProcess:
    """One combined node in a process of its own, on the directory `data_dir`, under overrides of its configuration.

    The methods raise AssertionError with the end of the node's output where it does not do what it is asked to.
    """

    def __init__(self, data_dir: Path, overrides: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.log_path = data_dir.with_name(f"{data_dir.name}.out")
        self.port, self._controller_port = free_ports(2)
        self._overrides = dict(overrides or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._output_start = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 60) -> float:
        """Start the node and wait until it says that it listens; returns the seconds that took."""
        assert not self.is_running
        began = time.monotonic()
        self._output_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                [*command(), "start", *self._override_arguments()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        while not LISTENING.search(self.output()):
            assert self.is_running, f"the node ended with {self._process.returncode} at start:\n{self.output_tail()}"
            assert time.monotonic() - began < timeout, f"no node after {timeout} s:\n{self.output_tail()}"
            time.sleep(0.01)
        return time.monotonic() - began

    def _override_arguments(self) -> list[str]:
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}"
        overrides = {"listeners": listeners, "log.dirs": str(self.data_dir), **self._overrides}
        return [part for key, value in overrides.items() for part in ("--override", f"{key}={value}")]

    def stop(self, timeout: float = 60) -> None:
        """Ask the node to shut down, and wait until it has done so cleanly."""
        code = self._end(signal.SIGTERM, timeout)
        assert code in CLEAN_EXIT_CODES, f"the node ended with {code} when asked to stop:\n{self.output_tail()}"

    def kill(self) -> None:
        """kill -9: the process gets no chance to write or say anything."""
        assert self._end(signal.SIGKILL, 10) == -signal.SIGKILL, f"the node was dead already:\n{self.output_tail()}"

    def _end(self, signal_number: int, timeout: float) -> int:
        assert self._process is not None, "the node was never started"
        self._process.send_signal(signal_number)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"no end {timeout} s after signal {signal_number}:\n{self.output_tail()}") from None

    def discard(self) -> None:
        """End the process if there is one left, whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        """What the node wrote to stdout and stderr since it was last started."""
        with self.log_path.open("rb") as file:
            file.seek(self._output_start)
            return file.read().decode(errors="replace")

    def output_tail(self, lines: int = 40) -> str:
        return "\n".join(self.output().splitlines()[-lines:])

    def resident_bytes(self) -> int:
        """Resident memory of the process now."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None
        return int(match.group(1)) * 1024

    def open_files(self) -> int:
        """File descriptors the process holds now, sockets included."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self) -> float:
        """Processor time that the process has used since its start, in user and system mode."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
