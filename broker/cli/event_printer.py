"""The traced events that an operator has to know of, printed as lines on standard error.

Clients cause some of these events as often as they like: each refused connection is one. So of each such kind only some
lines are printed in an interval, and one more line says how many there were besides. Events that only the node itself
causes are printed without a bound.
"""

import contextlib
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from broker.cli.storage_lines import STORAGE_LINES

INTERVAL_S: Final = 60
LINES_MAX: Final = 10


@attrs.frozen
class Line:
    """How one kind of event is printed.

    `sentence` is formatted with the event's fields; None prints the kind and all fields. `lines_max` bounds the lines
    in an interval: of what clients cause at will, and of what one failure causes once per partition.
    """

    sentence: str | None = None
    lines_max: int | None = None


# Kinds that are not listed are not printed.
LINES: Final[Mapping[str, Line]] = {
    "connection_closed": Line(lines_max=LINES_MAX),
    "connection_refused": Line(
        "warning: connection_refused: {listener} did not serve {peer}: {reason}.", lines_max=LINES_MAX
    ),
    "controller_connection_lost": Line(lines_max=LINES_MAX),
    "coordinator_topic_not_created": Line(
        "warning: coordinator_topic_not_created: {topic} cannot be created, so nothing that needs it works: {reason}.",
        lines_max=1,
    ),
    "dynamic_config_refused": Line(),
    "handler_failed": Line(lines_max=LINES_MAX),
    "implausible_epoch": Line(
        "warning: replica {source} told of epoch {told}, which no honest quorum can have reached from epoch {epoch}. "
        "It is not believed; look at that node.",
        lines_max=LINES_MAX,
    ),
    "leader_elected": Line(),
    "loop_held": Line(
        "warning: loop_held: nothing else was served for {milliseconds} ms, {cpu_milliseconds} ms of them on the "
        "processor, because of {cause}",
        lines_max=LINES_MAX,
    ),
    "node_stopped": Line(),
    "partition_offline": Line(lines_max=LINES_MAX),
    "quorum_connection_refused": Line(
        "warning: there is no connection from node {node} to the quorum's node at {address}: {reason}.",
        lines_max=LINES_MAX,
    ),
    "snapshot_installed": Line(),
    "snapshot_refused": Line(
        "warning: a snapshot of the metadata up to offset {end_offset} was fetched and is none, so it is fetched "
        "again: {reason}.",
        lines_max=LINES_MAX,
    ),
    "stray_logs_renamed": Line(
        "warning: the metadata know nothing of {count} partitions that are in {path} ({partitions}). They are not "
        "served any more: their directories are renamed to end with -stray, and kept. Delete them to free their space."
    ),
    "unsafe_truncation": Line(
        "warning: leader {source} lacks metadata that is committed: it would have this node cut its log to offset "
        "{end_offset}, below {committed}. That is refused; look for a controller that lost its disk or latest data.",
        lines_max=LINES_MAX,
    ),
    "voter_directory_differs": Line(
        "warning: node {node} has the directory id {mine}, and the quorum has it as a voter with {voter}: it does not "
        "vote. If its disk was exchanged, remove the voter and add this node again; otherwise restore meta.properties."
    ),
    **{kind: Line(sentence) for kind, sentence in STORAGE_LINES.items()},
}


class EventPrinter:
    """A tracer that prints; `run` has to run beside it, for what was not printed to be counted."""

    def __init__(self, lines: Mapping[str, Line] = LINES) -> None:
        self._lines = lines
        self._counts: Counter[str] = Counter()  # of limited kinds, in this interval

    def trace(self, kind: str, /, **fields: object) -> None:
        """Print an event, unless its kind is not to be printed or was printed often enough in this interval."""
        line = self._lines.get(kind)
        if line is None:
            return
        if line.lines_max is not None:
            self._counts[kind] += 1
            if self._counts[kind] > line.lines_max:
                return
        if line.sentence is None:
            _print(" ".join([kind, *(f"{name}={value}" for name, value in fields.items())]))
        else:
            _print(line.sentence.format_map(fields))

    async def run(self) -> None:
        """End one interval after the other until cancelled, and then the last one."""
        try:
            while True:
                await trio.sleep(INTERVAL_S)
                self.end_interval()
        finally:
            self.end_interval()

    def end_interval(self) -> None:
        """Say how many events were not printed, and print again from now on."""
        counts, self._counts = self._counts, Counter()
        for kind, count in counts.items():
            more = count - (self._lines[kind].lines_max or 0)
            if more > 0:
                _print(f"{kind}: {more:,} more like it in the last {INTERVAL_S} s")


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # the reader is gone, or the disk is full: no reason to end a node
        print(f"kraft: {text}", file=sys.stderr, flush=True)
