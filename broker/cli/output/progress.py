"""Progress bars on standard error, on a terminal only."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


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
