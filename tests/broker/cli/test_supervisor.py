"""Processes that have ended, or that cannot be started again."""

import subprocess
import sys

import pytest

from broker.cli.supervisor import describe_end


@pytest.mark.parametrize(
    ("code", "description"),
    [(0, "exit code 0"), (1, "exit code 1"), (-9, "SIGKILL"), (-40, "signal 40"), (-127, "signal 127")],
)
def test_end_by_any_signal_is_described(code: int, description: str) -> None:
    """Python has no names for most real-time signals. Without one, the report ended the command and all nodes."""
    assert describe_end(code) == description


def test_process_that_the_system_cannot_start_is_tried_again_later() -> None:
    """For example for lack of memory, or while the interpreter is replaced. The other tasks go on meanwhile."""
    code = """
import sys, trio
from broker.cli.supervisor import Supervisor, Task

def write(name, line):
    print(name, line)
    supervisor.stop()

supervisor = Supervisor([Task("task", ["start"])], write, lambda: None, lambda end: 0.0)
supervisor.fork(lambda arguments: 1)
sys.executable = "/nowhere"
trio.run(supervisor.run)
print(supervisor.failed)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "task kraft: no process can be started: No such file or directory\nFalse\n"
