"""Charts and tables of the waits that each fault caused."""

from statistics import median
from typing import Final

from jepsen.report.findings import Findings
from jepsen.report.markup import Markup, element
from jepsen.report.measures import Outage, by_kind
from jepsen.report.scales import Logarithmic, brief, clock, decades_around, duration
from jepsen.report.timeline import describe_targets, kind_class

_LEFT: Final = 112.0
_RIGHT: Final = 176.0
_ROW_MIN, _ROW_MAX, _ROWS_HEIGHT = 26.0, 44.0, 200.0
_WAIT_MIN, _WAIT_MAX = 0.01, 1.0
_BAR_WIDTH: Final = 120.0


def outage_chart(found: Findings, width: float) -> Markup:
    """A chart of the longest waits, with a row for each kind of fault and a logarithmic axis."""
    kinds = by_kind(found.outages)
    longest = max(outage.worst for outage in found.outages)
    x = Logarithmic(*decades_around(_WAIT_MIN, max(longest, _WAIT_MAX)), _LEFT, width - _RIGHT)
    step = min(max(_ROWS_HEIGHT / len(kinds), _ROW_MIN), _ROW_MAX)
    bottom = step * len(kinds) + 4
    parts = []
    for each in x.decades():
        parts.append(element("line", class_="grid", x1=x(each), x2=x(each), y1=0, y2=bottom))
        parts.append(element("text", brief(each), class_="tick time", x=x(each), y=bottom + 15))
    for row, (kind, outages) in enumerate(kinds.items()):
        y = (row + 0.5) * step + 2
        parts.append(element("text", kind, class_="row-label", x=_LEFT - 12, y=y + 4))
        parts.append(element("line", class_="grid", x1=_LEFT, x2=width - _RIGHT, y1=y, y2=y))
        parts += [_dot(outage, x, y) for outage in outages]
        middle, worst = median(outage.worst for outage in outages), max(outage.worst for outage in outages)
        parts.append(element("line", class_=f"middle k-{kind}", x1=x(middle), x2=x(middle), y1=y - 9, y2=y + 9))
        words = duration(worst) if len(outages) == 1 else f"{duration(middle)}, at most {duration(worst)}"
        parts.append(element("text", words, class_="tick figures", x=width, y=y + 4))
    return element("svg", parts, viewBox=f"0 0 {width:g} {bottom + 20:g}", class_="felt", role="img")


def _dot(outage: Outage, x: Logarithmic, y: float) -> Markup:
    title = f"{outage.fault.kind} at {clock(outage.fault.began_at)}: {duration(outage.worst)}, {outage.worst_partition}"
    return element(
        "circle", element("title", title), class_=f"dot {kind_class(outage.fault)}", cx=x(outage.worst), cy=y, r=5
    )


def fault_table(found: Findings) -> Markup:
    if not found.outages:
        return Markup("")
    longest = max(max(outage.worst for outage in found.outages), 1e-9)
    heads = [
        element("th", head, class_="number" if head in ("at", "lasted") else None)
        for head in ("at", "fault", "whom", "lasted", "", "longest wait", "worst at", "partitions that waited")
    ]
    rows = [_row(outage, longest, len(found.waits)) for outage in found.outages]
    table = element("table", element("thead", element("tr", heads)), element("tbody", rows))
    return element("section", element("h2", "Faults"), element("div", table, class_="scroll"), class_="faults")


def _row(outage: Outage, longest: float, partitions: int) -> Markup:
    fault = outage.fault
    lasted = "for good" if fault.ended_at is None else duration(fault.ended_at - fault.began_at)
    bar = element("i", class_=f"bar {kind_class(fault)}", style=f"width:{outage.worst / longest * _BAR_WIDTH:.1f}px")
    return element(
        "tr",
        element("td", clock(fault.began_at), class_="number"),
        element("td", element("i", class_=f"chip {kind_class(fault)}"), f" {fault.kind}", class_="kind"),
        element("td", describe_targets(fault.targets)),
        element("td", lasted, class_="number"),
        element("td", fault.detail, class_="detail"),
        element("td", bar, element("span", f" {duration(outage.worst)}"), class_="wait"),
        element("td", outage.worst_partition if outage.stalled else ""),
        element("td", f"{outage.stalled} of {partitions}" if outage.stalled else "none"),
    )
