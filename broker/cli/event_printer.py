"""The node's log for operators: prints traced events to standard error, as text or as JSON lines.

`broker.events` declares the level and the sentence of each kind, and `LogLevels` the levels that are printed. The log
prints a bounded number of lines of one kind in an interval, and then how many more there were. The bound is low for
kinds that clients cause as often as they like: each refused connection is one. Warnings and errors without a declared
bound are always printed.
"""

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

import trio

from broker.events import ALL_CATALOGUES, EVENT_KINDS
from broker.logging import LogLevels
from kraft.events import EventCatalogue, EventKind, Level

INTERVAL_S: Final = 60
# The lines of a kind without a bound of its own: one that a broker may report for each of its partitions, and one of
# the level debug, of which all lines are wanted as long as printing takes a few percent of the processor.
INFO_LINES_MAX: Final = 1_000
DEBUG_LINES_MAX: Final = 60_000

LogFormat = Literal["text", "json"]


class EventPrinter:
    """A tracer that prints events of the levels in `levels`. `run` must run beside it, to count the suppressed ones.

    Kinds that are not declared are not printed. An event below its logger's level costs one look-up.
    """

    def __init__(
        self,
        node_id: int,
        levels: LogLevels,
        log_format: LogFormat = "text",
        catalogues: Iterable[EventCatalogue] = ALL_CATALOGUES,
    ) -> None:
        self._node_id = node_id
        self._levels = levels
        self._write = _write_json if log_format == "json" else _write_text
        self._catalogues = tuple(catalogues)
        self._select_kinds()
        levels.add_listener(self._select_kinds)
        self._suppressed = EVENT_KINDS["events_suppressed"]
        self._counts: Counter[str] = Counter()  # of kinds with a bound, in this interval

    def _select_kinds(self) -> None:
        self._kinds = {
            kind: (declared, _lines_max(declared))
            for catalogue in self._catalogues
            for kind, declared in catalogue.kinds.items()
            if self._levels.prints(catalogue.package, declared.level)
        }

    def trace(self, kind: str, /, **fields: object) -> None:
        """Print an event, unless it is below the level or its kind was printed often enough in this interval."""
        found = self._kinds.get(kind)
        if found is None:
            return
        declared, lines_max = found
        if lines_max is not None:
            self._counts[kind] += 1
            if self._counts[kind] > lines_max:
                return
        self._print(declared.level, kind, declared, fields)

    async def run(self) -> None:
        """End each interval in time, until cancelled. Cancellation ends the last one."""
        try:
            while True:
                await trio.sleep(INTERVAL_S)
                self.end_interval()
        finally:
            self.end_interval()

    def end_interval(self) -> None:
        """Print how many events were suppressed, and start to count again."""
        counts, self._counts = self._counts, Counter()
        for kind, count in counts.items():
            declared, lines_max = self._kinds.get(kind, (None, None))
            if declared is None or lines_max is None or count <= lines_max:
                continue
            fields = {"kind": kind, "count": count - lines_max, "seconds": INTERVAL_S}
            self._print(declared.level, "events_suppressed", self._suppressed, fields)

    def _print(self, level: Level, kind: str, declared: EventKind, fields: Mapping[str, object]) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = None if declared.sentence is None else declared.sentence.format_map(fields)
        with contextlib.suppress(OSError):  # the reader is gone, or the disk is full: no reason to end a node
            self._write(now, level.name.lower(), self._node_id, kind, message, fields)


def _lines_max(declared: EventKind) -> int | None:
    if declared.lines_max is not None or declared.level >= Level.WARNING:
        return declared.lines_max
    return INFO_LINES_MAX if declared.level == Level.INFO else DEBUG_LINES_MAX


def _write_text(
    now: str, level: str, node_id: int, kind: str, message: str | None, fields: Mapping[str, object]
) -> None:
    if message is None:
        about = "".join(f" {name}={_text(value)}" for name, value in fields.items() if name != "node")
    else:
        about = f": {message}"
    print(f"kraft: {now} {level} node {node_id}: {kind}{about}", file=sys.stderr, flush=True)


def _text(value: object) -> str:
    """Formats a value as JSON. Text is quoted only if it contains a space. A traceback keeps its lines."""
    if not isinstance(value, str):
        return json.dumps(value, default=str, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False) if " " in value and "\n" not in value else value


def _write_json(
    now: str, level: str, node_id: int, kind: str, message: str | None, fields: Mapping[str, object]
) -> None:
    line = {"time": now, "level": level, "node": node_id, "event": kind, "fields": fields}
    if message is not None:
        line["message"] = message
    print(json.dumps(line, default=str), file=sys.stderr, flush=True)
