"""The section about promises: which were kept, and the anomalies of the others with the operations that prove them."""

import re
from typing import Any, Final

import attrs

from jepsen.checkers import Anomaly, Promise
from jepsen.history import Operation
from jepsen.report.findings import Findings
from jepsen.report.markup import Markup, element

# The number of anomalies of each promise that are shown at once, and on demand; the verdict's file has more.
_SHOWN_MAX, _FOLDED_MAX = 3, 20
_TEXT_MAX: Final = 320


def anomalies(found: Findings) -> Markup:
    """The section about broken promises; empty if there are none."""
    broken = [] if found.verdict is None else [each for each in found.verdict.promises if each.broken]
    if not broken:
        return Markup("")
    return element("section", element("h2", "Anomalies"), [_broken(each) for each in broken], class_="anomalies")


def promises(found: Findings) -> Markup:
    if found.verdict is None:
        return Markup("")
    items = [
        element(
            "li",
            element("b", readable(each.name)),
            element("span", each.meaning),
            [element("span", f"Unknown: {doubt}") for doubt in each.doubts[:_SHOWN_MAX]] if not each.broken else None,
            class_="broken" if each.broken else "unknown" if each.doubts else "kept",
        )
        for each in found.verdict.promises
    ]
    return element("section", element("h2", "Promises"), element("ul", items, class_="promises"))


def readable(name: str) -> str:
    """Convert a checker's class name to words."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return words[:1].upper() + words[1:]


def _broken(promise: Promise) -> Markup:
    shown, folded = promise.anomalies[:_SHOWN_MAX], promise.anomalies[_SHOWN_MAX:][:_FOLDED_MAX]
    more = promise.broken - len(shown) - len(folded)
    return element(
        "article",
        element("h3", readable(promise.name), element("em", f" {promise.broken:,}×")),
        element("p", promise.meaning, class_="note"),
        [_anomaly(each) for each in shown],
        element("details", element("summary", f"{len(folded)} more"), [_anomaly(each) for each in folded])
        if folded
        else None,
        element("p", f"and {more:,} that are not shown", class_="note") if more else None,
    )


def _anomaly(anomaly: Anomaly) -> Markup:
    headline, _, rest = anomaly.what.partition("\n")
    heads = [
        element("th", head, class_="number" if head in ("from", "to") else None)
        for head in ("from", "to", "process", "operation", "about", "outcome", "result")
    ]
    table = element(
        "table",
        element("thead", element("tr", heads)),
        element("tbody", [_operation(each) for each in anomaly.proof]),
    )
    return element(
        "div",
        element("p", headline, class_="what"),
        element("pre", rest) if rest else None,
        element("div", table, class_="scroll") if anomaly.proof else None,
        class_="anomaly",
    )


def _operation(operation: Operation) -> Markup:
    end = "" if operation.completed_at is None else f"{operation.completed_at:.3f} s"
    return element(
        "tr",
        element("td", f"{operation.invoked_at:.3f} s", class_="number"),
        element("td", end, class_="number"),
        element("td", operation.client, class_="name"),
        element("td", operation.function, class_="name"),
        element("td", _text(operation.value), class_="code"),
        element("td", operation.outcome.value, class_=f"outcome {operation.outcome.value}"),
        element("td", _text(operation.result), class_="code"),
    )


def _text(value: Any) -> str:
    """Render a value as a short text."""
    if value is None:
        return ""
    if attrs.has(type(value)):
        text = ", ".join(f"{field.name} {_text(getattr(value, field.name))}" for field in attrs.fields(type(value)))
    elif isinstance(value, tuple):
        # Show each record, a pair of offset and value, on a line of its own.
        lines = [" ".join(map(_text, each)) for each in value if isinstance(each, tuple)]
        text = "\n".join(lines) if lines else ", ".join(map(_text, value))
    else:
        text = str(value)
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"
