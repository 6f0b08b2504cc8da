"""Checks of single values: text, bytes, numbers, functions and objects of the caller's.

Numbers have the range of their annotation (`Between`), or that of a signed 64-bit number. Floats are durations and
rates, so they are not negative.
"""

import re
from enum import Enum
from math import inf
from operator import index
from typing import Any, Final

import attrs

from broker.client.arguments.check import WrongArgument, shown, wrong_type
from broker.client.errors import WrongValue

INT64: Final = (-(2**63), 2**63 - 1)
# Kafka's strings have their length in a signed 16-bit number.
_STRING_BYTES_MAX: Final = 32_767


class Anything:
    name: Final = "anything"

    def takes(self, value: object) -> bool:
        return True

    def read(self, value: Any) -> Any:
        return value


@attrs.frozen
class Instance:
    """An object of a class, which is used as it is."""

    type: Any
    name: str

    def takes(self, value: object) -> bool:
        return isinstance(value, self.type)

    def read(self, value: Any) -> Any:
        if not isinstance(value, self.type):
            raise wrong_type(self.name, value)
        return value


class Text:
    name: Final = "str"

    def takes(self, value: object) -> bool:
        return isinstance(value, str)

    def read(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise wrong_type(self.name, value)
        if not value.isascii() or len(value) > _STRING_BYTES_MAX:
            check_text(value)
        return value


def check_text(value: str) -> None:
    """Raises WrongArgument for text that no string of the protocol can hold."""
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as error:
        reason = f"cannot be written in UTF-8: it has a lone surrogate at index {error.start}"
        raise WrongArgument(WrongValue, reason) from None
    if size > _STRING_BYTES_MAX:
        raise WrongArgument(WrongValue, f"has {size} bytes; a string has at most {_STRING_BYTES_MAX}")


@attrs.frozen
class Binary:
    size: int | None = None
    name: str = "bytes"

    def takes(self, value: object) -> bool:
        return isinstance(value, bytes)

    def read(self, value: Any) -> Any:
        if not isinstance(value, bytes):
            raise wrong_type(self.name, value)
        if self.size is not None and len(value) != self.size:
            raise WrongArgument(WrongValue, f"must have {self.size} bytes, not {len(value)}")
        return value


class Flag:
    name: Final = "bool"

    def takes(self, value: object) -> bool:
        return isinstance(value, bool)

    def read(self, value: Any) -> Any:
        if not isinstance(value, bool):
            raise wrong_type(self.name, value)
        return value


@attrs.frozen
class Whole:
    lowest: int
    highest: int
    name: str = "int"

    def takes(self, value: object) -> bool:
        return type(value) is int or whole(value) is not None

    def read(self, value: Any) -> Any:
        number = value if type(value) is int else whole(value)
        if number is None:
            raise wrong_type(self.name, value)
        if not self.lowest <= number <= self.highest:
            bound = f"at least {self.lowest}" if number < self.lowest else f"at most {self.highest}"
            reason = f"must be {bound}, not {shown(number)}"
            raise WrongArgument(WrongValue, reason)
        return number


def whole(value: Any) -> int | None:
    """The int that a value is, as numpy's integers are too; None for what is none, as True and enums are."""
    if type(value) is int:
        return value
    if isinstance(value, bool | Enum | type) or not hasattr(value, "__index__"):
        return None
    try:
        return index(value)
    except Exception:  # noqa: BLE001 - it is the caller's object
        return None


class Real:
    name: Final = "a number"

    def takes(self, value: object) -> bool:
        return isinstance(value, float) or whole(value) is not None

    def read(self, value: Any) -> Any:
        number = value if isinstance(value, float) else whole(value)
        if number is None:
            raise wrong_type(self.name, value)
        if not 0 <= number <= inf or (isinstance(number, int) and number > INT64[1]):
            raise WrongArgument(WrongValue, f"must be a number from 0 on, not {shown(value)}")
        return number


@attrs.frozen
class Choice:
    choices: tuple[Any, ...]

    @property
    def name(self) -> str:
        return f"one of {', '.join(map(repr, self.choices))}"

    def takes(self, value: object) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in self.choices)

    def read(self, value: Any) -> Any:
        if not self.takes(value):
            has_type = any(type(value) is type(choice) for choice in self.choices)
            if not has_type:
                raise wrong_type(self.name, value)
            raise WrongArgument(WrongValue, f"must be {self.name}, not {shown(value)}")
        return value


@attrs.frozen
class Function:
    name: str = "a function"

    def takes(self, value: object) -> bool:
        return callable(value)

    def read(self, value: Any) -> Any:
        if not callable(value):
            raise wrong_type(self.name, value)
        return value


@attrs.frozen
class HasMethods:
    """An object of the caller's that has the methods of a protocol."""

    name: str
    methods: tuple[str, ...]

    def takes(self, value: object) -> bool:
        try:
            return not isinstance(value, type) and all(hasattr(value, method) for method in self.methods)
        except Exception:  # noqa: BLE001 - it is the caller's object
            return False

    def read(self, value: Any) -> Any:
        if not self.takes(value):
            methods = ", ".join(self.methods)
            what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
            raise WrongArgument(TypeError, f"must be a {self.name}, an object with {methods}, not {what}")
        return value


@attrs.frozen
class Pattern:
    name: str = "a compiled pattern of text"

    def takes(self, value: object) -> bool:
        return isinstance(value, re.Pattern)

    def read(self, value: Any) -> Any:
        if not isinstance(value, re.Pattern) or not isinstance(value.pattern, str):
            raise wrong_type(self.name, value)
        return value
