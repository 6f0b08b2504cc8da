"""The output of commands with `--json`, parsed tables, and commands in pipes."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from tempfile import TemporaryFile
from typing import Any, Final

import click

from jepsen.processes.launcher import Program, launcher
from tests.support.cluster_process import WITHIN_S, Answer, run_command

_COMMAND: Final = Program(
    "broker.cli", ("broker.cli.grammar.clients", "broker.cli.commands.produce", "broker.cli.commands.consume")
)


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
    """Run the command in a process of its own, with this text on a pipe as its standard input."""
    read, write = os.pipe()
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = launcher().start(_COMMAND, arguments, output.fileno(), errors=errors.fileno(), stdin=read)
        os.close(read)
        with suppress(BrokenPipeError), os.fdopen(write, "wb") as file:
            file.write(stdin)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        printed = []
        for each in (output, errors):
            each.seek(0)
            printed.append(each.read())
    return subprocess.CompletedProcess(arguments, code, *printed)


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
