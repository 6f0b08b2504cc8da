"""The check of an annotation."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from broker.client.arguments.check import Between, Bytes, Check, with_article
from broker.client.arguments.composites import Attributes, Either, Entries, Fields, Items, Positions
from broker.client.arguments.scalars import (
    INT64,
    Anything,
    Binary,
    Choice,
    Flag,
    Function,
    HasMethods,
    Instance,
    Pattern,
    Real,
    Text,
    Whole,
)

_SIMPLE: Final[Mapping[Any, Callable[[], Check]]] = {
    Any: Anything,
    object: Anything,
    str: Text,
    bytes: Binary,
    bool: Flag,
    int: lambda: Whole(*INT64),
    float: Real,
    NoneType: lambda: Instance(NoneType, "None"),
}


@cache
def check_of(hint: Any) -> Check:
    """The check of an annotation."""
    origin, parts = get_origin(hint), get_args(hint)
    if isinstance(hint, TypeVar):
        return Anything()
    if (simple := _SIMPLE.get(hint)) is not None:
        return simple()
    if origin is Annotated:
        return _bounded(*parts)
    if origin in (Union, UnionType):
        return Either(tuple(check_of(part) for part in parts))
    if origin is Literal:
        return Choice(parts)
    if hint is re.Pattern or origin is re.Pattern:
        return Pattern()
    if origin is not None:
        return _check_of_generic(origin, parts)
    return _check_of_class(hint)


def _bounded(hint: Any, bound: Between | Bytes) -> Check:
    return Whole(bound.lowest, bound.highest) if isinstance(bound, Between) else Binary(bound.size)


def _check_of_generic(origin: Any, parts: tuple[Any, ...]) -> Check:
    if getattr(origin, "_is_protocol", False) or hasattr(origin, "_fields"):
        return _check_of_class(origin)
    if origin is Callable:
        return Function()
    if issubclass(origin, Mapping):
        return Entries(check_of(parts[0]), check_of(parts[1]))
    if origin is tuple and parts[-1] is not ...:
        return Positions(tuple(check_of(part) for part in parts))
    if issubclass(origin, Iterable):
        return Items(check_of(parts[0]))
    return _check_of_class(origin)


def _check_of_class(hint: Any) -> Check:
    assert isinstance(hint, type), f"an annotation of a public call has a check: {hint}"
    if hasattr(hint, "_fields"):
        return Fields(hint, _field_checks(hint, hint._fields))
    if attrs.has(hint):
        return Attributes(hint, _field_checks(hint, [each.name for each in attrs.fields(hint) if each.init]))
    if getattr(hint, "_is_protocol", False):
        methods = [name for name in vars(hint) if name == "__call__" or not name.startswith("_")]
        return Function() if methods == ["__call__"] else HasMethods(hint.__name__, tuple(methods))
    return Instance(hint, with_article(hint.__name__))


def _field_checks(cls: type, names: Iterable[str]) -> tuple[tuple[str, Check], ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple((name, check_of(hints[name])) for name in names)
