"""The last lines and the exit code of a command that an exception ended."""

import os
import sys
from collections.abc import Iterable

import click

from broker.cli.grammar.failures import EXPECTED, Exit, WrongSettings, exit_code_of, leaves, sentence
from broker.cli.grammar.given_settings import GivenSettings
from broker.cli.grammar.printed_commands import for_same_cluster
from broker.cli.printing import print_error, print_text


def report(raised: BaseException, given: GivenSettings) -> int:
    """Print a sentence for each failure that a person can do something about, and return the exit code.

    `given` is the cluster that commands in the sentences ask. Raises `raised` if it is, or has in its group, a bug.
    """
    match raised:
        case click.exceptions.NoArgsIsHelpError():
            print_text(raised.format_message(), file=sys.stderr)
            return Exit.USAGE
        case BaseExceptionGroup():
            return _report_all(leaves(raised), raised, given)
        case _:
            return _report_all([raised], raised, given)


def _report_all(errors: Iterable[BaseException], raised: BaseException, given: GivenSettings) -> int:
    exit_code = Exit.OK
    for error in errors:
        if isinstance(error, KeyboardInterrupt):
            return Exit.INTERRUPTED
        if isinstance(error, BrokenPipeError):
            _discard_output()
            return Exit.OUTPUT_CLOSED
        if isinstance(error, UnicodeEncodeError):  # a surrogate, for a byte of an argument that is not UTF-8
            error = WrongSettings(f"A name on the command line is not UTF-8: {error.object!r}.")
        if not isinstance(error, EXPECTED):
            raise raised
        assert isinstance(error, Exception), "expected errors are exceptions"
        print_error(for_same_cluster(f"kraft: {sentence(error)}", given))
        exit_code = exit_code or exit_code_of(error)
    return exit_code


def _discard_output() -> None:
    """Redirect output to /dev/null, so that the interpreter's last flush does not fail on a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
