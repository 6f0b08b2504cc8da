"""Progress on standard error: bars on a terminal, and lines elsewhere if it takes long."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

# Where there is no terminal, a line is printed after this time, and then at this interval: a log of hours stays short.
_FIRST_LINE_S: Final = 10.0
_LINE_S: Final = 60.0


class StatusLine:
    """A bar with a text within a `with` block, renewed in place. Without a terminal, the text is printed rarely."""

    def __init__(self, what: str, print_line: Callable[[str], None]) -> None:
        """`print_line` prints a line where there is no terminal."""
        self._is_terminal = sys.stderr.isatty()
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[text]}", markup=False),
            console=Console(file=sys.stderr, highlight=False),
            disable=not self._is_terminal,
            transient=True,
        )
        self._task = self._bars.add_task(what, total=None, text="")
        self._print_line, self._what, self._is_shown = print_line, what, False
        self._next_at: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_shown:
            self._bars.stop()

    def show(self, now_s: float, done: int, total: int, text: str) -> None:
        """Show that `done` of `total` is done at a time, by any clock that does not jump."""
        if self._is_terminal:
            if not self._is_shown:
                self._is_shown = True
                self._bars.start()
            self._bars.update(self._task, completed=done, total=total, text=text)
        elif self._next_at is None:
            self._next_at = now_s + _FIRST_LINE_S
        elif now_s >= self._next_at:
            self._next_at = now_s + _LINE_S
            self._print_line(f"{self._what}: {text}")


class Progress:
    """A bar within a `with` block. In a pipe or a log nothing is shown."""

    def __init__(self, what: str, total: int | None, unit: str, *, is_shown: bool = True) -> None:
        """`total` is None if it is unknown; then no bar is shown."""
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(file=sys.stderr, highlight=False),
            disable=total is None or not is_shown or not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._bars.add_task(what, total=total, note="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, done: int, note: str = "") -> None:
        """Shows the amount that is done."""
        self._bars.update(self._task, completed=done, note=note)
