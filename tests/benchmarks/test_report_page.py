"""The benchmark page of a small canned result."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from benchmarks import bench_report, report, report_page, report_plots
from benchmarks.figures import Comparison, Figure, Series, Spread
from benchmarks.latency_shares import ANSWERED, OFFERED, SHARES_PERCENT, load_name
from tests.support.source_code import ROOT

OURS, KAFKA = "kraft", "apache kafka"
RATE = "produce 100 B, 1 partition"


def measured(
    name: str, ours: Sequence[float], theirs: Sequence[float], *, unit: str = "records/s", higher_is_better: bool = True
) -> dict[str, Any]:
    values = {OURS: list(ours), KAFKA: list(theirs)}
    return {"figure": name, "unit": unit, "higher_is_better": higher_is_better, "values": values}


def cpu(kind: str, ours: float, theirs: float) -> dict[str, Any]:
    return measured(f"{RATE}: {kind} CPU", [ours], [theirs], unit="us/record", higher_is_better=False)


def result(*figures: dict[str, Any], rounds: int = 5, failed: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "machine": {"CPU": "a CPU", "cores": "2"},
        "run": {"date": "2026-01-01"},
        "rounds": rounds,
        "seconds": 1,
        "complete": True,
        "groups": {"cluster": {"nodes": [OURS, KAFKA], "figures": list(figures), "failed": list(failed)}},
    }


def cells(page: str, name: str) -> list[str]:
    """The cells of the row that begins with a name."""
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {name} ")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def latencies(ours_answered: float) -> list[dict[str, Any]]:
    found = []
    for percent in SHARES_PERCENT:
        name, offered = load_name(percent), 10.0 * percent
        for percentile, ms in (("p50", 1.0), ("p99", 4.0)):
            found.append(
                measured(f"{name}: {percentile}", [ms, 2 * ms], [3 * ms, 4 * ms], unit="ms", higher_is_better=False)
            )
        found.append(measured(f"{name}: {OFFERED}", [offered], [offered], unit="requests/s"))
        answered = measured(f"{name}: {ANSWERED}", [offered * ours_answered], [offered], unit="requests/s")
        found.append(answered)
    return found


def test_row_has_medians_spreads_ratio_and_both_cpu_times() -> None:
    figures = [measured(RATE, [300, 100, 200], [100, 50, 80]), cpu("server", 0.5, 1), cpu("client", 2, 3)]
    assert cells(report_page.page(result(*figures)), RATE) == [
        RATE,
        "records/s",
        "200 (100-300)",
        "80.0 (50.0-100)",
        "2.50 (1.00-6.00), within the noise",
        "0.50 / 1.00 us/record",
        "2.00 / 3.00 us/record",
    ]


def test_percentile_has_the_cpu_times_of_its_load() -> None:
    p50 = measured(f"{RATE}: p50", [1, 2], [3, 4], unit="ms", higher_is_better=False)
    row = cells(report_page.page(result(p50, cpu("server", 0.5, 1))), f"{RATE}: p50")
    assert row[4:] == ["2.33 (1.50-4.00)", "0.50 / 1.00 us/record", "-"]


@pytest.mark.parametrize(
    ("ours", "theirs", "within"),
    [((3, 4, 5), (1, 2, 2.9), False), ((3, 4, 5), (1, 2, 3), True), ((1, 2), (3, 4), False), ((1, 9), (2, 3), True)],
)
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_intervals_that_overlap_or_touch_are_within_the_noise(
    ours: Sequence[float], theirs: Sequence[float], within: bool, higher_is_better: bool
) -> None:
    compared = Comparison.of(Spread.of(ours), Spread.of(theirs), higher_is_better)
    assert compared.within_the_noise is within
    assert compared.low <= compared.ratio <= compared.high


def test_figures_of_zero_are_compared_without_an_error() -> None:
    zero, one = Spread.of([0, 0]), Spread.of([1, 1])
    assert Comparison.of(zero, zero, True).within_the_noise
    assert Comparison.of(one, zero, True) == Comparison(*[float("inf")] * 3)
    figures = [measured(RATE, [1, 1], [0, 0]), measured("idle CPU", [0, 1], [0, 2], higher_is_better=False)]
    for image in report_page.plots(result(*figures)).values():
        assert not {"nan", "inf"} & {
            each for element in ET.fromstring(image).iter() for each in element.attrib.values()
        }


def test_table_of_a_run_marks_a_ratio_within_the_noise_if_it_has_a_spread() -> None:
    series = Series([OURS, KAFKA])
    for ours, theirs in ((1.0, 2.0), (3.0, 1.0)):
        series.add(OURS, [Figure("a", "s", ours), Figure("b", "s", ours + 5)])
        series.add(KAFKA, [Figure("a", "s", theirs), Figure("b", "s", theirs)])
    assert [row[4] for row in series.rows()] == ["1.33, within the noise", "4.67"]


def test_table_of_two_nodes_explains_its_columns() -> None:
    series = Series([OURS, KAFKA])
    series.add(OURS, [Figure("a", "s", 2.0, False, 1.0)])
    series.add(KAFKA, [Figure("a", "s", 1.0, False, 1.0)])
    head, _, row, _, *explained = series.table().splitlines()
    assert [cell.strip() for cell in head.split("|")[1:-1]] == ["figure", "unit", OURS, KAFKA, "ratio", "aim", "aim is"]
    assert row.split("|")[-2].strip() == "missed"
    assert all(f"{name}:" in "\n".join(explained) for name in ("ratio", "aim", "within the noise"))
    assert len(Series([OURS], series.measured).table().splitlines()) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.00"), (0.0123, "0.012"), (0.1, "0.10"), (9.99, "9.99"), (12.34, "12.3"), (123456, "123,456")],
)
def test_numbers_have_at_least_two_significant_digits(value: float, text: str) -> None:
    assert report.number(value) == text


def test_series_is_the_same_after_json() -> None:
    series = Series([OURS, KAFKA])
    series.add(OURS, [Figure("a", "s", 1.5, False)])
    again = Series.from_json(series.nodes, json.loads(json.dumps(series.as_json())))
    assert list(map(attrs.asdict, again.measured)) == list(map(attrs.asdict, series.measured))


@pytest.mark.parametrize(("answered", "words"), [(0.96, "held 80 %"), (0.9, "did **not** hold 80 %")])
def test_page_tells_if_a_rate_is_not_held(answered: float, words: str) -> None:
    assert f"- {OURS} {words}: {800 * answered:.0f} of 800 requests/s." in report_page.page(
        result(*latencies(answered))
    )


def test_page_tells_few_rounds_and_failed_rounds() -> None:
    figures = [measured(RATE, [1], [2])]
    shown = report_page.page(result(*figures, rounds=4, failed=["idle, kraft: refused"]))
    assert "Fewer than 5 rounds" in shown
    assert "- A round failed: idle, kraft: refused" in shown
    assert "Fewer than 5 rounds" not in report_page.page(result(*figures))


@pytest.mark.parametrize(("complete", "rounds", "published"), [(True, 5, True), (True, 4, False), (False, 5, False)])
def test_only_complete_runs_of_enough_rounds_are_published(complete: bool, rounds: int, published: bool) -> None:
    assert report_page.may_be_published({**result(rounds=rounds), "complete": complete}) is published


def test_plots_have_a_bar_for_each_ratio_and_a_curve_for_each_percentile() -> None:
    clear, noise = measured("a < b", [4, 5], [1, 2]), measured("noise", [1, 3], [2, 4])
    images = report_page.plots(result(clear, noise, *latencies(1)))
    assert images.keys() == {"benchmark-cluster.svg", "benchmark-latency.svg"}
    texts = {name: [each.text for each in ET.fromstring(image).iter()] for name, image in images.items()}
    assert {"a < b, records/s", "3.00", "0.67"} <= set(texts["benchmark-cluster.svg"])
    for node in (OURS, KAFKA):
        assert {f"{node}, p50", f"{node}, p99"} <= set(texts["benchmark-latency.svg"])
    links = [
        line.rpartition("images/")[2].rstrip(")") for line in report_page.page(result(clear, *latencies(1))).split()
    ]
    assert images.keys() <= set(links)


def test_bar_has_the_color_of_its_verdict() -> None:
    better, worse, noise = Comparison(2, 1.5, 3), Comparison(0.5, 0.4, 0.6), Comparison(2, 0.9, 3)
    colors = []
    for each in (better, worse, noise):
        root = ET.fromstring(report_plots.ratios("title", [("name", each)]))
        colors.append(next(bar.get("fill") for bar in list(root)[1:] if bar.tag.endswith("rect")))
    assert len(set(colors)) == 3


def test_published_page_and_plots_are_made_of_the_published_figures() -> None:
    """To update them after a change of the page: `make bench-report ARGS="--from docs/benchmarks.json"`."""
    docs = ROOT / "docs"
    published = json.loads((docs / "benchmarks.json").read_text())
    assert (docs / "benchmarks.md").read_text() == report_page.page(published)
    images = {path.name: path.read_text() for path in (docs / "images").glob("benchmark-*.svg")}
    assert images == report_page.plots(published)


@pytest.mark.parametrize("content", [None, "# A page", "[]", "{}"])
def test_page_of_a_file_without_a_result_is_refused(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SystemExit, match="2"):
        bench_report.main(["--from", str(file)])
    assert f"{file} has no result of a run: " in capsys.readouterr().err
    assert not file.with_suffix("").exists()
