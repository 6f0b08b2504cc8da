"""Checks of values that have other values in them: collections, named tuples, attrs classes, and alternatives."""

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from broker.client.arguments.check import Check, WrongArgument, shown, with_article, wrong_type


@attrs.frozen
class Items:
    """Several values, which are read into a list. Text and bytes are one value each, not several."""

    item: Check

    @property
    def name(self) -> str:
        return f"an iterable of {self.item.name}"

    def takes(self, value: object) -> bool:
        return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | memoryview)

    def read(self, value: Any) -> Any:
        if not self.takes(value):
            raise wrong_type(f"{self.name}, such as a list", value)
        items = []
        for number, item in enumerate(value):
            try:
                items.append(self.item.read(item))
            except WrongArgument as wrong:
                raise wrong.inside(f"[{number}]") from None
        return items


@attrs.frozen
class Positions:
    """A tuple or list with one value for each of `checks`, which is read into a tuple."""

    checks: tuple[Check, ...]

    @property
    def name(self) -> str:
        return f"a tuple of {', '.join(check.name for check in self.checks)}"

    def takes(self, value: object) -> bool:
        return isinstance(value, tuple | list) and len(value) == len(self.checks)

    def read(self, value: Any) -> Any:
        if not self.takes(value):
            raise wrong_type(self.name, value)
        items = []
        for number, (check, item) in enumerate(zip(self.checks, value, strict=True)):
            try:
                items.append(check.read(item))
            except WrongArgument as wrong:
                raise wrong.inside(f"[{number}]") from None
        return tuple(items)


@attrs.frozen
class Entries:
    """A mapping, which is read into a dict."""

    key: Check
    value: Check

    @property
    def name(self) -> str:
        return f"a mapping of {self.key.name} to {self.value.name}"

    def takes(self, value: object) -> bool:
        return isinstance(value, Mapping)

    def read(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise wrong_type(f"{self.name}, such as a dict", value)
        entries = {}
        for key, content in value.items():
            try:
                read_key = self.key.read(key)
            except WrongArgument as wrong:
                raise wrong.inside(f": the key {shown(key)}") from None
            try:
                entries[read_key] = self.value.read(content)
            except WrongArgument as wrong:
                raise wrong.inside(f"[{shown(key)}]") from None
        return entries


@attrs.frozen
class _Instance:
    """An object of `type`, with the checks of its fields by their names."""

    type: Any
    fields: tuple[tuple[str, Check], ...]

    @property
    def name(self) -> str:
        return with_article(self.type.__name__)

    def _read_field(self, name: str, check: Check, content: object) -> Any:
        try:
            return check.read(content)
        except WrongArgument as wrong:
            raise wrong.inside(f".{name}") from None


@attrs.frozen
class Fields(_Instance):
    """A named tuple, or a plain tuple of the same form."""

    def takes(self, value: object) -> bool:
        required = len(self.fields) - len(self.type._field_defaults)
        return isinstance(value, self.type) or (type(value) is tuple and required <= len(value) <= len(self.fields))

    def read(self, value: Any) -> Any:
        if type(value) is not self.type and not self.takes(value):
            raise wrong_type(self.name, value)
        contents = zip(self.fields, value, strict=False)
        return self.type(*[self._read_field(name, check, content) for (name, check), content in contents])


@attrs.frozen
class Attributes(_Instance):
    """An object of an attrs class."""

    def takes(self, value: object) -> bool:
        return isinstance(value, self.type)

    def read(self, value: Any) -> Any:
        if not isinstance(value, self.type):
            raise wrong_type(self.name, value)
        read = {name: self._read_field(name, check, getattr(value, name)) for name, check in self.fields}
        return attrs.evolve(value, **read)


@attrs.frozen
class Either:
    options: tuple[Check, ...]

    @property
    def name(self) -> str:
        return " or ".join(option.name for option in self.options)

    def takes(self, value: object) -> bool:
        return any(option.takes(value) for option in self.options)

    def read(self, value: Any) -> Any:
        for option in self.options:
            if option.takes(value):
                return option.read(value)
        raise wrong_type(self.name, value)
