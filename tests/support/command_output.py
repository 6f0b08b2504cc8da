"""The output of commands with `--json`, parsed tables, and commands in pipes."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from tests.support.cluster_process import WITHIN_S, Answer, run_command


def ask(*arguments: str) -> Any:
    """Run a command that must succeed. Returns the JSON that it prints."""
    answer = run_command(*arguments, "--json")
    assert answer.code == 0, answer.errors
    return json.loads(answer.output)


def succeed(*arguments: str) -> str:
    """Run a command that must succeed. Returns its output."""
    answer = run_command(*arguments)
    assert answer.code == 0, answer.errors
    return answer.output


def wait_for_answer(holds: Callable[[Answer], bool], *arguments: str) -> Answer:
    """Run a command until `holds` is true for its answer."""
    deadline = time.monotonic() + WITHIN_S
    while not holds(answer := run_command(*arguments)):
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer


def table(output: str) -> list[list[str]]:
    """The rows of a table whose cells have no blanks, its headings first."""
    return [line.split() for line in output.splitlines()]


def pipe(*arguments: str, stdin: bytes = b"", timeout_s: float = 120.0) -> subprocess.CompletedProcess[bytes]:
    """Run the installed command as a shell does, with this standard input."""
    command = [str(Path(sys.executable).with_name("kraft")), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=timeout_s)


def leaf_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The commands of a group and of the groups in it, by their names after the group's."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaf_commands(command, (*path, name))
        else:
            yield (*path, name), command
