"""The shapes of operations: which types their arguments and results have. Checkers rely on them.

A history comes from a file, which may be damaged. The functions that are not listed have results of any kind.
"""

from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, TypeAlias, get_args, get_origin

import attrs

from jepsen.history import Operation, Outcome
from jepsen.journal import VALUES, BadJournal

_Records: TypeAlias = tuple[tuple[int, str], ...]
_RESULTS: Final[Mapping[str, Any]] = {
    "send": int | None,
    "poll": _Records,
    "poll-group": _Records,
    "poll-transaction": _Records,
    "scan": _Records,
    "fetch-committed": tuple[tuple[str, int, int], ...],
}
# Kafka's offsets are 64 bits. Larger integers would have any size.
_INTEGER_MAX: Final = 2**63 - 1


def check_shape(operation: Operation) -> None:
    """Raises BadJournal if the argument or the result of a recorder's operation has a wrong type."""
    value = operation.value
    cls = VALUES.get(operation.function)
    if cls is None:
        return
    for field in attrs.fields(cls):
        given = getattr(value, field.name)
        if not _conforms(given, field.type):
            raise BadJournal(f"{operation.client} {operation.function}: {field.name} is {_brief(given)}")
    if operation.function == "send" and not value.values:
        raise BadJournal(f"{operation.client} sends nothing")
    result = _RESULTS.get(operation.function, Any)
    if operation.outcome is Outcome.OK and not _conforms(operation.result, result):
        raise BadJournal(f"{operation.client} {operation.function}: the result is {_brief(operation.result)}")


def _conforms(value: Any, kind: Any) -> bool:
    if kind is int:
        return type(value) is int and -_INTEGER_MAX <= value <= _INTEGER_MAX
    if isinstance(kind, UnionType):
        return any(_conforms(value, each) for each in get_args(kind))
    if get_origin(kind) is not tuple:
        return kind is Any or type(value) is kind or (kind is None.__class__ and value is None)
    of, *others = get_args(kind)
    if type(value) is not tuple:
        return False
    if others == [...]:
        return all(_conforms(each, of) for each in value)
    return len(value) == len(others) + 1 and all(map(_conforms, value, (of, *others)))


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
