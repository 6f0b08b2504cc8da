"""How findings are shown: in texts, and on the report page."""

from pathlib import Path

from jepsen.history import Outcome
from jepsen.journal import write_history
from jepsen.store import Store
from jepsen.testing.histories import Promise, Recorder, Status, check, report
from jepsen.testing.histories.operation_text import operation_text
from tests.jepsen.testing.histories.test_promises import (
    COPIED,
    LOST,
    TWICE,
    member_goes_on,
    retry_writes_a_double,
    written,
)
from tests.support.application_histories import ApplicationHistory


def test_text_of_hostile_records_is_printable() -> None:
    app = ApplicationHistory("\x1b[2J")
    app.send("\x1b]0;title\x07", 0, transaction="\u202e")
    app.process(0, Outcome.INFO)
    app.history.fail(app.history.invoke("\x9b", "commit", app.commit(1).value), "\x00")
    app.assign()
    app.poll(*((offset, "\r") for offset in range(10)))
    app.scan((0, "\x1b"))
    verdict = check(app.history, list(Promise))
    assert verdict[LOST].status is Status.BROKEN
    assert all(line.isprintable() for line in str(verdict).splitlines())
    assert all(operation_text(operation).isprintable() for operation in app.history.operations)


def test_operations_have_texts() -> None:
    app = ApplicationHistory()
    app.send("a", None, outcome=Outcome.FAIL, transaction="p@1/1")
    app.send("a", 4)
    app.poll(*((offset, "x") for offset in range(7)))
    app.commit(7, Outcome.INFO)
    app.assign()
    app.revoke()
    app.process(3)
    app.unrecorded()
    assert [operation_text(each) for each in app.history.operations] == [
        "producer@1 sends a to orders in transaction p@1/1: refused, reason",
        "producer@1 sends a to orders-0: written at 4",
        "consumer@2 receives 0 x, 1 x, 2 x, 3 x, 4 x, 5 x, ... of orders-0",
        "consumer@2 commits 7 of orders-0 of billing: outcome unknown",
        "consumer@2 is assigned orders-0",
        "consumer@2 gives up orders-0",
        "application@2 processes 3 of orders-0 for billing",
        "producer@1 unrecorded Unrecorded(method='produce_batch')",
    ]


def test_report_shows_broken_and_undecided_promises(tmp_path: Path) -> None:
    with Recorder(tmp_path):
        app = written(retry_writes_a_double)
        member_goes_on(app)
        [path] = tmp_path.glob("history-*.jsonl")
        with path.open("wb") as file:
            write_history(app.history, file)
    verdict = check(tmp_path, [TWICE, LOST, Promise.EACH_IDENTITY_ONCE, COPIED])
    page = report(tmp_path, verdict, "checkout").read_text()
    assert f"<h1>{sum(each.broken for each in verdict.promises)} anomalies</h1>" in page
    assert "a was sent once to orders, and is at 0, 1 of orders-0" in page
    assert page.count('class="unknown"') == sum(each.status is Status.UNKNOWN for each in verdict.promises) > 0
    assert "checkout" in page
    stored = Store(tmp_path).verdict()
    assert stored is not None
    assert [each.doubts for each in stored.promises] == [each.doubts for each in verdict.checked().promises]
    undecided = check(tmp_path, [COPIED])
    assert "Not decided" in report(tmp_path, undecided).read_text()
