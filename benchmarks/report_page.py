"""The benchmark page, made of the result of one run. Nothing is measured here."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks import report, report_plots
from benchmarks.figures import CLIENT_CPU, SERVER_CPU, WITHIN_THE_NOISE, Comparison, Measured, Series, Spread
from benchmarks.latency_shares import ANSWERED, OFFERED, SHARES_PERCENT, load_name
from benchmarks.report import number
from benchmarks.report_plots import Line

ROUNDS_MIN: Final = 5
# A node that answers fewer of the offered requests does not hold the rate.
HELD_MIN: Final = 0.95
TITLES: Final = {"start": "Start and memory", "node": "One node", "cluster": "Three nodes, three replicas"}
_LATENCY_PLOT: Final = "benchmark-latency.svg"

_HEAD: Final = """# Benchmarks

<!-- Made by `make bench-report`. -->

This page compares this project with Apache Kafka on one machine, in one run, under the same loads.

```
make bench-report                                    # all of it; needs java and mvn
make bench-report ARGS="--only zstd TLS --rounds 1"  # some loads
make bench-report ARGS="--from docs/benchmarks.json" # this page again, of its figures
```

A complete run makes this page, its plots and `docs/benchmarks.json`, which has the values of all rounds. The page of
any other run is written beside its figures, among the results of `benchmarks`. A run needs 4 GiB in the temporary
directory. It writes a file of that size first, and removes it: the first node finds memory that was used before.
"""

_METHOD: Final = f"""## How to read the tables

- Both nodes, or both clusters, run during all loads of a table, and may use every core. The client runs on the same
  machine. In each round, both are measured one after the other, and the first of a round is the second of the next.
  Unmeasured rounds come before, because a JVM compiles code that runs often. A load begins when the nodes have ended
  the work of the one before, such as the deletion of a hundred logs.
- A cell has the median of the rounds, and in brackets the smallest and the largest value.
- A ratio tells how many times better this project is: above 1, it is better. Its brackets have the bounds within which
  all pairs of rounds lie. Where the intervals of both overlap, the difference is "{WITHIN_THE_NOISE}". Five rounds of
  two equal nodes lie apart by chance in 1 of 126 cases.
- "Server CPU" is that of all nodes, and "client CPU" that of the client; each is "this project / Apache Kafka". Where
  the client needs more than the server, the client limits the rate, and the CPU times tell more than the ratio.
- Clients are confluent-kafka's with idempotence and `acks=all`. Loads named "raw" are requests that were encoded
  before, and are sent by a load generator in C. Topics of three nodes have three replicas and `min.insync.replicas=2`.
- Files are cold when they have been written to the disk and dropped from the page cache (`POSIX_FADV_DONTNEED`). The
  live consumer reads 500 records per second at the end of the same partition.
- All nodes have their default configs, apart from addresses and from `log.segment.delete.delay.ms=0`. Apache Kafka
  has the JVM options of its start script.
"""


def may_be_published(result: Mapping[str, Any]) -> bool:
    return bool(result["complete"]) and result["rounds"] >= ROUNDS_MIN


def page(result: Mapping[str, Any]) -> str:
    """The page in Markdown. A result without groups gives a page without figures."""
    parts = [_HEAD]
    if result["groups"]:
        parts.append(_run(result))
        parts += [_group(name, series) for name, series in _groups(result)]
    else:
        parts.append("No run has been published yet.\n")
    return "\n".join([*parts, _METHOD])


def plots(result: Mapping[str, Any]) -> dict[str, str]:
    """The SVG of each plot, by the name of its file."""
    found = {}
    for name, series in _groups(result):
        rows = [(each.name + f", {each.unit}", shown) for each, shown in _compared(series)]
        if rows:
            title = f"{TITLES[name]}: times better than Apache Kafka"
            found[_plot_name(name)] = report_plots.ratios(title, rows)
        if lines := _latency_lines(series):
            title = "Latency of Produce requests of 100 bytes, three replicas"
            found[_LATENCY_PLOT] = report_plots.curves(title, "of Apache Kafka's largest rate", "ms", lines)
    return found


def _groups(result: Mapping[str, Any]) -> Iterator[tuple[str, Series]]:
    for name, group in result["groups"].items():
        series = Series.from_json(group["nodes"], group["figures"])
        series.failed = group["failed"]
        yield name, series


def _run(result: Mapping[str, Any]) -> str:
    facts = {**result["run"], **result["machine"]}
    facts["rounds"] = f"{result['rounds']} of {result['seconds']:g} s"
    lines = ["## The run", "", report.table(["", ""], list(facts.items())), ""]
    if result["rounds"] < ROUNDS_MIN:
        lines += [f"**Fewer than {ROUNDS_MIN} rounds tell nothing about noise: the ratios are no result.**", ""]
    return "\n".join(lines)


def _group(name: str, series: Series) -> str:
    lines = [f"## {TITLES[name]}", ""]
    if any(True for _ in _compared(series)):
        lines += [f"![{TITLES[name]}: ratios](images/{_plot_name(name)})", ""]
    if _latency_lines(series):
        lines += [f"![Latency by rate](images/{_LATENCY_PLOT})", ""]
    head = ["", "unit", *series.nodes, "ratio", "server CPU", "client CPU"]
    lines += [report.table(head, [_row(each, series) for each in _shown(series)]), ""]
    if notes := [f"- A round failed: {each}" for each in series.failed] + [*_rates(series)]:
        lines += [*notes, ""]
    return "\n".join(lines)


def _shown(series: Series) -> Iterator[Measured]:
    """The figures with a row: CPU times stand in the rows of their loads."""
    for each in series.measured:
        if not each.name.endswith((SERVER_CPU, CLIENT_CPU, OFFERED, ANSWERED)):
            yield each


def _compared(series: Series) -> Iterator[tuple[Measured, Comparison]]:
    for each in _shown(series):
        if shown := each.comparison(series.nodes):
            yield each, shown


def _row(measured: Measured, series: Series) -> list[str]:
    spreads = [measured.spread(node) for node in series.nodes]
    comparison = measured.comparison(series.nodes)
    return [
        measured.name,
        measured.unit,
        *("" if spread is None else _interval(spread) for spread in spreads),
        "" if comparison is None else _verdict(comparison),
        _cpu(measured, SERVER_CPU, series),
        _cpu(measured, CLIENT_CPU, series),
    ]


def _interval(spread: Spread) -> str:
    return f"{number(spread.median)} ({number(spread.low)}-{number(spread.high)})"


def _verdict(comparison: Comparison) -> str:
    interval = f"{comparison.ratio:.2f} ({comparison.low:.2f}-{comparison.high:.2f})"
    return f"{interval}, {WITHIN_THE_NOISE}" if comparison.within_the_noise else interval


def _cpu(measured: Measured, kind: str, series: Series) -> str:
    """The CPU times of a figure's load, whose name is the figure's or its beginning."""
    by_name = {each.name: each for each in series.measured}
    found = by_name.get(measured.name + kind) or by_name.get(measured.name.rpartition(": ")[0] + kind)
    if found is None:
        return "-"
    spreads = map(found.spread, series.nodes)
    return " / ".join("-" if each is None else number(each.median) for each in spreads) + f" {found.unit}"


def _latency_lines(series: Series) -> list[Line]:
    by_name = {each.name: each for each in series.measured}
    lines = []
    for number_of_node, node in enumerate(series.nodes):
        for percentile in ("p50", "p99"):
            points = [
                (percent, spread)
                for percent in SHARES_PERCENT
                if (found := by_name.get(f"{load_name(percent)}: {percentile}")) and (spread := found.spread(node))
            ]
            if points:
                lines.append(Line(f"{node}, {percentile}", number_of_node == 0, percentile == "p99", points))
    return lines


def _rates(series: Series) -> Iterator[str]:
    by_name = {each.name: each for each in series.measured}
    for percent in SHARES_PERCENT:
        name = load_name(percent)
        for node in series.nodes if f"{name}: {OFFERED}" in by_name else ():
            rate, seen = (by_name[f"{name}: {kind}"].spread(node) for kind in (OFFERED, ANSWERED))
            if rate and seen:
                held = "held" if seen.median >= HELD_MIN * rate.median else "did **not** hold"
                yield f"- {node} {held} {percent} %: {number(seen.median)} of {number(rate.median)} requests/s."


def _plot_name(group: str) -> str:
    return f"benchmark-{group}.svg"
