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
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom

LISTENING = re.compile(r"^kraft: listening on \w+://(\S+)$", re.MULTILINE)

# Linux gives outgoing connections ports from 32768 upwards.
PORTS = range(16_384, 32_768)

# A JVM ends with 128 + SIGTERM when it is asked to stop, whether or not it shut down cleanly.
CLEAN_EXIT_CODES = (0, 128 + signal.SIGTERM)


def command() -> list[str]:
    """The command line of the program under test, without its arguments."""
    given = os.environ.get("KRAFT_TEST_COMMAND")
    return shlex.split(given) if given else [str(Path(sys.executable).with_name("kraft"))]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. They stay the same over restarts, so that clients find their node again.

    They lie below those that the kernel gives to outgoing connections: such a connection, of whomever, might else have
    taken the port of a node that is down.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in SystemRandom().sample(PORTS, len(PORTS)):
            sock = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                sock.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise AssertionError(f"no {count} free ports among {PORTS}")


class NodeProcess:
    """One node in a process of its own, on the directory `data_dir`, under overrides of its configuration.

    It is controller and broker at once unless the overrides say otherwise. The methods raise AssertionError with the
    end of the node's output where it does not do what it is asked to.
    """

    def __init__(
        self, data_dir: Path, overrides: Mapping[str, str] | None = None, ports: Sequence[int] | None = None
    ) -> None:
        """`ports` are the clients' and the controllers'; without them, two that are free."""
        self.data_dir = data_dir
        self.log_path = data_dir.with_name(f"{data_dir.name}.out")
        self.port, self.controller_port = ports or free_ports(2)
        self.overrides = dict(overrides or {})
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

    @property
    def settings(self) -> dict[str, str]:
        """What the node is started with."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}"
        return {"listeners": listeners, "log.dirs": str(self.data_dir), **self.overrides}

    def start(self, timeout: float = 60) -> float:
        """Start the node and wait until it says that it listens; returns the seconds that took."""
        began = time.monotonic()
        self.launch()
        self.wait_serving(timeout)
        return time.monotonic() - began

    def launch(self) -> None:
        """Start the process, and do not wait: it may take others until it serves."""
        assert not self.is_running
        self._output_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        overrides = [part for key, value in self.settings.items() for part in ("--override", f"{key}={value}")]
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                [*command(), "start", *overrides],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def wait_serving(self, timeout: float = 60) -> None:
        """Until the node says that it listens."""
        assert self._process is not None, "the node was never started"
        deadline = time.monotonic() + timeout
        while not LISTENING.search(self.output()):
            assert self.is_running, f"the node ended with {self._process.returncode} at start:\n{self.output_tail()}"
            assert time.monotonic() < deadline, f"no node after {timeout} s:\n{self.output_tail()}"
            time.sleep(0.01)

    def stop(self, timeout: float = 60) -> None:
        """Ask the node to shut down, and wait until it has done so cleanly."""
        code = self._end(signal.SIGTERM, timeout)
        assert code in CLEAN_EXIT_CODES, f"the node ended with {code} when asked to stop:\n{self.output_tail()}"

    def kill(self) -> None:
        """kill -9: the process gets no chance to write or say anything."""
        assert self._end(signal.SIGKILL, 10) == -signal.SIGKILL, f"the node was dead already:\n{self.output_tail()}"

    def pause(self) -> None:
        """SIGSTOP: the process is there, and does nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait_ended(self, timeout: float = 60) -> int:
        """The exit code of a node that ends by itself, or that was asked to."""
        return self._wait("the node was to end", timeout)

    def terminate(self) -> None:
        """Ask the node to shut down, and do not wait."""
        assert self._process is not None, "the node was never started"
        self._process.terminate()

    def _end(self, signal_number: int, timeout: float) -> int:
        assert self._process is not None, "the node was never started"
        self._process.send_signal(signal_number)
        return self._wait(f"signal {signal_number}", timeout)

    def _wait(self, reason: str, timeout: float) -> int:
        assert self._process is not None, "the node was never started"
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"no end {timeout} s after {reason}:\n{self.output_tail()}") from None

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
