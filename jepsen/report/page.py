"""Renders the whole page: the verdict at the top, and the evidence below."""

from importlib.resources import files
from statistics import median
from typing import Final

from jepsen.history import Outcome
from jepsen.report.anomalies import anomalies, promises
from jepsen.report.charts import spread_chart
from jepsen.report.findings import Findings
from jepsen.report.groups import GroupTimeline
from jepsen.report.markup import Markup, element, join
from jepsen.report.measures import is_work, outcomes_by_function, percentile, weight
from jepsen.report.outages import fault_table, outage_chart
from jepsen.report.scales import duration
from jepsen.report.timeline import legend, timeline
from jepsen.store import RunPlan

_GROUP_HEADS: Final = (
    "lives",
    "generations",
    "records received",
    "of them repeated",
    "largest lag",
    "longest time without an owner",
    "commits",
    "unknown",
)
_CARD_WIDTH: Final = 540.0
_SPREAD_HEIGHT: Final = 190.0
# The number of kinds of faults that the summary names.
_KINDS_MAX: Final = 6
_SEALS: Final = {"kept": "M14,25.5 l7,7 l14,-15", "broken": "M16,16 l16,16 M32,16 l-16,16", "unjudged": "M15,24 h18"}


def page(found: Findings) -> str:
    plan = found.plan
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{plan.workload} under {_nemesis(found)}: {_headline(found)}"),
        element("style", Markup(files(__package__).joinpath("style.css").read_text())),
    )
    body = element(
        "body",
        _header(found),
        element("section", timeline(found), legend(found), class_="figure"),
        element("div", _felt(found), _spread(found), class_="pair"),
        anomalies(found),
        fault_table(found),
        _group_table(found),
        promises(found),
        element("div", _operations(found), _about(found), class_="pair"),
        _files(found),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _header(found: Findings) -> Markup:
    state = _state(found)
    seal = element(
        "svg",
        element("circle", cx=24, cy=24, r=22),
        element("path", d=_SEALS[state]),
        viewBox="0 0 48 48",
        class_="seal",
        aria_hidden="true",
    )
    plan = found.plan
    parts = [plan.workload, _nemesis(found), *([f"{len(plan.nodes)} nodes"] if plan.nodes else [])]
    kicker = " · ".join(parts)
    words = element(
        "div",
        element("p", kicker, class_="kicker"),
        element("h1", _headline(found)),
        element("p", _lede(found), class_="lede"),
    )
    return element("header", element("div", seal, words, class_="verdict"), _tiles(found), class_=state)


def _nemesis(found: Findings) -> str:
    kinds = found.plan.nemesis
    return f"{len(kinds)} kinds of faults" if len(kinds) > _KINDS_MAX else ", ".join(kinds) or "no faults"


def _state(found: Findings) -> str:
    if found.verdict is None:
        return "unjudged"
    if found.verdict.is_valid and not found.verdict.is_decided:
        return "unjudged"
    return "kept" if found.verdict.is_valid else "broken"


def _headline(found: Findings) -> str:
    if found.verdict is None:
        return "Not judged"
    count = sum(promise.broken for promise in found.verdict.promises)
    if count == 0 and not found.verdict.is_decided:
        return "Not decided"
    return "No anomaly" if count == 0 else f"{count:,} anomal{'y' if count == 1 else 'ies'}"


def _lede(found: Findings) -> str:
    faults = f"{len(found.faults) or 'no'} fault{'' if len(found.faults) == 1 else 's'}"
    did = f"{len(found.history.operations):,} operations in {duration(found.work_end)}, through {faults}."
    if found.verdict is None:
        return f"{did} The history was not checked."
    broken = sum(1 for promise in found.verdict.promises if promise.broken)
    total = len(found.verdict.promises)
    unknown = sum(1 for promise in found.verdict.promises if promise.doubts and not promise.broken)
    if broken == 0 and unknown:
        return f"{did} The history does not decide {unknown} of {total} promises."
    if broken == 0:
        return f"{did} All {total} promises were kept."
    return f"{did} Of {total} promises, {broken} {'was' if broken == 1 else 'were'} broken."


def _tiles(found: Findings) -> Markup:
    records = dict.fromkeys(Outcome, 0)
    for operation in found.history.operations:
        if is_work(operation):
            records[operation.outcome] += weight(operation)
    answered = [rate for rate in found.rates.ok if rate]
    p50, p99 = (percentile(found.latencies.all, share) for share in (0.5, 0.99))
    worst = max(found.outages, key=lambda outage: outage.worst, default=None)
    others = f"{records[Outcome.INFO]:,} unknown, {records[Outcome.FAIL]:,} failed"
    tiles = [("acknowledged", f"{records[Outcome.OK]:,}", others)]
    if p50 is not None and p99 is not None:
        tiles.append(("throughput", f"{median(answered):,.0f}", f"{found.unit}, median"))
        tiles.append(("latency", duration(p50), f"median; 99 % within {duration(p99)}"))
    if worst is not None:
        tiles.append(("longest wait", duration(worst.worst), f"{worst.fault.kind}, at {worst.worst_partition}"))
    heals = [each for each in found.history.of("heal") if each.completed_at is not None and each.outcome is Outcome.OK]
    if heals:
        slowest = max(heals, key=lambda each: (each.completed_at or 0) - each.invoked_at)
        tiles.append(("healed within", duration((slowest.completed_at or 0) - slowest.invoked_at), slowest.value.what))
    return element("dl", [_tile(*each) for each in tiles], class_="tiles")


def _tile(name: str, value: str, detail: str) -> Markup:
    return element("div", element("dt", name), element("dd", value), element("dd", detail, class_="detail"))


def _felt(found: Findings) -> Markup:
    if not found.outages:
        return Markup("")
    return element(
        "section",
        element("h2", "Length of outages"),
        element(
            "p",
            "The longest wait for an acknowledgement, at the partition that was affected most. ",
            "A dot is a fault, a line the median of its kind.",
            class_="note",
        ),
        outage_chart(found, _CARD_WIDTH),
    )


def _spread(found: Findings) -> Markup:
    every = found.latencies.all
    if not every:
        return Markup("")
    shares = ((0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (1.0, "all"))
    cells = [
        element("div", element("dt", name), element("dd", duration(percentile(every, share) or 0.0)))
        for share, name in shares
    ]
    return element(
        "section",
        element("h2", "Latency"),
        element(
            "p", f"{len(every):,} acknowledgements. Heights are logarithmic, to show the rare ones.", class_="note"
        ),
        spread_chart(every, _CARD_WIDTH, _SPREAD_HEIGHT),
        element("dl", cells, class_="shares"),
    )


def _operations(found: Findings) -> Markup:
    rows = [
        element(
            "tr",
            element("td", function),
            [element("td", f"{counts[outcome]:,}" if counts[outcome] else "", class_="number") for outcome in _COLUMNS],
        )
        for function, counts in outcomes_by_function(found.history).items()
    ]
    heads = [element("th", name, class_="number") for name in ("ok", "unknown", "failed")]
    table = element("table", element("thead", element("tr", element("th", "operation"), heads)), element("tbody", rows))
    return element("section", element("h2", "Operations of the clients"), table)


_COLUMNS: Final = (Outcome.OK, Outcome.INFO, Outcome.FAIL)


def _about(found: Findings) -> Markup:
    plan = found.plan
    facts = {
        "began": plan.started_at.replace("T", " ")[:19],
        "troubled for": duration(plan.seconds),
        **(_facts_of_run(plan) if plan.nodes else {}),
        **plan.parameters,
        **({} if found.verdict is None else found.verdict.notes),
    }
    rows = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    return element(
        "section", element("h2", "What was run"), element("dl", rows, class_="facts"), element("pre", plan.command)
    )


def _facts_of_run(plan: RunPlan) -> dict[str, str]:
    """The settings of a run that has nodes; an application's history has none."""
    return {
        "nodes": ", ".join(plan.nodes),
        "rate": "as fast as possible" if plan.rate is None else f"{plan.rate:g} per second",
        "seed": str(plan.seed),
    }


def _files(found: Findings) -> Markup:
    links = [element("li", element("a", name, href=name)) for name in found.files]
    return element("section", element("h2", "Files"), element("ul", join(links), class_="files"))


def _group_table(found: Findings) -> Markup:
    """Render the table; empty if there are no groups."""
    if not found.groups:
        return Markup("")
    heads = [element("th", head, class_="number") for head in _GROUP_HEADS]
    names = [element("th", head) for head in ("group", "members")]
    rows = [_group_row(timeline, found.plan.parameters.get(timeline.name, "")) for timeline in found.groups]
    table = element("table", element("thead", element("tr", names, heads)), element("tbody", rows))
    return element("section", element("h2", "Groups"), element("div", table, class_="scroll"))


def _group_row(timeline: GroupTimeline, what: str) -> Markup:
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
