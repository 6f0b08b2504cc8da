"""HTML and SVG markup, in which every text is escaped exactly once."""

from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias

from broker.printable import printable

# HTML elements without content and end tag.
_VOID: Final = ("meta", "br", "link")
_LAYOUT: Final = "\n\t"


class Markup(str):
    """Text that is already escaped."""

    __slots__ = ()


Content: TypeAlias = "str | Markup | Iterable[Content] | None"


def element(tag: str, /, *content: Content, **attributes: str | float | None) -> Markup:
    """Render an element. `class_` becomes class, and other underscores become hyphens.

    Attributes that are None are left out.
    """
    written = "".join(f' {_name(name)}="{_value(value)}"' for name, value in attributes.items() if value is not None)
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(content)}</{tag}>")


def join(content: Content) -> Markup:
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(printable(content, keep=_LAYOUT), quote=False))
    return Markup("".join(map(join, content)))


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    """Format an attribute. Coordinates are rounded to a hundredth of a pixel."""
    if isinstance(value, str):
        return escape(printable(value, keep=_LAYOUT))
    return f"{value:.2f}".rstrip("0").rstrip(".")
