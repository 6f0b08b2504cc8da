"""Merges the metric pages of several brokers into one, whose series have the label `broker`.

A text format has all series of a metric together, after one head. So the pages are divided at the heads, and the parts
of the same metric are joined.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from broker.metrics.exposition import Format, exposition, label_text
from broker.metrics.metric import Sample, Unit, gauge

LABEL: Final = "broker"
BROKER_UP: Final = gauge(
    "kraft_broker_up",
    "1 if the broker of this host has answered this scrape",
    labels=(LABEL,),
    unit=Unit.BOOLEAN,
)
_HEAD: Final = "# HELP "
_LABELS: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def merged_page(pages: Mapping[str, str | None], text_format: Format) -> Iterator[str]:
    """The text in pieces, one for each metric of each broker. `pages` has a page by broker id.

    It is None for a broker that did not answer.
    """
    up = [Sample((broker,), int(page is not None)) for broker, page in pages.items()]
    for piece in exposition([(BROKER_UP, up)], text_format):
        if not piece.startswith("# EOF"):
            yield piece
    parts: dict[str, dict[str, str]] = {}
    for broker, page in pages.items():
        for name, part in _parts(page or ""):
            parts.setdefault(name, {})[broker] = part
    for of_brokers in parts.values():
        is_first = True
        for broker, part in of_brokers.items():
            yield _labelled(part, broker, with_head=is_first)
            is_first = False
    if text_format.is_open_metrics:
        yield "# EOF\n"


def _parts(page: str) -> Iterator[tuple[str, str]]:
    """The metrics of a page: their names, and their heads with all series."""
    for part in page.removesuffix("# EOF\n").split(f"\n{_HEAD}"):
        name = part.removeprefix(_HEAD).partition(" ")[0]
        if name:
            yield name, part.removeprefix(_HEAD).removesuffix("\n")


def _labelled(part: str, broker: str, *, with_head: bool) -> str:
    """The lines of a metric. The first is the rest of the HELP line."""
    help_line, *lines = part.split("\n")
    label = label_text([(LABEL, broker)])
    own = [f"{_HEAD}{help_line}"] if with_head else []
    for line in lines:
        if not line.startswith("#"):
            own.append(_with_label(line, label))
        elif with_head:
            own.append(line)
    return "".join(f"{line}\n" for line in own)


def _with_label(line: str, label: str) -> str:
    """A series with one label more. Values of labels may have any character, but not before the first brace."""
    name, brace, rest = line.partition("{")
    if not brace:
        name, _, value = line.partition(" ")
        return f"{name}{{{label}}} {value}"
    if f'{LABEL}="' in rest:
        rest = _renamed(rest)
    return f"{name}{{{label},{rest}"


def _renamed(rest: str) -> str:
    """Rename a label that clients have pushed under the same name, as Prometheus does."""
    labels = [(found[1], found[2], found.end()) for found in _LABELS.finditer(rest)]
    if not any(name == LABEL for name, _, _ in labels):
        return rest
    end = labels[-1][2]
    names = {name for name, _, _ in labels}
    other = f"exported_{LABEL}"
    while other in names:
        other = f"exported_{other}"
    texts = [f'{other if name == LABEL else name}="{value}"' for name, value, _ in labels]
    return ",".join(texts) + rest[end:]
