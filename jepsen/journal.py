"""Histories as files: one line of JSON when an operation is invoked, and one when its client knows the outcome.

    {"time": 1200000000, "process": "p0", "id": 7, "type": "invoke", "f": "send", "value": {"topic": "queue", ...}}
    {"time": 1203100000, "process": "p0", "id": 7, "type": "ok", "f": "send", "value": 42}

`time` is in nanoseconds since the run began. `id` counts the operations of its process, so the lines of several files
can be read as one history, in any order. `value` is first the argument, then the result or the reason why there is
none. Fields that have their defaults, and an incarnation of 0, may be left out (see `jepsen.history.Operation`).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import attrs

from jepsen import recorded_values, share_values, values
from jepsen.collection import no_collection
from jepsen.history import History, Operation, Outcome

_NANOSECONDS: Final = 1_000_000_000
# The classes of arguments and of successful results, by function. All others are plain JSON values.
VALUES: Final[dict[str, type[Any]]] = {
    "create-topic": values.WantedTopic,
    "share-topic": values.Change,
    "grow-topic": values.Change,
    "drop-topic": values.Change,
    "see-topic": values.Change,
    "send": values.Sending,
    "poll": values.Polling,
    "assign": values.Ownership,
    "revoke": values.Ownership,
    "lose": values.Ownership,
    "poll-group": values.GroupPoll,
    "seek": recorded_values.Seek,
    "process": recorded_values.Processing,
    "scan": recorded_values.Scan,
    "unrecorded": recorded_values.Unrecorded,
    "commit": values.Commit,
    "fetch-committed": values.CommittedRead,
    "transact": values.Transaction,
    "end-transaction": values.Decision,
    "poll-transaction": values.TransactionPoll,
    "final-offsets": values.GroupOffsets,
    "read-replica": values.ReplicaRead,
    "heal": values.Healing,
    "share-group": share_values.ShareGroupSettings,
    "acquire": share_values.Acquiring,
    "acknowledge": share_values.Acknowledging,
}
RESULTS: Final[dict[str, type[Any]]] = {
    "read-replica": values.ReplicaLog,
    "acquire": share_values.Acquired,
    "read-share-states": share_values.StoredWrites,
}
# Times of events are 64 bits.
_TIME_MAX: Final = 2**63
_TYPES: Final = frozenset({"invoke", *(each.value for each in Outcome)})


class Lines(Protocol):
    """A binary file. Several threads may share it, because each line is written by one call."""

    def write(self, data: bytes, /) -> Any: ...


class Journal:
    """Writes each operation of a history to a file as it happens. Pass `note` to `History`."""

    def __init__(self, file: Lines) -> None:
        self._file = file

    def note(self, operation: Operation) -> None:
        is_begun = operation.completed_at is None
        self._file.write(json.dumps(_begun(operation) if is_begun else _completed(operation)).encode() + b"\n")


class BadJournal(Exception):
    """The file is not a valid history."""


def read_history(lines: Iterable[bytes]) -> History:
    """Read a history from the lines of its files, ordered by invocation. Raises BadJournal.

    An incomplete last line is skipped: its process was killed while it wrote.
    """
    return read_histories([lines])


def read_histories(files: Iterable[Iterable[bytes]]) -> History:
    """Read one history from the lines of several files, as `read_history` does. Raises BadJournal."""
    history = History(lambda: 0.0)
    with no_collection():
        history.operations = operations_of(event for lines in files for event in parsed_lines(lines))
    return history


def operations_of(events: Iterable[Mapping[str, Any]]) -> list[Operation]:
    """The operations, ordered by the time of invocation and then by client. Raises BadJournal."""
    operations: dict[tuple[str, int], Operation] = {}
    completions = []
    for event in events:
        if event["type"] == "invoke":
            operation = _operation(event)
            operations[operation.client, operation.serial] = operation
        else:
            completions.append(event)
    for event in completions:
        begun = operations.get((event["process"], event["id"]))
        if begun is None:
            raise BadJournal(f"{event['process']} completes its operation {event['id']}, which it never began")
        _complete(begun, event)
    return sorted(operations.values(), key=lambda each: (each.invoked_at, each.client, each.serial))


def write_history(history: History, file: Lines) -> None:
    """Write a complete history, in order of time."""
    begun = [(each.invoked_at, _begun(each)) for each in history.operations]
    completed = [(each.completed_at, _completed(each)) for each in history.operations if each.completed_at is not None]
    for _, event in sorted(begun + completed, key=lambda timed: timed[0]):
        file.write(json.dumps(event).encode() + b"\n")


def events_of(operation: Operation) -> list[dict[str, Any]]:
    """The one or two events of an operation, as dicts for JSON."""
    begun = _begun(operation)
    return [begun] if operation.completed_at is None else [begun, _completed(operation)]


def _begun(operation: Operation) -> dict[str, Any]:
    return _event(operation, operation.invoked_at, "invoke", operation.value)


def _completed(operation: Operation) -> dict[str, Any]:
    assert operation.completed_at is not None, operation
    event = _event(operation, operation.completed_at, operation.outcome.value, operation.result)
    return event | {"life": operation.incarnation} if operation.incarnation else event


def _event(operation: Operation, seconds: float, kind: str, value: object) -> dict[str, Any]:
    return {
        "time": round(seconds * _NANOSECONDS),
        "process": operation.client,
        "id": operation.serial,
        "type": kind,
        "f": operation.function,
        "value": plain(value),
    }


def plain(value: Any) -> Any:
    """Convert an argument or a result to JSON types: objects become dicts."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    return value


def parsed_lines(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    """The events in the lines of one file. Raises BadJournal; an incomplete last line is skipped."""
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            if not line.endswith(b"\n"):
                continue
            raise BadJournal(f"line {number}: {error}") from error
        if not isinstance(event, dict) or not _is_event(event):
            raise BadJournal(f"line {number} is not an operation: {str(event)[:100]}")
        yield event


def _is_event(event: dict[str, Any]) -> bool:
    get = event.get
    return (
        "value" in event
        and type(get("type")) is str
        and event["type"] in _TYPES
        and type(get("time")) is int
        and type(get("id")) is int
        and type(get("process")) is str
        and type(get("f")) is str
        and abs(event["time"]) <= _TIME_MAX
    )


def value_of(function: str, content: Any) -> Any:
    """Restore the argument of an operation from its JSON."""
    return _made(VALUES.get(function), content)


def result_of(function: str, outcome: Outcome, content: Any) -> Any:
    """Restore the result of an operation from its JSON."""
    if outcome is not Outcome.OK:
        return content
    if function == "list-topics":
        return {name: _made(values.SeenTopic, each) for name, each in content.items()}
    return _made(RESULTS.get(function), content)


def seconds_of(time: int) -> float:
    """Convert the time of an event, in nanoseconds, to the time of an operation, in seconds."""
    return time / _NANOSECONDS


def _operation(event: Mapping[str, Any]) -> Operation:
    function = event["f"]
    value = value_of(function, event["value"])
    return Operation(event["process"], function, value, seconds_of(event["time"]), serial=event["id"])


def _complete(operation: Operation, event: Mapping[str, Any]) -> None:
    operation.outcome = Outcome(event["type"])
    operation.completed_at = seconds_of(event["time"])
    operation.incarnation = event.get("life", 0)
    operation.result = result_of(operation.function, operation.outcome, event["value"])
    place(operation)


def place(operation: Operation) -> None:
    """Move the partition of a send from its result to its value, where the partition was not known before."""
    result = operation.result
    if operation.function == "send" and operation.outcome is Outcome.OK and type(result) is tuple and len(result) == 2:
        partition, operation.result = result
        operation.value = attrs.evolve(operation.value, partition=partition)


def _made(cls: type[Any] | None, content: Any) -> Any:
    if cls is None:
        return _tuples(content)
    try:
        return cls(**{name: _tuples(each) if type(each) is list else each for name, each in content.items()})
    except (AttributeError, TypeError) as error:
        raise BadJournal(f"{str(content)[:100]} is no {cls.__name__}: {error}") from error


def _tuples(content: Any) -> Any:
    """Convert lists to tuples: values are immutable, and some are used as keys."""
    if type(content) is not list:
        return content
    return tuple([_tuples(each) if type(each) is list else each for each in content])
