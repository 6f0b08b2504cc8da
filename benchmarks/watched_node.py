"""`kraft start` in a process that also reports how long its event loop was held.

    python -m benchmarks.watched_node server.properties

Each hold of at least `REPORTED_S` is a line on standard error, which `holds` finds in the node's output.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import trio

from benchmarks.clusters import Cluster, KraftMember, kraft_cluster
from benchmarks.loop_holds import LoopHolds
from broker.cli.main import main as kraft

REPORTED_S: Final = 0.01
_LINE: Final = re.compile(r"^loop held for ([\d.]+) ms in (.*)$", re.MULTILINE)


class Hold(NamedTuple):
    """A hold of the event loop in ms of CPU time, and the task that took most of it."""

    milliseconds: float
    task: str


class _ReportedHolds(LoopHolds):
    def before_io_wait(self, timeout: float) -> None:
        super().before_io_wait(timeout)
        if self.longest_s >= REPORTED_S:
            print(f"loop held for {self.longest_s * 1e3:.1f} ms in {self.task}", file=sys.stderr, flush=True)
        self.reset()


class WatchedMember(KraftMember):
    """A node of a cluster that runs like this."""

    def command(self) -> list[str]:
        root = str(Path(__file__).parents[1])
        run = f"import sys; sys.path.insert(0, {root!r}); from benchmarks.watched_node import main; main(sys.argv[1:])"
        return [sys.executable, "-c", run, self.properties_path]


def watched_cluster(overrides: Mapping[str, str]) -> Cluster:
    return kraft_cluster(overrides, kind=WatchedMember)


def holds(output: str) -> list[Hold]:
    """The holds that a part of the node's output reports, the longest first."""
    return sorted((Hold(float(each[0]), each[1]) for each in _LINE.findall(output)), reverse=True)


def main(arguments: Sequence[str]) -> int:
    with patch.object(trio, "run", partial(trio.run, instruments=[_ReportedHolds()])):
        return kraft(["start", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
