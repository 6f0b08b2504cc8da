"""The events that a node prints: which, in which words, and how many of those that clients cause."""

import pytest
import trio
from trio.testing import MockClock

from broker.cli.event_printer import INTERVAL_S, LINES_MAX, EventPrinter, Line

LINES = {
    "refused": Line(lines_max=LINES_MAX),
    "failed": Line(lines_max=LINES_MAX),
    "cut": Line("warning: {path} was cut. Look at it."),
}


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_events_are_printed_with_their_fields_or_as_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    printer = EventPrinter(LINES)
    printer.trace("refused", peer="10.0.0.7", reason="no room")
    printer.trace("cut", path="/data/topic-0", bytes=7)
    printer.trace("unknown", path="/data/topic-0")
    assert printed(capsys) == [
        "kraft: refused peer=10.0.0.7 reason=no room",
        "kraft: warning: /data/topic-0 was cut. Look at it.",
    ]


async def test_events_that_clients_cause_are_counted_once_they_are_too_many(
    capsys: pytest.CaptureFixture[str], autojump_clock: MockClock
) -> None:
    printer = EventPrinter(LINES)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(printer.run)
        for count in range(5_331):
            printer.trace("refused", count=count)
        printer.trace("failed", count=1)  # each kind counts for itself
        for _ in range(LINES_MAX + 1):
            printer.trace("cut", path="/data")  # nothing a client can cause: all are printed
        lines = printed(capsys)
        assert [line for line in lines if "refused" in line] == [f"kraft: refused count={n}" for n in range(LINES_MAX)]
        assert len(lines) == LINES_MAX + 1 + LINES_MAX + 1

        await trio.sleep(INTERVAL_S + 1)
        assert printed(capsys) == ["kraft: refused: 5,321 more like it in the last 60 s"]
        printer.trace("refused", count=0)
        await trio.sleep(INTERVAL_S)
        assert printed(capsys) == ["kraft: refused count=0"]
        for count in range(LINES_MAX + 1):
            printer.trace("refused", count=count)
        nursery.cancel_scope.cancel()
    assert printed(capsys)[-1] == "kraft: refused: 1 more like it in the last 60 s"
