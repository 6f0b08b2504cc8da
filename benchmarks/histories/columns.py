"""Operations as columns, and their events in the stored form."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jepsen.spark.events import COLUMNS

Integers = npt.NDArray[np.int64]
# Codes of outcomes. PENDING is an operation without a second event, because its client received no response.
OK, FAIL, INFO, PENDING = range(4)
_TYPES: Final = pa.array(["ok", "fail", "info"])


@attrs.frozen
class OperationColumns:
    """Operations of one kind. Times are in nanoseconds; `value` and `result` are texts of JSON."""

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
    """Concatenate parts row by row. A part is a text, or an array of texts or of integers."""
    return pc.binary_join_element_wise(*(_as_text(part) for part in parts), "")


def repeated(content: str, count: int) -> pa.Array:
    return pa.repeat(content, count)


def joined(items: pa.Array, starts: Integers, separator: str) -> pa.Array:
    """Join each range of `items` to one text. `starts` has the start of each range, and the end of the last one."""
    lists = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), items)
    return pc.binary_join(lists, separator)


def _as_text(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return pc.cast(pa.array(part.ravel()), pa.string())
    return part
