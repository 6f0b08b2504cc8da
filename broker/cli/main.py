"""`kraft <command> ...`: runs one command of the grammar and returns its exit code."""

import sys
from collections.abc import Sequence

from broker.cli.printing import print_exception
from broker.cli.start_arguments import read_start_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: this process's arguments) names."""
    if argv is None:
        sys.excepthook = print_exception
        argv = sys.argv[1:]
    arguments = list(argv)
    if arguments[:1] == ["start"]:
        started = read_start_arguments(arguments[1:])
        if started is not None:
            from broker.cli.start import run_node

            return run_node(started)
    from broker.cli.grammar import run

    return run(arguments)
