"""Steps of an incident's test: read the problem that `kraft cluster health` prints, and type the printed command."""

import re
import shlex
from pathlib import Path
from typing import Final

from broker.cli.grammar import Exit
from tests.support.cluster_process import Answer
from tests.support.command_output import ask, succeed, wait_for_answer

HEALTH: Final = ("cluster", "health")


def until_healthy() -> Answer:
    return wait_for_answer(lambda answer: answer.code == Exit.OK, *HEALTH)


def delete_topics() -> None:
    """Delete all topics, and wait until none is left."""
    names = [topic["name"] for topic in ask("topics", "list", "--internal")]
    if names:
        succeed("topics", "delete", *names)
    wait_for_answer(lambda answer: answer.output.strip() == "[]", "topics", "list", "--internal", "--json")


def problem(text: str) -> str:
    """Wait for the problem of `kraft cluster health` that contains the text, and return its line."""
    answer = wait_for_answer(lambda answer: text in answer.output, *HEALTH)
    assert answer.code == Exit.FAILED
    (line,) = (line for line in answer.output.splitlines() if text in line)
    return line


def commands(line: str) -> list[str]:
    """The commands that a line prints, in their order."""
    return re.findall("`(kraft [^`]+)`", line)


def type_command(command: str, directory: Path) -> None:
    """Do what a printed command says, with a shell's `> FILE`; it has to succeed."""
    words, _, file = command.partition(" > ")
    arguments = [str(directory / word) if word.endswith(".json") else word for word in shlex.split(words)[1:]]
    output = succeed(*arguments)
    if file:
        (directory / file).write_text(output)
