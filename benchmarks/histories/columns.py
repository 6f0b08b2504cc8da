"""Operations as columns, and their events as they are stored."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jepsen.spark.events import COLUMNS

Integers = npt.NDArray[np.int64]
# Codes of outcomes; PENDING is an operation whose client heard nothing: it has no second event.
OK, FAIL, INFO, PENDING = range(4)
_TYPES: Final = pa.array(["ok", "fail", "info"])


@attrs.frozen
class OperationColumns:
    """Operations on the same kind of thing. Times are in nanoseconds, `value` and `result` texts of JSON."""

    process: pa.Array
    id: Integers
    function: pa.Array
    invoked: Integers
    completed: Integers
    outcome: Integers
    value: pa.Array
    result: pa.Array

    def __len__(self) -> int:
        return len(self.id)


def events_of(operations: Sequence[OperationColumns]) -> pa.Table:
    """The events of all these operations, in order of time."""
    parts = [table for columns in operations for table in _events(columns)]
    table = pa.concat_tables(parts).combine_chunks()
    return table.take(pa.array(np.argsort(table["time"].to_numpy(), kind="stable")))


def _events(columns: OperationColumns) -> Iterator[pa.Table]:
    yield _table(columns, columns.invoked, repeated("invoke", len(columns)), columns.value)
    types = _TYPES.take(pa.array(np.minimum(columns.outcome, INFO)))
    is_told = pa.array(columns.outcome != PENDING)
    yield _table(columns, columns.completed, types, columns.result).filter(is_told)


def _table(columns: OperationColumns, times: Integers, types: pa.Array, values: pa.Array) -> pa.Table:
    lives = pa.nulls(len(columns), pa.int32())
    arrays = [pa.array(times), columns.process, pa.array(columns.id), types, columns.function, values, lives]
    return pa.table(arrays, schema=COLUMNS)


def text(*parts: Any) -> pa.Array:
    """Texts made of parts, side by side: each a text, or an array of texts or of integers."""
    return pc.binary_join_element_wise(*(_as_text(part) for part in parts), "")


def repeated(content: str, count: int) -> pa.Array:
    return pa.repeat(content, count)


def joined(items: pa.Array, starts: Integers, separator: str) -> pa.Array:
    """One text for each range of `items`; `starts` are where the ranges begin, with the end of the last."""
    lists = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), items)
    return pc.binary_join(lists, separator)


def _as_text(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return pc.cast(pa.array(part.ravel()), pa.string())
    return part
