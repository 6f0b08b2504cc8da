"""`kraft <command> ...`: runs one command of the grammar and returns its exit code."""

import sys
from collections.abc import Sequence

from broker.cli.start_arguments import read_start_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: this process's arguments) names."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["start"]:
        started = read_start_arguments(arguments[1:])
        if started is not None:
            from broker.cli.start import run_node

            return run_node(started)
    from broker.cli.grammar import run

    return run(arguments)
