"""The table with the figures of each group."""

from typing import Final

from jepsen.history import Outcome
from jepsen.report.findings import Findings
from jepsen.report.groups import GroupTimeline
from jepsen.report.markup import Markup, element
from jepsen.report.scales import duration

_HEADS: Final = (
    "lives",
    "generations",
    "records received",
    "of them repeated",
    "largest lag",
    "longest time without an owner",
    "commits",
    "unknown",
)


def group_table(found: Findings) -> Markup:
    """Render the table; empty if there are no groups."""
    if not found.groups:
        return Markup("")
    heads = [element("th", head, class_="number") for head in _HEADS]
    names = [element("th", head) for head in ("group", "members")]
    rows = [_row(timeline, found.plan.parameters.get(timeline.name, "")) for timeline in found.groups]
    table = element("table", element("thead", element("tr", names, heads)), element("tbody", rows))
    return element("section", element("h2", "Groups"), element("div", table, class_="scroll"))


def _row(timeline: GroupTimeline, what: str) -> Markup:
    figures = (
        f"{sum(map(len, timeline.uptimes.values())):,}",
        f"{len(timeline.generations):,}",
        f"{timeline.polled:,}",
        f"{timeline.repeated:,}",
        f"{max(timeline.lag, default=0):,.0f}",
        duration(timeline.longest_unowned()),
        f"{timeline.commits[Outcome.OK]:,}",
        f"{timeline.commits[Outcome.INFO]:,}",
    )
    return element(
        "tr",
        element("td", timeline.name, class_="kind"),
        element("td", what, class_="detail"),
        [element("td", each, class_="number") for each in figures],
    )
