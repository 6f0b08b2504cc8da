"""The report of a run is one well-formed file, which loads no other resources."""

import re
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest

from jepsen.checkers import IDEMPOTENT_CHECKERS, Verdict, judge
from jepsen.journal import write_history
from jepsen.report.anomalies import readable
from jepsen.report.command import write_report
from jepsen.report.markup import Markup, element, join
from jepsen.report.timeline import describe_targets
from jepsen.store import Fault, Store
from tests.support.synthetic_runs import NODES, SyntheticRun


def short_run(*, loses: bool = False) -> SyntheticRun:
    return SyntheticRun(seconds=30.0, rate=20.0, period=5.0, loses=loses)


def stored(directory: Path, run: SyntheticRun, verdict: Verdict | None) -> Store:
    store = Store(directory)
    store.write_plan(run.plan)
    store.write_faults(run.faults)
    store.write_uptimes(run.uptimes)
    with (directory / "history.jsonl").open("wb") as file:
        write_history(run.history, file)
    if verdict is not None:
        store.write_verdict(verdict)
    return store


class Reader(HTMLParser):
    """The words of a page, and whether its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.problems: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.problems += [f"{tag} is never closed" for tag in self._open]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open.pop() != tag:
            self.problems.append(f"{tag} is closed out of order")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def says(self, text: str) -> bool:
        return text in " ".join(self.words)


def report(directory: Path, run: SyntheticRun, verdict: Verdict | None) -> tuple[str, Reader]:
    text = write_report(stored(directory, run, verdict)).read_text()
    return text, Reader(text)


def test_a_run_without_anomalies(tmp_path: Path) -> None:
    run = short_run()
    text, page = report(tmp_path, run, judge(run.history, IDEMPOTENT_CHECKERS))
    assert page.problems == []
    assert page.says("No anomaly")
    assert page.says(f"All {len(IDEMPOTENT_CHECKERS)} promises were kept.")
    assert not page.says("Anomalies")
    for node in NODES:
        assert page.says(node)
    assert text.count('class="dot ') == len(run.faults)


def test_report_loads_nothing(tmp_path: Path) -> None:
    run = short_run()
    text, _ = report(tmp_path, run, judge(run.history, IDEMPOTENT_CHECKERS))
    assert re.findall(r"https?://|<script|<link|<img|@import|src=", text) == []
    assert set(re.findall(r"url\(([^)]*)\)", text)) == {"#hatching"}


def test_anomalies_are_shown_with_their_proofs(tmp_path: Path) -> None:
    run = short_run(loses=True)
    verdict = judge(run.history, IDEMPOTENT_CHECKERS)
    assert not verdict.is_valid
    text, page = report(tmp_path, run, verdict)
    assert page.problems == []
    first = next(iter(verdict.anomalies()))
    assert page.says(first.what)
    assert page.says(f"{first.proof[0].invoked_at:.3f} s")
    assert 'class="anomaly-mark"' in text


@pytest.mark.parametrize("verdict", [None, Verdict((), {})], ids=["not judged", "nothing promised"])
def test_a_run_that_broke_off(tmp_path: Path, verdict: Verdict | None) -> None:
    """It has a plan, and a history that may be empty."""
    run = short_run()
    run.history.operations.clear()
    run.faults, run.uptimes = [Fault("kill", ("node-1",), 3.0)], []
    _, page = report(tmp_path, run, verdict)
    assert page.problems == []
    assert page.says("Not judged" if verdict is None else "No anomaly")


def test_values_of_clients_are_escaped(tmp_path: Path) -> None:
    run = short_run()
    run.history.operations[0] = attrs.evolve(run.history.operations[0], client="<script>")
    run.faults[0] = attrs.evolve(run.faults[0], detail='<b title="x">')
    text, page = report(tmp_path, run, judge(run.history, IDEMPOTENT_CHECKERS))
    assert page.problems == []
    assert "<script>" not in text
    assert page.says('<b title="x">')


def test_markup_is_escaped_once() -> None:
    inner = element("b", "1 < 2", title='"')
    assert inner == '<b title="&quot;">1 &lt; 2</b>'
    assert element("p", inner, [" & ", Markup("<br>")], None, x=1.0, y=2.345, class_=None) == (
        f'<p x="1" y="2.35">{inner} &amp; <br></p>'
    )
    assert join(None) == ""


def test_names_are_readable() -> None:
    assert readable("AcknowledgedRecordsStay") == "Acknowledged records stay"
    assert describe_targets(("node-1", "node-1>node-2", "node-2>node-1")) == "node-1, 2 links"
