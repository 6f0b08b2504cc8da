"""The operations of a recorder as sentences, for findings and timelines."""

from collections.abc import Iterable
from typing import Any, Final

from broker.printable import printable
from jepsen.checkers.records import name_of
from jepsen.history import Operation, Outcome

_LINE_MAX: Final = 200
_RECORDS_MAX: Final = 6
_STATES: Final = {Outcome.FAIL: "refused", Outcome.INFO: "outcome unknown"}


def operation_text(operation: Operation) -> str:
    """The client, what it did, and what it was told, in one printable line."""
    text = printable(f"{operation.client} {_done(operation)}{_told(operation)}")
    return text if len(text) <= _LINE_MAX else f"{text[:_LINE_MAX]}..."


def _done(operation: Operation) -> str:
    value = operation.value
    match operation.function:
        case "send":
            where = value.topic if value.partition < 0 else name_of((value.topic, value.partition))
            within = f" in transaction {value.transaction}" if value.transaction else ""
            return f"sends {value.values[0]} to {where}{within}"
        case "poll" | "poll-group":
            return f"receives {_records(operation)} of {name_of((value.topic, value.partition))}"
        case "scan":
            partition = name_of((value.topic, value.partition))
            return f"reads {partition} from {value.start} to {value.stop}: {_records(operation)}"
        case "commit":
            return f"commits {_offsets(value.offsets)} of {value.group}"
        case "fetch-committed":
            return f"finds {_offsets(operation.result or ())} committed by {value.group}"
        case "assign" | "revoke" | "lose":
            verb = {"assign": "is assigned", "revoke": "gives up", "lose": "loses"}[operation.function]
            return f"{verb} {', '.join(map(name_of, value.partitions))}"
        case "seek":
            to = "another position" if value.offset < 0 else str(value.offset)
            return f"seeks to {to} of {name_of((value.topic, value.partition))}"
        case "process":
            return f"processes {value.offset} of {name_of((value.topic, value.partition))} for {value.group}"
        case "end-transaction":
            return f"{'commits' if value.is_commit else 'aborts'} transaction {value.name}"
        case _:
            return f"{operation.function} {value}"


def _told(operation: Operation) -> str:
    if operation.outcome is Outcome.OK:
        is_placed = operation.function == "send" and operation.result is not None
        return f": written at {operation.result}" if is_placed else ""
    reason = "" if operation.result is None else f", {operation.result}"
    return f": {_STATES[operation.outcome]}{reason}"


def _records(operation: Operation) -> str:
    records = operation.result if operation.outcome is Outcome.OK else ()
    shown = ", ".join(f"{offset} {name}" for offset, name in records[:_RECORDS_MAX])
    return f"{shown}, ..." if len(records) > _RECORDS_MAX else shown or "no record"


def _offsets(offsets: Iterable[tuple[Any, ...]]) -> str:
    return ", ".join(f"{offset} of {name_of((topic, index))}" for topic, index, offset in offsets)
