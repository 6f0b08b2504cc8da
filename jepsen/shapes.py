"""The shapes of operations: which types their arguments and results have. Checkers rely on them.

A history comes from a file, which may be damaged. The functions that are not listed have results of any kind.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, TypeAlias, get_args, get_origin

import attrs

from jepsen.history import Operation, Outcome
from jepsen.journal import VALUES, BadJournal

Shape: TypeAlias = Callable[[Any], bool]
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
    if operation.function not in VALUES:
        return
    for name, conforms in _fields(operation.function):
        given = getattr(value, name)
        if not conforms(given):
            raise BadJournal(f"{operation.client} {operation.function}: {name} is {_brief(given)}")
    if operation.function == "send" and not value.values:
        raise BadJournal(f"{operation.client} sends nothing")
    kind = _RESULTS.get(operation.function)
    if kind is not None and operation.outcome is Outcome.OK and not _shape(kind)(operation.result):
        raise BadJournal(f"{operation.client} {operation.function}: the result is {_brief(operation.result)}")


@cache
def _fields(function: str) -> tuple[tuple[str, Shape], ...]:
    return tuple((field.name, _shape(field.type)) for field in attrs.fields(VALUES[function]))


@cache
def _shape(kind: Any) -> Shape:
    """The function that tells whether a value has a type."""
    if kind is int:
        return lambda value: type(value) is int and -_INTEGER_MAX <= value <= _INTEGER_MAX
    if isinstance(kind, UnionType):
        shapes = [_shape(each) for each in get_args(kind)]
        return lambda value: any(shape(value) for shape in shapes)
    if get_origin(kind) is not tuple:
        return lambda value: type(value) is kind
    first, *others = get_args(kind)
    element = _shape(first)
    if others == [...]:
        return lambda value: type(value) is tuple and all(map(element, value))
    shapes = [element, *(_shape(each) for each in others)]
    return lambda value: (
        type(value) is tuple
        and len(value) == len(shapes)
        and all(shape(each) for shape, each in zip(shapes, value, strict=True))
    )


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
