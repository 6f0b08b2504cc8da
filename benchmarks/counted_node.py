"""A node under valgrind, which counts the machine instructions that it executes.

Two counts of the same load differ by up to 2 %, and rounds of CPU time on a virtual machine by 10 %. Instructions are
not time: the kernel's work and waits for memory are not counted.

valgrind executes a node some 50 times slower. The node's clock runs `SLOWDOWN` times slower too, so that what happens
once per second (measuring requests, renewing allowances, checking timeouts) keeps its share of the requests.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

import trio
from trio.abc import Clock

from benchmarks.peers import Kraft
from broker.cli.main import main as kraft
from broker.handlers import CONTROLLER_HANDLERS, HANDLERS

SLOWDOWN: Final = 50
_COUNTS: Final = "instructions"
_TOTAL: Final = "totals: "


class Unavailable(Exception):
    """valgrind is not installed."""


class SlowClock(Clock):
    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return time.perf_counter() / SLOWDOWN

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return (deadline - self.current_time()) * SLOWDOWN


class CountedKraft(Kraft):
    """A node that counts its instructions. `start` raises Unavailable without valgrind."""

    _dumps = 0

    def prepare(self) -> None:
        if not shutil.which("valgrind") or not shutil.which("callgrind_control"):
            raise Unavailable("valgrind is not installed")

    def command(self) -> list[str]:
        output = self.directory / _COUNTS
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={output}"]
        root = str(Path(__file__).parents[1])
        run = f"import sys; sys.path.insert(0, {root!r}); from benchmarks.counted_node import main; main(sys.argv[1:])"
        arguments = super().command()[1:]  # without the program, which starts another process
        return ["env", "PYTHONHASHSEED=0", *valgrind, sys.executable, "-c", run, *arguments]

    def begin_count(self) -> None:
        self._control("--instr=on")
        self._control("--zero")

    def end_count(self) -> int:
        """The instructions since `begin_count`."""
        self._control("--dump")
        self._dumps += 1
        self._control("--instr=off")
        dump = self.directory / f"{_COUNTS}.{self._dumps}"
        totals = [line for line in dump.read_text().splitlines() if line.startswith(_TOTAL)]
        return int(totals[0].removeprefix(_TOTAL))

    def _control(self, command: str) -> None:
        subprocess.run(["callgrind_control", command, str(self.pid)], check=True, capture_output=True)


def main(arguments: Sequence[str]) -> int:
    # A node imports them in the background for its first second, which is a minute of this clock.
    for entry in (*HANDLERS, *CONTROLLER_HANDLERS):
        _ = entry.handler
    with patch.object(trio, "run", partial(trio.run, clock=SlowClock())):
        return kraft(arguments)
