"""Options of the commands for maintenance, the question before a change, and advice after Ctrl-C."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from broker.cli.grammar import CommandFailed, Invocation
from broker.cli.grammar.arguments import BYTE_RATE
from broker.cli.grammar.failures import leaves

F = TypeVar("F", bound=Callable[..., Any])


def change_options(function: F) -> F:
    """Add `--dry-run` and `--yes`."""
    function = click.option("-y", "--yes", is_flag=True, help="Do not ask. Without a terminal, nothing is asked.")(
        function
    )
    return click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")(function)


def throttle_option(function: F) -> F:
    """Add `--throttle`."""
    return click.option(
        "--throttle",
        type=BYTE_RATE,
        metavar="RATE",
        help="Bytes per second that each broker sends, and receives, of replicas that move, as 10MB.",
    )(function)


def confirm(question: str, *, yes: bool) -> None:
    """Ask whether to go on, if a person is there to answer. Raises CommandFailed if the answer is no."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as abort:
        raise KeyboardInterrupt from abort
    if not agreed:
        raise CommandFailed("Nothing was changed.")


@contextmanager
def resumable(invocation: Invocation, advice: str) -> Iterator[None]:
    """Say how to go on if the block does not come to its end."""
    try:
        yield
    except BaseException as error:
        errors = list(leaves(error)) if isinstance(error, BaseExceptionGroup) else [error]
        if any(isinstance(each, KeyboardInterrupt) for each in errors):
            invocation.printer.note(f"kraft: interrupted. {advice}")
        elif all(isinstance(each, Exception) for each in errors):
            invocation.printer.note(f"kraft: stopped. {advice}")
        raise
