"""Random messages of kio, another implementation of Kafka's protocol."""

import dataclasses
import datetime
import enum
import types
import typing
import uuid
from functools import cache
from random import Random
from typing import Any, Final

from kio.static.primitive import Interval, Records, TZAware, f64, i32Timedelta, i64Timedelta

EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)
# kio decodes times as dates and differences of them, whose ranges are smaller than those of Kafka's integers.
_TIME_MS_MAX: Final = 1 << 41
_DELTA_I32_MS_MAX: Final = (1 << 31) - 1
# Each size of the characters' UTF-8.
_CHARACTERS: Final = "aZ0\0 \x7f\xe9\u0439\u20ac\ud7ff\U0001f600\U0010ffff"
# Lengths below and above those of which a compact length has one byte.
_LENGTHS: Final = (0, 1, 2, 5, 126, 127, 128, 200)
_ITEMS_MAX: Final = 3


def random_kio_message(cls: Any, rng: Random) -> Any:
    """A random instance of a message of kio. Integers are often at the ends of their ranges, lists often empty."""
    return cls(**{name: _value(type_, rng) for name, type_ in _types_of_fields(cls)})


@cache
def _types_of_fields(cls: Any) -> tuple[tuple[str, Any], ...]:
    types_by_name = typing.get_type_hints(cls)
    return tuple((field.name, types_by_name[field.name]) for field in dataclasses.fields(cls))


def _value(type_: Any, rng: Random) -> Any:
    if isinstance(type_, types.UnionType):
        (present,) = (each for each in typing.get_args(type_) if each is not types.NoneType)
        return None if rng.random() < 0.3 else _value(present, rng)
    if typing.get_origin(type_) is tuple:
        items = rng.randint(0, _ITEMS_MAX)
        return tuple(_value(typing.get_args(type_)[0], rng) for _ in range(items))
    if dataclasses.is_dataclass(type_):
        return random_kio_message(type_, rng)
    return _plain_value(type_, rng)


def _plain_value(type_: Any, rng: Random) -> Any:
    if issubclass(type_, enum.Enum):
        return rng.choice(list(type_))
    if issubclass(type_, bool):
        return rng.random() < 0.5
    if issubclass(type_, Interval):
        return _integer(type_.__low__, type_.__high__, rng)
    if issubclass(type_, f64):
        return rng.choice((0.0, -0.0, 5e-324, 1.7976931348623157e308, rng.uniform(-1e9, 1e9)))
    if issubclass(type_, str):
        return "".join(rng.choices(_CHARACTERS, k=rng.choice(_LENGTHS)))
    if issubclass(type_, bytes):
        data = rng.randbytes(rng.choice(_LENGTHS))
        return Records(data) if type_ is Records else data
    if issubclass(type_, uuid.UUID):
        return uuid.UUID(bytes=rng.randbytes(16))
    if issubclass(type_, i32Timedelta):
        return _integer(-_DELTA_I32_MS_MAX - 1, _DELTA_I32_MS_MAX, rng) * MILLISECOND
    if issubclass(type_, i64Timedelta):
        return _integer(-_TIME_MS_MAX, _TIME_MS_MAX, rng) * MILLISECOND
    assert issubclass(type_, TZAware), type_
    return EPOCH + _integer(0, _TIME_MS_MAX, rng) * MILLISECOND


def _integer(low: int, high: int, rng: Random) -> int:
    """A small number, an end of the range, or any number of it."""
    small = rng.randint(max(low, -2), min(high, 128))
    return rng.choice((small, low, high, rng.randint(low, high), rng.randint(low, high)))
