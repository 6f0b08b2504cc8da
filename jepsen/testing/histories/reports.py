"""The report page of an application's history."""

from datetime import UTC, datetime
from json import loads
from os import PathLike
from pathlib import Path

from jepsen.report.command import write_report
from jepsen.store import RunPlan, Store
from jepsen.testing.histories.loading import load_history
from jepsen.testing.histories.recording.history_file import BEGAN
from jepsen.testing.histories.verdict import HistoryVerdict


def report(directory: str | PathLike[str], verdict: HistoryVerdict, title: str = "application") -> Path:
    """Write `report.html` into a recorder's directory, beside the verdict as JSON, and return its path.

    Raises as `check` does.
    """
    directory = Path(directory)
    history = load_history(directory)
    end = max((each.completed_at or each.invoked_at for each in history.operations), default=0.0)
    began_ns = loads((directory / BEGAN).read_text())["began_ns"]
    store = Store(directory)
    started_at = datetime.fromtimestamp(began_ns / 1_000_000_000, UTC).isoformat(timespec="seconds")
    store.write_plan(RunPlan(title, (), (), max(end, 0.001), 0, started_at, ""))
    store.write_verdict(verdict.checked())
    return write_report(store)
