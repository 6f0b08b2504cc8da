"""The timeline of a cluster for a person: what was done to it, what it did, and why."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

LINES_MAX: Final = 200
_WARNINGS: Final = ("warning", "error")
# Events of the supervisor have no node.
_BY_TEST: Final = "TEST  "
# Steps of a start, and details that another event sums up.
_LEFT_OUT_FIELDS: Final = ("node", "topic_id")
_LEFT_OUT: Final = ("config_changed", "features_changed", "node_stopped", "connection_closed", "partitions_changed")


def timeline(events: Iterable[Mapping[str, Any]], since_s: float = 0.0) -> list[str]:
    """A line for each event from `since_s` on, the last LINES_MAX of them. Warnings are marked by `!`."""
    lines = [
        _line(event)
        for event in sorted(events, key=lambda event: float(event["seconds"]))
        if event["seconds"] >= since_s and event["event"] not in _LEFT_OUT
    ]
    dropped = len(lines) - LINES_MAX
    return [f"... {dropped} earlier events", *lines[-LINES_MAX:]] if dropped > 0 else lines


def _line(event: Mapping[str, Any]) -> str:
    mark = "!" if event["level"] in _WARNINGS else " "
    node = _BY_TEST if event["node"] is None else f"node {event['node']}"
    fields = " ".join(
        f"{name}={_shown(value)}" for name, value in event["fields"].items() if name not in _LEFT_OUT_FIELDS
    )
    return f"{event['seconds']:9.3f} s {mark} {node}  {event['event']} {fields}".rstrip()


def _shown(value: object) -> str:
    text = json.dumps(value, default=str, separators=(",", ":"))
    return text[1:-1] if isinstance(value, str) and " " not in value else text
