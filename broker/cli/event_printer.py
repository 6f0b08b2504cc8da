"""The node's log for operators: prints traced events to standard error, as text or as JSON lines.

`broker.events` declares the level and the sentence of each kind, and `LogLevels` the levels that are printed. The log
prints a bounded number of lines of one kind in an interval, and then how many more there were. The bound is low for
kinds that clients cause as often as they like: each refused connection is one. Warnings and errors without a declared
bound are always printed.

Fields hold what clients and other nodes have sent. They are rendered (`broker.printable`), so that no name is obeyed by
a terminal or looks like a line of its own.
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
from broker.log_levels import LogLevels
from broker.printable import printable, printable_block, printable_json, shortened
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
        self._is_json = log_format == "json"
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
        message = None if declared.sentence is None else declared.sentence.format_map(_rendered(declared, fields))
        if self._is_json:
            line = _json_line(now, level, self._node_id, kind, message, fields)
        else:
            about = _named(declared, fields) if message is None else f": {message}"
            line = f"kraft: {now} {level.name.lower()} node {self._node_id}: {kind}{about}"
        with contextlib.suppress(OSError):  # the reader is gone, or the disk is full: no reason to end a node
            print(line, file=sys.stderr, flush=True)


def _lines_max(declared: EventKind) -> int | None:
    if declared.lines_max is not None or declared.level >= Level.WARNING:
        return declared.lines_max
    return INFO_LINES_MAX if declared.level == Level.INFO else DEBUG_LINES_MAX


def _named(declared: EventKind, fields: Mapping[str, object]) -> str:
    """The fields as ` name=value`; the node's id is in the line already."""
    texts = {name: _block(value) if name == declared.traceback else _text(value) for name, value in fields.items()}
    return "".join(f" {name}={text}" for name, text in texts.items() if name != "node")


def _rendered(declared: EventKind, fields: Mapping[str, object]) -> Mapping[str, object]:
    """The fields for a sentence: numbers as they are, as the sentence formats them, and all else rendered."""

    def rendered(name: str, value: object) -> object:
        if isinstance(value, int | float):
            return value
        return _block(value) if name == declared.traceback else shortened(printable(str(value)))

    return {name: rendered(name, value) for name, value in fields.items()}


def _block(value: object) -> str:
    return printable_block(str(value))


def _text(value: object) -> str:
    """Formats a value as JSON. Text is quoted only if it contains a space. Characters are escaped as in `printable`."""
    if not isinstance(value, str):
        return printable(json.dumps(value, default=str, separators=(",", ":")))
    value = shortened(value)
    return printable_json(json.dumps(value, ensure_ascii=False)) if " " in value else printable(value)


def _json_line(
    now: str, level: Level, node_id: int, kind: str, message: str | None, fields: Mapping[str, object]
) -> str:
    line = {"time": now, "level": level.name.lower(), "node": node_id, "event": kind, "fields": fields}
    if message is not None:
        line["message"] = message
    return printable_json(json.dumps(line, default=str))
