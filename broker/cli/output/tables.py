"""Tables on a terminal and in a pipe."""

import sys
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from broker.cli.output.shapes import Column, Row
from broker.cli.printing import encodable, print_text
from broker.printable import printable

# A pipe has no width: a line is never folded there, so that a program finds a row in a line.
_PIPE_WIDTH: Final = 100_000


def new_console() -> Console:
    """A console on standard output as it is now; without colours where that is no terminal, or NO_COLOR is set."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def make_table(rows: Sequence[Row], columns: Sequence[Column[Row]]) -> Table:
    """Headings in capitals, no lines, columns two blanks apart: easy to read, and to take apart with awk."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.heading.upper(), justify="right" if column.is_number else "left", overflow="fold", no_wrap=False
        )
    for row in rows:
        cells = []
        for column in columns:
            style = column.style(row) if column.style is not None else ""
            shown = encodable(printable(str(column.value(row))), sys.stdout)
            cells.append(Text(shown, style=style))
        table.add_row(*cells)
    return table


def print_table(rows: Sequence[Row], columns: Sequence[Column[Row]]) -> None:
    """Print a table; in a pipe without blanks at the ends of lines."""
    console = new_console()
    table = make_table(rows, columns)
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    print_text("\n".join(line.rstrip() for line in captured.get().split("\n")[:-1]))
