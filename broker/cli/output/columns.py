"""The columns of a table."""

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

Row = TypeVar("Row")


@attrs.frozen
class Column(Generic[Row]):
    """A column of a table. `value` makes a row's cell; `style` its colour on a terminal, "" for none."""

    heading: str
    value: Callable[[Row], object]
    is_number: bool = False
    style: Callable[[Row], str] | None = None
