"""`kraft <command> ...`: runs one command of the grammar and returns its exit code."""

import gc
import os
import sys
from collections.abc import Sequence

from broker.cli.errors import INTERRUPTED
from broker.cli.printing import print_exception
from broker.cli.start_arguments import read_start_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: this process's arguments) names."""
    try:
        return _run(argv)
    except KeyboardInterrupt:  # while a command's modules are imported
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    if argv is None:
        open_standard_streams()
        sys.excepthook = print_exception
        argv = sys.argv[1:]
    arguments = list(argv)
    if arguments[:1] == ["start"]:
        started = read_start_arguments(arguments[1:])
        if started is not None:
            # Collections would take a quarter of the imports' time, and find little garbage: modules stay.
            gc.disable()
            from broker.cli.start import run_node

            gc.enable()
            return run_node(started)
    from broker.cli.grammar.root import run

    return run(arguments)


def open_standard_streams() -> None:
    """Open the null device in place of standard streams that the caller has closed, as `kraft ... <&-` does.

    Python has None in their places, and the next files and sockets would get their descriptors.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends
