"""Loads recorded histories from their files, within bounds: a file may be torn, damaged or hostile."""

from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from jepsen.collection import no_collection
from jepsen.history import History
from jepsen.journal import BadJournal, operations_of, parsed_lines
from jepsen.shapes import check_shape
from jepsen.store import RECORDED

# The recorder's lines are shorter, apart from polls of a hundred thousand records.
_LINE_BYTES_MAX: Final = 16 << 20
# An operation takes about a kilobyte in memory, and one of a few records some hundred bytes in the file. The bytes of a
# history are bounded, too, since a single operation may have any number of records.
OPERATIONS_MAX: Final = 2_000_000
_BYTES_PER_OPERATION: Final = 1_000
_BY_SPARK: Final = "judge it with `kraft spark check`"
_PLACES: Final = ("partitions", "offsets")

Source: TypeAlias = str | PathLike[str]


class HistoryTooLarge(Exception):
    """The history has more operations than fit into memory: `kraft spark check` judges it."""


def history_files(source: Source | Iterable[Source]) -> list[Path]:
    """The files of a history: those of a directory, or the given ones. Raises FileNotFoundError."""
    sources = [source] if isinstance(source, str | PathLike) else list(source)
    files: list[Path] = []
    for path in map(Path, sources):
        found = sorted(path.glob(RECORDED)) if path.is_dir() else [path]
        if not found:
            raise FileNotFoundError(f"{path} has no file {RECORDED}: nothing was recorded there")
        files += found
    return files


def load_history(source: Source | Iterable[Source], operations_max: int = OPERATIONS_MAX) -> History:
    """Load the operations of all files. An incomplete last line of a file is skipped: its process was killed.

    Raises BadJournal for a file that is no history, HistoryTooLarge, FileNotFoundError and OSError.
    """
    history = History(lambda: 0.0)
    with no_collection():
        events = _bounded(_events(history_files(source), operations_max * _BYTES_PER_OPERATION), 2 * operations_max)
        history.operations = operations_of(_begun_once(events))
        for operation in history.operations:
            check_shape(operation)
    return history


@attrs.frozen
class Names:
    """The topics and the consumer groups that a history names."""

    topics: frozenset[str]
    groups: frozenset[str]


def names_in(source: Source | Iterable[Source]) -> Names:
    """Find the topics and groups of a history. Raises as `load_history` does, and reads histories of any size."""
    topics: set[str] = set()
    groups: set[str] = set()
    for event in _events(history_files(source)):
        value = event["value"] if event["type"] == "invoke" else None
        if isinstance(value, dict):
            topics.update(_texts([value.get("topic")]))
            groups.update(_texts([value.get("group")]))
            for name in _PLACES:
                topics.update(_texts(each[0] for each in value.get(name, ()) if isinstance(each, list) and each))
    return Names(frozenset(topics), frozenset(groups))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    return (each for each in values if isinstance(each, str) and each)


def _events(files: Iterable[Path], bytes_max: float = inf) -> Iterator[dict[str, Any]]:
    size = 0
    for path in files:
        size += path.stat().st_size
        if size > bytes_max:
            raise HistoryTooLarge(f"the history has more than {bytes_max:,} bytes: {_BY_SPARK}")
        try:
            yield from parsed_lines(_lines(path))
        except BadJournal as error:
            raise BadJournal(f"{path.name}: {error}") from error


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while line := file.readline(_LINE_BYTES_MAX + 1):
            if len(line) > _LINE_BYTES_MAX:
                raise BadJournal(f"a line has more than {_LINE_BYTES_MAX} bytes")
            yield line


def _bounded(events: Iterable[dict[str, Any]], limit: int) -> Iterator[dict[str, Any]]:
    for number, event in enumerate(events):
        if number == limit:
            raise HistoryTooLarge(f"the history has more than {limit // 2:,} operations: {_BY_SPARK}")
        yield event


def _begun_once(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events, of which an operation has one of each kind."""
    seen: Counter[tuple[str, int, bool]] = Counter()
    for event in events:
        key = event["process"], event["id"], event["type"] == "invoke"
        seen[key] += 1
        if seen[key] > 1:
            what = "begins" if key[2] else "completes"
            raise BadJournal(f"{key[0]} {what} its operation {key[1]} twice: is a file given twice?")
        yield event
