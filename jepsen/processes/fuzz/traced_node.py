"""`python -m jepsen.processes.fuzz.traced_node <kraft's arguments>`: kraft, which prints every failure in full.

A node limits the lines that clients can cause, by kind. A traceback is a bug, whatever causes it: this process prints
the first of each kind, however many others there are. On SIGUSR1 it prints the stacks of its tasks.
"""

import signal
import sys
from typing import Any

from broker.cli import main, start
from broker.cli.event_printer import EventPrinter
from jepsen.processes.names import print_tasks


class FailurePrinter(EventPrinter):
    """Prints every event with a traceback that was not printed before, and the others as a node does."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._failures: set[str] = set()

    def trace(self, kind: str, /, **fields: object) -> None:
        error = str(fields.get("error", ""))
        if "Traceback" not in error:
            super().trace(kind, **fields)
        elif error not in self._failures:
            self._failures.add(error)
            print(f"kraft: {kind}", *(f"{name}={value}" for name, value in fields.items()), file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, print_tasks)
    start.EventPrinter = FailurePrinter  # type: ignore[attr-defined,assignment]
    raise SystemExit(main(sys.argv[1:]))
