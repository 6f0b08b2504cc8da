"""The main drawing of a report: faults, nodes, groups, waits, throughput and latency on one axis of time."""

from collections.abc import Iterator, Sequence
from math import log10
from typing import Final

from jepsen.report.charts import Frame, latency_chart, rate_chart
from jepsen.report.findings import Findings
from jepsen.report.lanes import groups
from jepsen.report.markup import Markup, element, join
from jepsen.report.measures import STALL_SECONDS, stalls
from jepsen.report.scales import Linear, clock, duration
from jepsen.report.sheet import GAP, LEFT, RIGHT, WIDTH, Sheet
from jepsen.store import Fault, Uptime

_FAULT_HEIGHT, _FAULT_STEP = 17.0, 21.0
_NODE_HEIGHT, _NODE_STEP = 20.0, 27.0
# The height of a partition's row and the space below it, with few partitions and with many.
_ROW_LARGE: Final = (12.0, 3.0)
_ROW_SMALL: Final = (4.0, 1.5)
_ROWS_PER_LABEL: Final = 8
# The opacity of the shortest stall. Stalls ten times as long are opaque.
_FAINT: Final = 0.3
_ROWS_LARGE_MAX: Final = 16
_ROWS_MAX: Final = 64
_RATES_HEIGHT, _LATENCIES_HEIGHT = 150.0, 190.0
_CHARACTER_WIDTH: Final = 5.9
_SECONDS_PER_TICK_MIN: Final = 12


def timeline(found: Findings) -> Markup:
    page = Sheet(Linear(0.0, found.end, LEFT, WIDTH - RIGHT))
    _faults(page, found)
    top = page.y + GAP - 4
    _nodes(page, found)
    groups(page, found)
    _partitions(page, found)
    page.title(found.unit)
    frame = Frame(page.x, page.y, _RATES_HEIGHT, LEFT)
    page.parts.append(rate_chart(found, frame))
    page.y += _RATES_HEIGHT
    page.title("latency")
    page.parts.append(latency_chart(found, Frame(page.x, page.y, _LATENCIES_HEIGHT, LEFT)))
    page.y += _LATENCIES_HEIGHT
    behind = [*_bands(page, found, top), *_time_axis(page, found, top)]
    height = page.y + 26
    return element(
        "svg",
        element("defs", _hatching()),
        behind,
        page.parts,
        _anomalies(page, found, top),
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        class_="timeline",
        role="img",
        aria_label="Faults, nodes, throughput and latency over time",
    )


def _faults(page: Sheet, found: Findings) -> None:
    if not found.faults:
        return
    page.title("faults")
    rows = _packed(found.faults, found.end)
    for fault, row in zip(found.faults, rows, strict=True):
        y = page.y + row * _FAULT_STEP
        end = found.end if fault.ended_at is None else fault.ended_at
        page.bar(fault.began_at, end, y, _FAULT_HEIGHT, describe(fault), class_=f"fault {kind_class(fault)}", rx=3)
        room = page.x(end) - page.x(fault.began_at) - 8
        for text in (f"{fault.kind} {describe_targets(fault.targets)}", fault.kind):
            if len(text) * _CHARACTER_WIDTH <= room:
                x = page.x(fault.began_at) + 5
                page.parts.append(element("text", text, class_="fault-label", x=x, y=y + 12.5))
                break
    page.y += (max(rows) + 1) * _FAULT_STEP - (_FAULT_STEP - _FAULT_HEIGHT)


def _packed(faults: Sequence[Fault], end: float) -> list[int]:
    """Assign a row to each fault, so that faults in the same row do not overlap."""
    free_from: list[float] = []
    rows = []
    for fault in faults:
        row = next((row for row, free in enumerate(free_from) if free <= fault.began_at), len(free_from))
        free_from[row:] = [end if fault.ended_at is None else fault.ended_at, *free_from[row + 1 :]]
        rows.append(row)
    return rows


def _nodes(page: Sheet, found: Findings) -> None:
    if not found.plan.nodes:
        return
    page.title("nodes")
    for node in found.plan.nodes:
        page.label(node, page.y + 14)
        for uptime in found.uptimes:
            if uptime.node == node:
                _draw_uptime(page, uptime, found.end)
        for fault in found.faults:
            if node in fault.targets:
                end = found.end if fault.ended_at is None else fault.ended_at
                # A pause covers the node's bar, because a paused process does nothing. Other faults are drawn below the
                # bar.
                y, height = (page.y, _NODE_HEIGHT) if fault.kind == "pause" else (page.y + _NODE_HEIGHT - 5, 5.0)
                page.bar(fault.began_at, end, y, height, describe(fault), class_=f"mark {kind_class(fault)}", rx=1.5)
        page.y += _NODE_STEP
    page.y -= _NODE_STEP - _NODE_HEIGHT


def _draw_uptime(page: Sheet, uptime: Uptime, until: float) -> None:
    end = until if uptime.ended_at is None else min(uptime.ended_at, until)
    serving = end if uptime.serving_at is None else min(uptime.serving_at, end)
    if uptime.began_at >= until:
        return
    page.bar(uptime.began_at, serving, page.y, _NODE_HEIGHT, f"{uptime.node} starts", class_="starting", rx=3)
    if serving < end:
        title = f"{uptime.node} serves from {serving:.1f} s" + (f", {uptime.end} at {end:.1f} s" if uptime.end else "")
        page.bar(serving, end, page.y, _NODE_HEIGHT, title, class_="alive", rx=3)


def _partitions(page: Sheet, found: Findings) -> None:
    """Draw the waits of each partition, group and metadata: the longer, the darker."""
    waited = {key: stalls(every) for key, every in found.waits.items()}
    longest = sorted(waited, key=lambda key: -sum(wait.seconds for wait in waited[key]))[:_ROWS_MAX]
    rows = [(key, waited[key]) for key in waited if key in longest]
    height, gap = _ROW_LARGE if len(rows) <= _ROWS_LARGE_MAX else _ROW_SMALL
    page.title("waiting" if len(rows) == len(waited) else f"waiting: the longest {len(rows)} of {len(waited)}")
    for index, (key, every) in enumerate(rows):
        if len(rows) <= _ROWS_LARGE_MAX or index % _ROWS_PER_LABEL == 0:
            page.label(key, page.y + height / 2 + 4)
        page.bar(0.0, found.work_end, page.y, height, f"{key} answers", class_="answers", rx=2)
        for wait in every:
            title = f"{key}: {duration(wait.seconds)} without an acknowledgement, from {wait.begin:.1f} s"
            strength = min(_FAINT + (1 - _FAINT) * log10(wait.seconds / STALL_SECONDS), 1.0)
            page.bar(wait.begin, wait.end, page.y, height, title, class_="stall", rx=1, fill_opacity=strength)
        page.y += height + gap
    page.y -= gap


def _bands(page: Sheet, found: Findings, top: float) -> Iterator[Markup]:
    """Faults and the healing, as bands in the background."""
    for fault in found.faults:
        start, end = page.x(fault.began_at), page.x(found.end if fault.ended_at is None else fault.ended_at)
        yield element(
            "rect",
            class_=f"band {kind_class(fault)}",
            x=start,
            y=top,
            width=max(end - start, 1.0),
            height=page.y - top,
        )
    for operation in found.history.of("heal"):
        start, end = page.x(operation.invoked_at), page.x(min(operation.completed_at or found.end, found.end))
        yield element(
            "rect",
            element("title", f"{operation.value.what}: {operation.outcome.value}"),
            class_="healing",
            x=start,
            y=top,
            width=max(end - start, 1.0),
            height=page.y - top,
        )


def _time_axis(page: Sheet, found: Findings, top: float) -> Iterator[Markup]:
    for second in page.x.time_ticks(_SECONDS_PER_TICK_MIN):
        at = page.x(second)
        yield element("line", class_="grid", x1=at, x2=at, y1=top, y2=page.y)
        yield element("text", clock(second), class_="tick time", x=at, y=page.y + 17)


def _anomalies(page: Sheet, found: Findings, top: float) -> Iterator[Markup]:
    """Mark the times of the operations that prove an anomaly."""
    if found.verdict is None:
        return
    for anomaly in found.verdict.anomalies():
        for operation in anomaly.proof:
            at = page.x(min(operation.invoked_at, found.end))
            yield element(
                "g",
                element("title", f"{anomaly.promise}: {anomaly.what}"),
                element("line", x1=at, x2=at, y1=top, y2=page.y),
                element("path", d=f"M{at:.1f},{top - 8:.1f} l5,5 -5,5 -5,-5 z"),
                class_="anomaly-mark",
            )


def _hatching() -> Markup:
    line = element("path", d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2", class_="hatch")
    return element("pattern", line, id="hatching", width=6, height=6, patternUnits="userSpaceOnUse")


def kind_class(fault: Fault) -> str:
    return f"k-{fault.kind}"


def describe_targets(targets: Sequence[str]) -> str:
    """A short description of a fault's targets: the names of nodes, or the number of links."""
    links = [target for target in targets if ">" in target]
    names = [target for target in targets if ">" not in target]
    return ", ".join([*names, *([f"{len(links)} links"] if links else [])])


def describe(fault: Fault) -> str:
    """The description of a fault in one line."""
    end = "never undone" if fault.ended_at is None else f"{fault.ended_at - fault.began_at:.1f} s"
    parts = [f"{fault.kind} {describe_targets(fault.targets)}", fault.detail, f"from {fault.began_at:.1f} s, {end}"]
    return " · ".join(part for part in parts if part)


def legend(found: Findings) -> Markup:
    """The legend: the kinds of faults, with the number of each."""
    kinds: dict[str, int] = {}
    for fault in found.faults:
        kinds[fault.kind] = kinds.get(fault.kind, 0) + 1
    chips = [
        element("span", element("i", class_=f"chip k-{kind}"), f" {kind} ", element("b", f"{count}"), class_="key")
        for kind, count in kinds.items()
    ]
    return element("p", join(chips), class_="legend")
