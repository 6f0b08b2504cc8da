"""Pairs events into operations: a task matches the events that it reads by process and id.

A client's events are close to each other in the files of a history. So nearly all of them are paired in the task that
reads them, and only the rest is shuffled.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jepsen.history import Operation, Outcome
from jepsen.journal import BadJournal, place, result_of, seconds_of, value_of
from jepsen.spark.events import COLUMNS

# The number of events to match at a time, and the limit of their bytes, which bounds a worker's memory.
_EVENTS: Final = 100_000
_BYTES: Final = 32 << 20
# The number of unpaired events that a task keeps. A client has few operations in flight, so this suffices for many
# clients.
_WAITING_MAX: Final = 200_000


@attrs.define
class Pairing:
    """Pairs events batch by batch. `waiting` are the events whose counterpart has not been read yet."""

    waiting: pa.Table = attrs.field(factory=COLUMNS.empty_table)

    def operations(self, events: pa.Table) -> list[Operation]:
        """The operations that these events complete."""
        begun, completed, self.waiting = _matched(pa.concat_tables([self.waiting, events]).combine_chunks())
        operations = operations_of(begun, completed)
        for operation in operations:
            place(operation)
        return operations

    def take_waiting(self) -> pa.Table:
        """Remove and return the unpaired events."""
        waiting, self.waiting = self.waiting, COLUMNS.empty_table()
        return waiting

    @property
    def is_full(self) -> bool:
        return len(self.waiting) > _WAITING_MAX


def portions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Group the batches into tables of limited size."""
    rows, size, some = 0, 0, []
    for batch in batches:
        some.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _EVENTS or size >= _BYTES:
            yield pa.Table.from_batches(some, COLUMNS)
            rows, size, some = 0, 0, []
    yield pa.Table.from_batches(some, COLUMNS)


def operations_of(begun: pa.Table, completed: pa.Table) -> list[Operation]:
    """Build operations from two tables, which have an operation's two events in the same row."""
    functions, outcomes = _list(begun, "f"), [Outcome(each) for each in _list(completed, "type")]
    contents, results = _json(begun), _json(completed)
    return [
        Operation(
            client,
            function,
            value_of(function, content),
            seconds_of(begun_at),
            outcome,
            seconds_of(completed_at),
            result_of(function, outcome, result),
            incarnation,
            serial,
        )
        for client, function, content, begun_at, outcome, completed_at, result, incarnation, serial in zip(
            _list(begun, "process"),
            functions,
            contents,
            _list(begun, "time"),
            outcomes,
            _list(completed, "time"),
            results,
            pc.fill_null(completed["life"], 0).to_numpy().tolist(),
            _list(begun, "id"),
            strict=True,
        )
    ]


def unfinished_of(begun: pa.Table) -> list[Operation]:
    """Build operations that have no completion event."""
    columns = zip(*(_list(begun, name) for name in ("process", "f", "time", "id")), _json(begun), strict=True)
    return [
        Operation(client, function, value_of(function, content), seconds_of(time), serial=serial)
        for client, function, time, serial, content in columns
    ]


def _matched(events: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Split events into first events, their completions in the same order, and events without a counterpart."""
    processes = events["process"].combine_chunks().dictionary_encode().indices.to_numpy()
    ids, is_completed = events["id"].to_numpy(), pc.not_equal(events["type"], "invoke").to_numpy()
    order = np.lexsort((is_completed, ids, processes))
    processes, ids, is_completed = processes[order], ids[order], is_completed[order]
    is_same = (processes[1:] == processes[:-1]) & (ids[1:] == ids[:-1])
    first = np.flatnonzero(is_same & ~is_completed[:-1] & is_completed[1:])
    is_left = np.ones(len(order), np.bool_)
    is_left[order[first]] = is_left[order[first + 1]] = False
    return events.take(order[first]), events.take(order[first + 1]), events.filter(pa.array(is_left))


def _list(table: pa.Table, name: str) -> list[Any]:
    content: list[Any] = table[name].to_numpy().tolist()
    return content


def _json(table: pa.Table) -> Sequence[Any]:
    """The values of events. Parsing all texts as one JSON array takes half the time."""
    (text,) = pc.binary_join(pa.ListArray.from_arrays([0, len(table)], table["value"].combine_chunks()), ",")
    contents: list[Any] = json.loads(f"[{text}]")
    if len(contents) != len(table):
        raise BadJournal(f"{len(table)} values have {len(contents)} texts of JSON")
    return contents
