"""The names of metrics and labels in an expression of PromQL, for checks against the catalogue.

Reads the part of PromQL that the dashboard and the alert rules use. Prometheus itself reads them in
`make test-prometheus`.
"""

import re
from typing import Final

import attrs

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<text>"[^"\\]*")|(?P<window>\[[^\]]*\])|(?P<number>[0-9.]+)"""
    r"""|(?P<sign>==|!=|>=|<=|=~|[-+*/<>=(){},]))"""
)
_FUNCTIONS: Final = frozenset(
    ("abs", "sum", "max", "min", "rate", "increase", "changes", "histogram_quantile", "timestamp", "vector")
)
_OPERATORS: Final = {"and", "or", "unless"}


@attrs.define
class Names:
    """The metrics, the labels that series are grouped or selected by, and the windows of an expression."""

    metrics: set[str] = attrs.field(factory=set)
    grouped: set[str] = attrs.field(factory=set)
    selected: set[str] = attrs.field(factory=set)
    windows: set[str] = attrs.field(factory=set)


def names_of(expression: str) -> Names:
    """Raises AssertionError for an expression that is not understood, or whose parentheses do not match."""
    names, tokens = Names(), _tokens(expression)
    depth = 0
    while tokens:
        kind, text = tokens.pop(0)
        if kind == "name" and text == "by":
            names.grouped |= set(_list(tokens, "(", ")"))
        elif kind == "name" and text in _FUNCTIONS:
            assert tokens[0][1] in ("(", "by"), f"{text} is a function: {expression}"
        elif kind == "name" and text not in _OPERATORS:
            names.metrics.add(text)
            if tokens and tokens[0][1] == "{":
                names.selected |= set(_list(tokens, "{", "}"))
        elif kind == "window":
            names.windows.add(text[1:-1])
        depth += (text == "(") - (text == ")")
        assert depth >= 0, f"parentheses of {expression}"
    assert depth == 0, f"parentheses of {expression}"
    return names


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        assert match is not None, f"{expression[position:]} in {expression}"
        assert match.lastgroup is not None
        tokens.append((match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens


def _list(tokens: list[tuple[str, str]], begin: str, end: str) -> list[str]:
    """The names up to the closing parenthesis or brace."""
    assert tokens.pop(0)[1] == begin
    found: list[str] = []
    while (token := tokens.pop(0))[1] != end:
        if token[0] == "name":
            found.append(token[1])
    return found
