"""The data from which a report is rendered."""

import attrs

from jepsen.checkers import Verdict
from jepsen.history import History
from jepsen.report.groups import GroupTimeline, group_timelines
from jepsen.report.measures import (
    Bins,
    Key,
    Latencies,
    Outage,
    Rates,
    Wait,
    latencies,
    outages,
    rates,
    waits,
    work_end,
)
from jepsen.store import Fault, RunPlan, Store, Uptime


@attrs.frozen
class Findings:
    """The data of a report. Charts end at `end`, in seconds since the run began; clients finished their work at
    `work_end`.
    """

    plan: RunPlan
    history: History
    faults: list[Fault]
    uptimes: list[Uptime]
    groups: list[GroupTimeline]
    verdict: Verdict | None
    work_end: float
    end: float
    bins: Bins
    rates: Rates
    latencies: Latencies
    waits: dict[Key, list[Wait]]
    outages: list[Outage]
    files: list[str]

    @property
    def unit(self) -> str:
        """The unit of the rates."""
        return "records/s" if any(self.history.of("send")) else "operations/s"


def findings(store: Store) -> Findings:
    """Load and compute the data of a report. Raises FileNotFoundError if the directory has no run."""
    plan, history = store.plan(), store.history()
    faults = sorted(store.faults(), key=lambda fault: fault.began_at)
    last_work = work_end(history, plan.seconds)
    healed = [each.completed_at or 0.0 for each in history.of("heal")]
    end = max(plan.seconds, last_work, *(fault.ended_at or 0.0 for fault in faults), *healed)
    bins = Bins.over(end)
    every = waits(history, last_work)
    return Findings(
        plan=plan,
        history=history,
        faults=faults,
        uptimes=store.uptimes(),
        groups=group_timelines(history, store.members(), bins, end),
        verdict=store.verdict(),
        work_end=last_work,
        end=end,
        bins=bins,
        rates=rates(history, bins),
        latencies=latencies(history, bins),
        waits=every,
        outages=outages(every, faults, last_work),
        files=store.files(),
    )
