"""A node as an operator runs it: a process on a data directory, which tests start, stop and kill.

`KRAFT_TEST_COMMAND` replaces the command that is started (`kraft` of this interpreter's environment). It has to accept
`start --override key=value ...` and print the same line, so that a test can be tried on another broker. Without it, the
node is a fork of a process that has imported it: `jepsen/processes/launcher.py`.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jepsen.processes.launcher import NODE
from jepsen.processes.ports import free_ports
from jepsen.processes.server_process import ServerProcess
from tests.support.internal_topics import FEW_PARTITIONS

KRAFT = str(Path(sys.executable).with_name("kraft"))
# A JVM that is asked to stop exits with 128 + SIGTERM, even after a clean shutdown.
CLEAN_EXIT_CODES = (0, 128 + signal.SIGTERM)


def command() -> list[str]:
    """The command line of the program under test, without its arguments."""
    given = os.environ.get("KRAFT_TEST_COMMAND")
    return shlex.split(given) if given else [KRAFT]


class NodeProcess(ServerProcess):
    """One node in its own process, on the directory `data_dir`, with overrides of its configuration.

    By default it is both controller and broker, and its internal topics have few partitions. If the node does not do
    what a method requests, the method raises AssertionError with the end of the node's output.
    """

    def __init__(
        self, data_dir: Path, overrides: Mapping[str, str] | None = None, ports: Sequence[int] | None = None
    ) -> None:
        """`ports` are those of the clients' and the controllers' listener; by default, two free ports."""
        super().__init__(data_dir.with_name(f"{data_dir.name}.out"))
        self.data_dir = data_dir
        self.port, self.controller_port = ports or free_ports(2)
        self.overrides = dict(overrides or {})

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """The arguments of the node."""
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}"
        return {"listeners": listeners, "log.dirs": str(self.data_dir), **FEW_PARTITIONS, **self.overrides}

    def command(self) -> list[str]:
        overrides = [part for key, value in self.settings.items() for part in ("--override", f"{key}={value}")]
        return [*command(), "start", *overrides]

    def launch(self) -> None:
        program, *arguments = self.command()
        if program != KRAFT:
            super().launch()
            return
        self.fork(NODE, arguments)

    def start(self, timeout: float = 60) -> float:
        """Start the node, and wait until it prints that it listens. Returns the seconds."""
        began = time.monotonic()
        self.launch()
        self.wait_serving(timeout)
        return time.monotonic() - began

    def wait_serving(self, timeout: float = 60) -> None:
        """Wait until the node has printed that it listens."""
        deadline = time.monotonic() + timeout
        while not self.is_serving:
            code = self.process.poll()
            assert code is None, f"the node ended with {code} at start:\n{self.output_tail()}"
            assert time.monotonic() < deadline, f"no node after {timeout} s:\n{self.output_tail()}"
            time.sleep(0.01)

    def stop(self, timeout: float = 60) -> None:
        """Ask the node to shut down, and wait for a clean exit."""
        code = self._end(signal.SIGTERM, timeout)
        assert code in CLEAN_EXIT_CODES, f"the node ended with {code} when asked to stop:\n{self.output_tail()}"

    def kill(self) -> None:
        """kill -9: the process ends without further writes or output."""
        assert self._end(signal.SIGKILL, 10) == -signal.SIGKILL, f"the node was dead already:\n{self.output_tail()}"

    def wait_ended(self, timeout: float = 60) -> int:
        """Wait until the node ends. Returns its exit code."""
        return self._wait("the node was to end", timeout)

    def terminate(self) -> None:
        """Ask the node to shut down, without waiting."""
        self.send(signal.SIGTERM)

    def _end(self, signal_number: int, timeout: float) -> int:
        self.send(signal_number)
        return self._wait(f"signal {signal_number}", timeout)

    def _wait(self, reason: str, timeout: float) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.discard()
            raise AssertionError(f"no end {timeout} s after {reason}:\n{self.output_tail()}") from None
