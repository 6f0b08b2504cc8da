"""The interface of checks of arguments, and how they refuse a value."""

from typing import Any, Final, Protocol

import attrs

from broker.client.errors import WrongValue

_SHOWN_MAX: Final = 80


@attrs.frozen
class Between:
    """The range of a number, in its annotation: `Annotated[int, Between(0, 10)]`. Both ends are included."""

    lowest: int
    highest: int


@attrs.frozen
class Bytes:
    """The length of a bytes object, in its annotation."""

    size: int


class WrongArgument(Exception):
    """Why a value is refused; `place` is where it is within the argument, and grows on the way out."""

    def __init__(self, kind: type[TypeError] | type[WrongValue], reason: str) -> None:
        super().__init__(reason)
        self._kind = kind
        self._reason = reason
        self._place = ""

    def inside(self, place: str) -> "WrongArgument":
        self._place = place + self._place
        return self

    def error(self, name: str) -> TypeError | WrongValue:
        return self._kind(f"{name}{self._place} {self._reason}")


class Check(Protocol):
    """Reads values of one type. `name` is for messages."""

    @property
    def name(self) -> str: ...

    def takes(self, value: object) -> bool:
        """True if the value has the type, whatever is in it."""

    def read(self, value: Any) -> Any:
        """Returns the value as the library uses it. Raises WrongArgument."""


def with_article(noun: str) -> str:
    """The noun with "a" or "an"."""
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"


def shown(value: object) -> str:
    """A short text of any value: its representation, or its type where it has none."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - it is the caller's object
        return with_article(type(value).__name__)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def wrong_type(needed: str, value: object) -> WrongArgument:
    """The refusal of a value that has another type."""
    return WrongArgument(TypeError, f"must be {needed}, not {'None' if value is None else type(value).__name__}")
