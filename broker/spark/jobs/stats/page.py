"""A page about topics, in one file: it can be sent, and looked at without a network."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from broker.spark.jobs.stats.plots import plot_bars, plot_over_time
from broker.spark.jobs.topic_stats import Measures, TopicStats

_STYLE: Final = """
:root { --ink: #1c2733; --soft: #5d6b7a; --line: #dde3ea; --paper: #fff; --back: #f5f7f9;
  --mark: #2463a8; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ee; --soft: #98a5b3; --line: #2f3a45; --paper: #182028;
  --back: #10161c; --mark: #6ea8e6; --bad: #f2867d } }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back) }
main { max-width: 1120px; margin: 0 auto; padding: 24px }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px }
section { padding: 16px 20px; margin: 16px 0 }
h1 { font-size: 24px; margin: 0 } h2 { font-size: 19px; margin: 0 0 8px } h3 { font-size: 14px; margin: 16px 0 4px }
p { margin: 4px 0; color: var(--soft) }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(420px, 1fr)); gap: 4px 24px }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: 4px 8px; border-bottom: 1px solid var(--line); white-space: nowrap }
th { font-size: 12px; font-weight: 600; color: var(--soft) } th:first-child, td:first-child { text-align: left }
td.bad { color: var(--bad); font-weight: 600 }
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
.grid { stroke: var(--line) } .line { fill: none; stroke: var(--mark); stroke-width: 1.5 }
.area { fill: var(--mark); opacity: .15 } .bar { fill: var(--mark) } .hover { fill: transparent }
.hover:hover { fill: var(--mark); opacity: .15 }
"""
_HEADINGS: Final = (
    "",
    "records",
    "bytes",
    "records/s",
    "keys",
    "null keys",
    "null values",
    "size p50",
    "p99",
    "max",
    "late",
    "late p99",
    "late max",
    "missing offsets",
    "duplicate offsets",
    "producers",
    "missing sequences",
    "duplicate sequences",
)


def render_page(topics: Sequence[TopicStats], source: str) -> str:
    """The page as HTML. `source` says where the records are from."""
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    rows = [_row(topic.topic, topic.measures) for topic in topics]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Topics</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main><h1>Topics</h1>"
        f"<p>{escape(source)}, {now}</p><section>{_table(rows)}</section>{''.join(map(_topic, topics))}"
        "</main></body></html>\n"
    )


def _topic(topic: TopicStats) -> str:
    seconds = topic.interval_ms / 1000
    plots = [
        (
            "Records per second",
            plot_over_time([(p.time_ms, p.records / seconds) for p in topic.rates], topic.interval_ms, "records/s"),
        ),
        (
            "Bytes per second",
            plot_over_time([(p.time_ms, p.bytes / seconds) for p in topic.rates], topic.interval_ms, "B/s"),
        ),
        (
            f"Records by partition: the largest has {topic.partition_skew:g} times the mean",
            plot_bars([(f"partition {each.partition}", each.measures.records) for each in topic.partitions], "records"),
        ),
        (
            f"Most frequent keys: the first has {topic.key_share:.2%} of the records with a key",
            plot_bars([(each.key, each.records) for each in topic.top_keys], "records"),
        ),
    ]
    shown = "".join(f"<div><h3>{escape(title)}</h3>{plot}</div>" for title, plot in plots if plot)
    rows = [_row(f"partition {each.partition}", each.measures) for each in topic.partitions]
    return (
        f"<section><h2>{escape(topic.topic)}</h2><p>{_span(topic.measures)}</p>"
        f'<div class="plots">{shown}</div>{_table(rows)}</section>'
    )


def _table(rows: Iterable[str]) -> str:
    headings = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
    return f'<div class="wide"><table><thead><tr>{headings}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _row(name: str, measures: Measures) -> str:
    sizes, lateness = measures.value_sizes, measures.lateness
    cells = [
        f"{measures.records:,}",
        f"{measures.bytes:,}",
        f"{measures.records_per_second:,.1f}",
        f"{measures.keys:,}",
        _share(measures.null_keys, measures.records),
        _share(measures.null_values, measures.records),
        f"{sizes.p50:,}",
        f"{sizes.p99:,}",
        f"{sizes.max:,}",
        _share(lateness.late, measures.records),
        f"{lateness.p99_ms:,} ms",
        f"{lateness.max_ms:,} ms",
        f"{measures.missing_offsets:,}",
    ]
    told = "".join(f"<td>{cell}</td>" for cell in cells)
    return f"<tr><td>{escape(name)}</td>{told}{_bad(measures.duplicate_offsets)}{_sequences(measures)}</tr>"


def _sequences(measures: Measures) -> str:
    counts = measures.sequences
    if counts is None:
        return "<td>-</td>" * 3
    return f"<td>{counts.producers:,}</td>{_bad(counts.missing)}{_bad(counts.duplicates)}"


def _bad(count: int) -> str:
    """A cell with a count that ought to be 0."""
    mark = ' class="bad"' if count else ""
    return f"<td{mark}>{count:,}</td>"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "-"


def _span(measures: Measures) -> str:
    if measures.first_ms is None or measures.last_ms is None:
        return "no record has a time"
    first, last = (datetime.fromtimestamp(each / 1000, UTC) for each in (measures.first_ms, measures.last_ms))
    return f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
