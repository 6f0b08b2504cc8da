"""Prints docs/events.md, made from the catalogues of events: `make docs`."""

from broker.events import ALL_CATALOGUES
from kraft.events import EventCatalogue, EventKind

_HEAD = """# Events

The events that a node reports. `kraft start` logs events of level `info` and above to standard error.
`--log-level debug` logs all, and `--log-format json` writes an object on each line:

    kraft: 2026-03-01T12:00:00.000Z info node 1: leader_elected epoch=4 cause="fetch timeout"
    {"time": "2026-03-01T12:00:00.000Z", "level": "info", "node": 1, "event": "leader_elected", \
"fields": {"node": 1, "epoch": 4, "cause": "fetch timeout"}}

`message` is a sentence for some events, made from the fields. Events marked with a number are bounded: the log prints
so many in a minute, and then how many more there were (`events_suppressed`). A program that embeds a node gets all
events through `Env.trace`, as the simulator does.

Made from the catalogues in `kraft/events.py`, `metadata/events.py` and `broker/events` by `make docs`; a test compares
them with every call in the source. Do not edit it.
"""


def event_reference() -> str:
    """The document as Markdown."""
    return _HEAD + "".join(map(_section, ALL_CATALOGUES))


def _section(catalogue: EventCatalogue) -> str:
    rows = "".join(_row(kind, declared) for kind, declared in sorted(catalogue.kinds.items()))
    return f"\n## {catalogue.package}\n\n| event | level | when | fields |\n|---|---|---|---|\n{rows}"


def _row(kind: str, declared: EventKind) -> str:
    level = declared.level.name.lower()
    bound = "" if declared.lines_max is None else f" ({declared.lines_max})"
    fields = "; ".join(f"`{name}`: {meaning}" for name, meaning in declared.fields.items())
    return f"| `{kind}` | {level}{bound} | {declared.meaning} | {fields} |\n"


if __name__ == "__main__":
    print(event_reference(), end="")
