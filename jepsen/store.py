"""The files of a run in its directory, for people and for the report. Times are nanoseconds since the run began.

run.json        the plan: workload, nemesis, nodes, seed, ...
history.jsonl   the operations of clients (`jepsen.journal`); recorders write history-<process>.jsonl
faults.jsonl    the faults, each with its interval (`Fault`)
nodes.jsonl     the intervals in which each node's processes ran (`Uptime`)
members.jsonl   the same for the members of groups, by their places in the groups
verdict.json    the anomalies, with the operations that prove them (`Verdict`)
report.html     the report
<node>/         the node's properties and output; clients/ has the output of clients
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen.checkers import Anomaly, Promise, Verdict
from jepsen.history import History
from jepsen.journal import events_of, operations_of, read_histories

RUN: Final = "run.json"
HISTORY: Final = "history.jsonl"
RECORDED: Final = "history-*.jsonl"
FAULTS: Final = "faults.jsonl"
NODES: Final = "nodes.jsonl"
MEMBERS: Final = "members.jsonl"
VERDICT: Final = "verdict.json"
REPORT: Final = "report.html"

# The suffixes of the files that the nodes' and clients' output is in.
_READABLE: Final = (".json", ".jsonl", ".log", ".out", ".properties", ".txt")
_NANOSECONDS: Final = 1_000_000_000


@attrs.frozen
class RunPlan:
    """The plan of a run. `started_at` is its start in ISO 8601; `command` is the command line that repeats it."""

    workload: str
    nemesis: tuple[str, ...]
    nodes: tuple[str, ...]
    seconds: float
    seed: int
    started_at: str
    command: str
    rate: float | None = None
    parameters: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Fault:
    """An injected fault. `kind` is the nemesis's name for it; `targets` are nodes, clients, or links as "a>b".

    Times are in seconds. `ended_at` is None if the fault was still active when the run ended.
    """

    kind: str
    targets: tuple[str, ...]
    began_at: float
    ended_at: float | None = None
    detail: str = ""


@attrs.frozen
class Uptime:
    """The time during which one process of a node, or of a group member, ran, in seconds.

    `serving_at` is when a node first answered clients; `end` tells how the process ended.
    """

    node: str
    began_at: float
    serving_at: float | None = None
    ended_at: float | None = None
    end: str = ""


class Store:
    """The directory of a run. An interrupted run leaves some files out; they are read as empty."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write_plan(self, plan: RunPlan) -> None:
        self._write(RUN, [json.dumps(attrs.asdict(plan), indent=2)])

    def write_faults(self, faults: Iterable[Fault]) -> None:
        self._write(FAULTS, [json.dumps(_in_nanoseconds(attrs.asdict(each))) for each in faults])

    def write_uptimes(self, uptimes: Iterable[Uptime]) -> None:
        self._write(NODES, [json.dumps(_in_nanoseconds(attrs.asdict(each))) for each in uptimes])

    def write_members(self, uptimes: Iterable[Uptime]) -> None:
        self._write(MEMBERS, [json.dumps(_in_nanoseconds(attrs.asdict(each))) for each in uptimes])

    def write_verdict(self, verdict: Verdict) -> None:
        self._write(VERDICT, [json.dumps(_verdict_content(verdict), indent=1)])

    def plan(self) -> RunPlan:
        """Read the plan. Raises FileNotFoundError if the directory has no run."""
        content = json.loads((self.directory / RUN).read_text())
        return RunPlan(**content | {name: tuple(content[name]) for name in ("nemesis", "nodes")})

    def history(self) -> History:
        """The history, without operations whose processes were killed while they wrote them."""
        recorded = sorted(self.directory.glob(RECORDED))
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("rb")) for path in recorded or [self.directory / HISTORY]]
            return read_histories(files)

    def faults(self) -> list[Fault]:
        return [Fault(**each | {"targets": tuple(each["targets"])}) for each in self._timed_lines(FAULTS)]

    def uptimes(self) -> list[Uptime]:
        return [Uptime(**each) for each in self._timed_lines(NODES)]

    def members(self) -> list[Uptime]:
        return [Uptime(**each) for each in self._timed_lines(MEMBERS)]

    def verdict(self) -> Verdict | None:
        """The verdict; None if the run was not judged."""
        path = self.directory / VERDICT
        return _verdict(json.loads(path.read_text())) if path.exists() else None

    def files(self) -> list[str]:
        """The readable files, as paths relative to the directory, without the nodes' data."""
        found = [*self.directory.glob("*"), *self.directory.glob("*/*")]
        return sorted(each.relative_to(self.directory).as_posix() for each in found if each.suffix in _READABLE)

    def _timed_lines(self, name: str) -> Iterator[dict[str, Any]]:
        path = self.directory / name
        for line in path.read_text().splitlines() if path.exists() else ():
            yield {
                key: value / _NANOSECONDS if key.endswith("_at") and value is not None else value
                for key, value in json.loads(line).items()
            }

    def _write(self, name: str, lines: Iterable[str]) -> None:
        (self.directory / name).write_text("".join(f"{line}\n" for line in lines))


def _in_nanoseconds(content: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value * _NANOSECONDS) if name.endswith("_at") and value is not None else value
        for name, value in content.items()
    }


def _verdict_content(verdict: Verdict) -> dict[str, Any]:
    return {
        "valid": verdict.is_valid,
        "promises": [
            {
                "name": each.name,
                "meaning": each.meaning,
                "broken": each.broken,
                "doubts": each.doubts,
                "anomalies": [
                    {"what": anomaly.what, "proof": [event for one in anomaly.proof for event in events_of(one)]}
                    for anomaly in each.anomalies
                ],
            }
            for each in verdict.promises
        ],
        "counts": dict(verdict.counts),
        "notes": dict(verdict.notes),
    }


def _verdict(content: Mapping[str, Any]) -> Verdict:
    promises = []
    for each in content["promises"]:
        anomalies = [
            Anomaly(each["name"], anomaly["what"], tuple(operations_of(anomaly["proof"])))
            for anomaly in each["anomalies"]
        ]
        doubts = tuple(each.get("doubts", ()))
        promises.append(Promise(each["name"], each["meaning"], each["broken"], tuple(anomalies), doubts))
    return Verdict(tuple(promises), content["counts"], content["notes"])
