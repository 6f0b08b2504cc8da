"""The node's log: the printed events, their format, and the limit on events that clients cause."""

import json
import re
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from broker.cli.event_printer import DEBUG_LINES_MAX, INFO_LINES_MAX, INTERVAL_S, EventPrinter, LogFormat
from broker.events import ALL_CATALOGUES
from broker.log_levels import LogLevels
from kraft.events import LINES_MAX, EventCatalogue, EventKind, Level
from metadata.controller import ConfigChange
from metadata.protocol import ConfigOperation
from tests.support.hostile_text import HOSTILE_TEXT, assert_harmless

KINDS = {
    "refused": EventKind(Level.INFO, "", lines_max=LINES_MAX),
    "failed": EventKind(Level.ERROR, "", lines_max=LINES_MAX),
    "cut": EventKind(Level.WARNING, "", sentence="{path} was cut. Look at it"),
    "synced": EventKind(Level.DEBUG, ""),
    "rolled": EventKind(Level.INFO, ""),
}
PACKAGE = "kraft.log"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def new_printer(
    levels: LogLevels | None = None,
    log_format: LogFormat = "text",
    catalogues: Sequence[EventCatalogue] = (EventCatalogue(PACKAGE, KINDS),),
) -> EventPrinter:
    return EventPrinter(7, levels or LogLevels([PACKAGE]), log_format, catalogues)


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of standard error without prefix and time."""
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(f"kraft: {TIME} ", line) for line in lines), lines
    return [line.split(" ", 2)[2] for line in lines]


def test_text_has_level_node_event_and_fields_or_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    printer = new_printer()
    printer.trace("refused", node=7, peer="10.0.0.7", reason="no more connections", isr=(1, 2), rack=None)
    printer.trace("cut", path="/data/topic-0", bytes=7)
    printer.trace("synced", end_offset=3)
    printer.trace("undeclared", path="/data/topic-0")
    assert logged(capsys) == [
        'info node 7: refused peer=10.0.0.7 reason="no more connections" isr=[1,2] rack=null',
        "warning node 7: cut: /data/topic-0 was cut. Look at it",
    ]


def test_json_lines_have_time_level_node_event_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    printer = new_printer(LogLevels([PACKAGE], Level.DEBUG), "json")
    printer.trace("cut", path="/data/topic-0", bytes=7)
    printer.trace("synced", entries=((0, 3, 1),), directory=b"\x00", error="Traceback\n  line")
    cut, synced = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert re.fullmatch(TIME, cut.pop("time"))
    assert cut == {
        "level": "warning",
        "node": 7,
        "event": "cut",
        "fields": {"path": "/data/topic-0", "bytes": 7},
        "message": "/data/topic-0 was cut. Look at it",
    }
    assert synced["fields"] == {"entries": [[0, 3, 1]], "directory": "b'\\x00'", "error": "Traceback\n  line"}


@pytest.mark.parametrize("level", Level)
def test_events_below_the_level_are_not_logged(level: Level, capsys: pytest.CaptureFixture[str]) -> None:
    printer = new_printer(LogLevels([PACKAGE], level))
    for kind in KINDS:
        printer.trace(kind, path="/data")
    assert len(logged(capsys)) == sum(declared.level >= level for declared in KINDS.values())


def test_level_of_a_logger_applies_to_its_packages_from_the_next_event(capsys: pytest.CaptureFixture[str]) -> None:
    levels = LogLevels([PACKAGE, "broker"])
    printer = new_printer(levels)
    for logger, level in (("kraft", "DEBUG"), ("kraft.log", "ERROR"), ("broker", "DEBUG"), ("root", "FATAL")):
        levels.apply([ConfigChange(logger, ConfigOperation.SET, level)])
        for kind in ("failed", "synced"):
            printer.trace(kind)
    assert logged(capsys) == ["error node 7: failed", "debug node 7: synced"] + ["error node 7: failed"] * 3


@pytest.mark.parametrize(
    ("kind", "lines_max"), [("rolled", INFO_LINES_MAX), ("synced", DEBUG_LINES_MAX), ("cut", None)]
)
def test_lines_of_each_kind_below_a_warning_are_bounded(
    kind: str, lines_max: int | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.event_printer.DEBUG_LINES_MAX", 2_000)
    lines_max = 2_000 if lines_max == DEBUG_LINES_MAX else lines_max
    printer = new_printer(LogLevels([PACKAGE], Level.DEBUG))
    for _ in range(2_010):
        printer.trace(kind, path="/data")
    printer.end_interval()
    lines = logged(capsys)
    if lines_max is None:
        assert len(lines) == 2_010
    else:
        assert len(lines) == lines_max + 1
        assert f"events_suppressed: {2_010 - lines_max:,} more {kind} in the last" in lines[-1]


async def test_events_that_clients_cause_are_counted_once_they_are_too_many(
    capsys: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    printer = new_printer()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printer.run)
        for count in range(5_331):
            printer.trace("refused", count=count)
        printer.trace("failed", count=1)  # each kind is counted separately
        for _ in range(LINES_MAX + 1):
            printer.trace("cut", path="/data")  # a kind without a bound
        lines = logged(capsys)
        assert [line for line in lines if "refused" in line] == [
            f"info node 7: refused count={n}" for n in range(LINES_MAX)
        ]
        assert len(lines) == LINES_MAX + 1 + LINES_MAX + 1

        await trio.sleep(INTERVAL_S + 1)
        assert logged(capsys) == ["info node 7: events_suppressed: 5,321 more refused in the last 60 s"]
        printer.trace("refused", count=0)
        await trio.sleep(INTERVAL_S)
        assert logged(capsys) == ["info node 7: refused count=0"]
        for count in range(LINES_MAX + 1):
            printer.trace("refused", count=count)
        nursery.cancel_scope.cancel()
    assert logged(capsys)[-1] == "info node 7: events_suppressed: 1 more refused in the last 60 s"


EVERY_EVENT = [
    (catalogue.package, kind, declared)
    for catalogue in ALL_CATALOGUES
    for kind, declared in catalogue.kinds.items()
    if declared.fields
]


@pytest.mark.parametrize(("package", "kind", "declared"), EVERY_EVENT, ids=lambda each: str(each)[:40])
def test_no_event_lets_names_from_outside_control_a_terminal_or_forge_a_line(
    package: str, kind: str, declared: EventKind, capsys: pytest.CaptureFixture[str]
) -> None:
    # A sentence may format numbers.
    numbers = set(re.findall(r"\{(\w+):", declared.sentence or ""))
    fields = {name: 7 if name in numbers else HOSTILE_TEXT for name in declared.fields}
    nested = {name: 7 if name in numbers else [HOSTILE_TEXT, {HOSTILE_TEXT: HOSTILE_TEXT}] for name in declared.fields}
    levels = LogLevels([package], Level.DEBUG)
    for values in (fields, nested):
        new_printer(levels, catalogues=ALL_CATALOGUES).trace(kind, **values)
        text = capsys.readouterr().err
        assert_harmless(text)
        lines = text.removesuffix("\n").split("\n")
        assert len(lines) == 1 or declared.traceback is not None
        assert all(line.startswith("    ") for line in lines[1:])
        new_printer(levels, "json", ALL_CATALOGUES).trace(kind, **values)
        (line,) = capsys.readouterr().err.removesuffix("\n").split("\n")
        assert_harmless(line)
        assert json.loads(line)["fields"] == values
