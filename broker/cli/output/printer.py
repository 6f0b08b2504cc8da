"""Prints a command's output: tables and lines for people, JSON for programs."""

from collections.abc import Callable, Iterable, Sequence

import attrs

from broker.cli.output.shapes import Column, Kind, Row, Shape, to_json
from broker.cli.printing import print_error, print_line, print_text
from broker.printable import printable


class Printer:
    """The output of one command. `shape` declares its JSON, and lines for people pass through `render`."""

    def __init__(self, shape: Shape | None, *, is_json: bool, render: Callable[[str], str] = str) -> None:
        self.is_json = is_json
        self._render = render
        self._shape = shape

    def rows(self, rows: Sequence[Row], columns: Sequence[Column[Row]], *, empty: str = "nothing") -> None:
        """A table with a row for each object, or the objects as JSON. `empty` is said where there is none."""
        if self.is_json:
            self.json(rows)
        elif rows:
            self.table(rows, columns)
        else:
            print_line(empty)

    def table(self, rows: Sequence[Row], columns: Sequence[Column[Row]]) -> None:
        """A table for people."""
        from broker.cli.output.tables import print_table  # takes rich, which many commands do without

        print_table(rows, columns)

    def each(self, items: Sequence[Row], line: Callable[[Row], str]) -> None:
        """A line about each object, or the objects as JSON."""
        if self.is_json:
            self.json(items)
        else:
            for item in items:
                print_line(line(item))

    def one(self, item: attrs.AttrsInstance, lines: Iterable[str]) -> None:
        """Lines about one object, which may have tabs, or the object as JSON."""
        if self.is_json:
            self.json(item)
        else:
            for line in lines:
                print_text(printable(self._render(line), keep="\t"))

    def lay_out(self, text: str) -> None:
        """Text of several lines for people that holds nothing from outside; nothing in JSON."""
        if not self.is_json:
            print_text(text)

    def say(self, line: str) -> None:
        """A line for people; nothing in JSON."""
        if not self.is_json:
            print_line(self._render(line))

    def note(self, line: str) -> None:
        """A line beside the output, on standard error."""
        print_error(self._render(line))

    def json(self, items: object) -> None:
        """Prints the object that `shape` declares, as JSON."""
        assert self._shape is not None, "a command with --json has a shape"
        each = items if isinstance(items, Sequence) else [items]
        assert all(isinstance(item, self._shape.item) for item in each), "the output has the documented shape"
        assert (self._shape.kind is Kind.LIST) == isinstance(items, Sequence), "the output has the documented shape"
        is_line = self._shape.kind is Kind.LINES
        print_text(to_json(items, indent=None if is_line else 2), flush=is_line)
