"""The shapes of a command's output: columns of a table and, in JSON, an object, a list, or an object on each line."""

import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Generic, TypeVar

import attrs

from broker.printable import printable_json

Row = TypeVar("Row")


class Kind(Enum):
    """How many objects there are, and how they are laid out."""

    ONE = "one object"
    LIST = "a list of objects"
    LINES = "one object a line"


@attrs.frozen
class Shape:
    """`item` is the attrs class of an object; its fields are the keys."""

    kind: Kind
    item: type[attrs.AttrsInstance]


@attrs.frozen
class Column(Generic[Row]):
    """A column of a table. `value` makes a row's cell; `style` its colour on a terminal, "" for none."""

    heading: str
    value: Callable[[Row], object]
    is_number: bool = False
    style: Callable[[Row], str] | None = None


def one(item: type[attrs.AttrsInstance]) -> Shape:
    return Shape(Kind.ONE, item)


def list_of(item: type[attrs.AttrsInstance]) -> Shape:
    return Shape(Kind.LIST, item)


def lines_of(item: type[attrs.AttrsInstance]) -> Shape:
    return Shape(Kind.LINES, item)


def to_json(items: object, *, indent: int | None = None) -> str:
    """JSON of attrs instances, and of lists and dicts of them, in which text is readable as far as it is printable."""
    return printable_json(json.dumps(items, default=_plain, ensure_ascii=False, indent=indent))


def describe_fields(item: type[attrs.AttrsInstance]) -> Iterator[tuple[str, str]]:
    """The keys of an object and the types of their values, as the command reference shows them."""
    hints = typing.get_type_hints(item)
    for field in attrs.fields(item):
        yield field.name, describe_type(hints[field.name])


def nested_items(item: type[attrs.AttrsInstance]) -> Iterator[type[attrs.AttrsInstance]]:
    """The classes of the objects in an object, outermost first."""
    for hint in typing.get_type_hints(item).values():
        for part in _parts(hint):
            if isinstance(part, type) and attrs.has(part):
                yield part
                yield from nested_items(part)


def describe_type(hint: Any, ending: str = "") -> str:
    """A type in the words of JSON. `ending` is the "s" of a plural."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(describe_type(argument, ending) for argument in arguments)
    if origin is not None and arguments:
        if isinstance(origin, type) and issubclass(origin, dict):
            return f"object{ending} of {describe_type(arguments[1], 's')}"
        return f"list{ending} of {describe_type(arguments[0], 's')}"
    names = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
    return names.get(hint, getattr(hint, "__name__", str(hint))) + ending


def _parts(hint: Any) -> Iterable[Any]:
    arguments = typing.get_args(hint)
    return [part for argument in arguments for part in _parts(argument)] if arguments else [hint]


def _plain(value: object) -> object:
    if isinstance(value, type) or not attrs.has(type(value)):
        raise TypeError(f"{value!r} cannot be represented in JSON")
    return attrs.asdict(value, recurse=False)  # type: ignore[arg-type]
