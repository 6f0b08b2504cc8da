"""Responses as plain values that are equal where two servers agree.

Ids of a server get labels in the order in which they appear: the first producer id is `P0` on both servers.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from broker.wire.errors import ErrorCode
from broker.wire.records import iter_headers, iter_records
from broker.wire.records.control import control_type

# The kind of labels of the epochs of consumer groups.
EPOCH: Final = "E"
# The member id that requests name if they are to name none that exists.
UNKNOWN_MEMBER_ID: Final = "unknown-member"
_NO_ID: Final = -1
# Times that steps name are before this one, in ms since 1970; later ones are those of a server's clock.
_STEPS_UNTIL_MS: Final = 1_750_000_000_000
# The value of a key that only the other server has.
ABSENT: Final = "absent"
_ERRORS: Final = ("error_code", "error_message")
_ABORTED: Final = "aborted_transactions"


@attrs.define(eq=False)
class Labels:
    """The labels of one server's ids, by kind: `P` for producer ids, `T` for topic ids, `M` for ids of members, `E`
    for epochs of consumer groups.
    """

    _known: dict[str, dict[Any, str]] = attrs.field(factory=dict)

    def label(self, kind: str, value: Any) -> str:
        known = self._known.setdefault(kind, {})
        return known.setdefault(value, f"{kind}{len(known)}")

    def forget(self, kind: str) -> None:
        """The ids of this kind that appear from now on have nothing to do with the earlier ones."""
        self._known.pop(kind, None)


class _NoLabels(Labels):
    """Gives all ids of a kind the same label."""

    def label(self, kind: str, value: Any) -> str:
        return kind


_NO_LABELS: Final = _NoLabels()


def _producer_id(value: int, labels: Labels) -> Any:
    return value if value == _NO_ID else labels.label("P", value)


def _member_id(value: str | None, labels: Labels) -> str | None:
    return labels.label("M", value) if value and value != UNKNOWN_MEMBER_ID else value


def _epoch(value: int, labels: Labels) -> Any:
    """Epochs of consumer groups are compared by when they change: a change may raise them by one or by two."""
    return labels.label(EPOCH, value) if value > 0 else value


def _time(value: int, labels: Labels) -> Any:
    return value if value < _STEPS_UNTIL_MS else "time"


# How fields with these names are compared. A field that is not named is compared as it is.
FIELDS: Final[Mapping[str, Callable[[Any, Labels], Any]]] = {
    "producer_id": _producer_id,
    "member_id": _member_id,
    "leader": _member_id,
    "member_epoch": _epoch,
    "group_epoch": _epoch,
    "assignment_epoch": _epoch,
    "session_id": lambda value, labels: labels.label("S", value) if value > 0 else value,
    "topic_id": lambda value, labels: labels.label("T", bytes(value)) if any(value) else None,
    "transaction_start_time_ms": _time,
    "last_timestamp": _time,
    "log_append_time_ms": _time,
    "timestamp": _time,
    "records": lambda value, labels: records(value, labels),
    "throttle_time_ms": lambda value, labels: None,
    "node_endpoints": lambda value, labels: [],
}


def comparable(value: Any, labels: Labels) -> Any:
    """A message as dicts and lists. Lists are sorted, because few APIs promise an order.

    Errors decide last, so that two servers' results for the same thing are at the same place.
    """
    if hasattr(value, "__fields__"):
        names = [each.name for each in value.__fields__]
        return {
            name: _field(name, _of_readable(value) if name == _ABORTED else getattr(value, name), labels)
            for name in names
        }
    if isinstance(value, list):
        # Ids that are new get their labels in an order that does not depend on the server's.
        ordered = sorted(value, key=lambda each: _order(comparable(each, _NO_LABELS))) if len(value) > 1 else value
        return sorted((comparable(each, labels) for each in ordered), key=_order)
    return value


def _of_readable(partition: Any) -> Any:
    """The aborted transactions among the records of a partition that may be read; None if there are none.

    The client gets no records from the last stable offset on, or where the bytes of a response are used up. Kafka lists
    what has been aborted up to the log's end.
    """
    if not partition.records:
        return None
    listed, end_offset = partition.aborted_transactions or (), partition.last_stable_offset
    return [each for each in listed if each.first_offset < end_offset] or None


def _order(value: Any) -> tuple[str, str]:
    if not isinstance(value, dict):
        return repr(value), ""
    return repr({name: each for name, each in value.items() if not name.endswith(_ERRORS)}), repr(value)


def _field(name: str, value: Any, labels: Labels) -> Any:
    if name.endswith("error_code"):
        return error_name(value)
    convert = FIELDS.get(name)
    return comparable(value, labels) if convert is None else convert(value, labels)


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def records(data: Any, labels: Labels) -> Any:
    """The batches of a Fetch response, with the types of control records and the values of others."""
    if data is None:
        return None
    found = []
    for at, header in iter_headers(data):
        content = list(iter_records(data, at, header))
        values = [control_type(each.key).name if header.is_control else each.value for each in content]
        found.append(
            {
                "base_offset": header.base_offset,
                "producer_id": _producer_id(header.producer_id, labels),
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "leader_epoch": header.partition_leader_epoch,
                "max_timestamp": _time(header.max_timestamp, labels),
                "compression": header.compression.name,
                "is_transactional": header.is_transactional,
                "values": values,
            }
        )
    return found


def differing_paths(one: Any, other: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """The innermost places at which two comparable values differ, with both values: `topics[0].error_code`."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        within = f"{path}." if path else ""
        found = [differing_paths(one.get(key, ABSENT), other.get(key, ABSENT), within + key) for key in keys]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        found = [differing_paths(a, b, f"{path}[{at}]") for at, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return [] if one == other else [(path, one, other)]
    return [each for inner in found for each in inner]


def brief(value: Any) -> str:
    """A comparable value on one line, without the fields that say nothing."""
    if isinstance(value, dict):
        kept = {key: inner for key, each in value.items() if (inner := brief(each)) not in _NOTHING}
        return f"{{{' '.join(f'{key}={inner}' for key, inner in kept.items())}}}"
    if isinstance(value, list):
        return f"[{' '.join(map(brief, value))}]"
    return value if isinstance(value, str) else repr(value)


_NOTHING: Final = ("", "None", "NONE", "-1", "[]", "{}")
