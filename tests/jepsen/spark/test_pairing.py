"""Events are paired to the same operations, however they are distributed over batches and tasks."""

import json
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from jepsen.history import Operation
from jepsen.journal import events_of, operations_of
from jepsen.spark import pairing
from jepsen.spark.events import COLUMNS
from jepsen.spark.packing import COUNT, EVENTS, PackedRow, Packing, batch_of, rows_of
from jepsen.spark.pairing import portions
from jepsen.spark.projections import Projection
from jepsen.spark.reading import UNBEGUN, completing, reading
from tests.support.random_histories import RandomHistory

PROJECTIONS = tuple(Projection)


def events_in_batches(events: Sequence[dict[str, Any]], size: int) -> list[pa.RecordBatch]:
    rows = [{"life": None, **event, "value": json.dumps(event["value"])} for event in events]
    return [pa.RecordBatch.from_pylist(rows[at : at + size], COLUMNS) for at in range(0, len(rows), size)]


def rows_after_both_stages(tasks: Iterable[list[pa.RecordBatch]]) -> tuple[list[PackedRow], list[PackedRow]]:
    """The rows of all parts, and those of events that were exchanged between tasks."""
    rows = [row for batches in tasks for row in rows_of(reading(PROJECTIONS)(iter(batches)))]
    left = sorted(row for row in rows if row[0] == EVENTS)
    completed = rows_of(completing(PROJECTIONS)(iter([batch_of(left)])))
    return [*(row for row in rows if row[0] != EVENTS), *completed], left


def parts_of(rows: Iterable[PackedRow]) -> list[tuple[str, str, str]]:
    names = {each.value for each in Projection}
    packing = Packing()
    return sorted(
        (kind, key, str(operation))
        for kind, key, content in rows
        if kind in names
        for operation in packing.unpack_operations(content)
    )


def counts_of(rows: Iterable[PackedRow]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, key, content in rows:
        if kind == COUNT:
            found[key] = found.get(key, 0) + Packing().unpack(content)
    return found


def in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(events, key=lambda event: event["time"])


def shuffled(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return Random(1).sample(events, len(events))


def completions_first(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(events, key=lambda event: event["type"] == "invoke")


@pytest.mark.parametrize("arranged", [in_order, shuffled, completions_first])
@pytest.mark.parametrize("tasks", [1, 3])
def test_parts_do_not_depend_on_where_the_events_are(
    arranged: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = RandomHistory(seed=5, batches=10).history
    history.operations += [Operation("silent", "send", history.operations[3].value, 1.0, serial=at) for at in range(3)]
    events = [event for operation in history.operations for event in events_of(operation)]
    expected = parts_of(rows_after_both_stages([events_in_batches(events, len(events))])[0])
    monkeypatch.setattr(pairing, "_EVENTS", 50)
    monkeypatch.setattr(pairing, "_WAITING_MAX", 100)
    batches = events_in_batches(arranged(events), 20)
    rows, left = rows_after_both_stages([batches[task::tasks] for task in range(tasks)])
    assert parts_of(rows) == expected
    assert counts_of(rows) == history.counts()
    assert left, "operations without an end are exchanged at least"


def test_operations_are_those_of_the_journal() -> None:
    history = RandomHistory(seed=6, anomalies=9).history
    events = [event for operation in history.operations for event in events_of(operation)]
    (table,) = portions(iter(events_in_batches(events, 10_000)))
    made = sorted(pairing.Pairing().operations(table), key=lambda each: (each.invoked_at, each.client, each.serial))
    assert [str(each) for each in made] == [str(each) for each in operations_of(events)]
    packing = Packing()
    again = packing.unpack_operations(packing.pack_operations(made))
    assert [str(each) for each in again] == [str(each) for each in made]


def test_completion_without_a_beginning_is_counted() -> None:
    event = {"time": 1, "process": "p", "id": 0, "type": "ok", "f": "read", "value": None}
    rows, _ = rows_after_both_stages([events_in_batches([event, {**event, "id": 1}], 1)])
    assert counts_of(rows) == {UNBEGUN: 2}


def test_value_that_is_not_one_text_of_json_is_refused() -> None:
    row = {"time": 1, "process": "p", "id": 0, "type": "invoke", "f": "read", "value": "1, 2", "life": None}
    table = pa.Table.from_pylist([row, {**row, "type": "ok", "value": "3"}], COLUMNS)
    with pytest.raises(pairing.BadJournal, match="1 values have 2 texts of JSON"):
        pairing.Pairing().operations(table)
