"""`python -m jepsen run`: one run, its directory, its verdict.

python -m jepsen run --workload queue --nemesis kill,pause --time 60
python -m jepsen run --workload queue --nemesis all --time 120 --nodes 5
"""

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import Final

import attrs
import trio

from jepsen.checkers import Verdict, judge
from jepsen.journal import write_history
from jepsen.processes.clients.client_process import ClientFailed
from jepsen.processes.faults import FAULTS, Nemesis
from jepsen.processes.run.experiment import CLIENTS, Experiment, Outcome, perform
from jepsen.processes.run.workloads import WORKLOADS, Workload
from jepsen.report.command import write_report
from jepsen.store import HISTORY, REPORT, RunPlan, Store, Uptime

NONE: Final = "none"
ALL: Final = "all"
_ANOMALIES_SHOWN: Final = 5
_PLAINTEXT: Final = "plaintext"
_SASL_SSL: Final = "sasl_ssl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", choices=list(WORKLOADS), default="queue")
    parser.add_argument(
        "--nemesis", type=_kinds, default=_kinds(ALL), help=f"some of {','.join(FAULTS)}; or {ALL}, or {NONE}"
    )
    parser.add_argument("--time", type=float, default=60.0, help="seconds with faults")
    parser.add_argument("--nodes", type=int, choices=(3, 5), default=3)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rate", type=float, help="operations per second of each client; 0: as many as it can")
    parser.add_argument("--fault", type=float, default=6.0, help="seconds that a fault lasts on average")
    parser.add_argument("--peace", type=float, default=3.0, help="seconds from one fault to the next, on average")
    parser.add_argument(
        "--security",
        choices=(_PLAINTEXT, _SASL_SSL),
        default=_PLAINTEXT,
        help=f"{_SASL_SSL}: certificates between nodes, and clients that authenticate by SCRAM over TLS",
    )
    parser.add_argument("--seed", type=int, default=None, help="seed of the nemesis and the clients")
    parser.add_argument("--store", type=Path, default=Path("store"), help="where the directory of the run is made")
    parser.add_argument("--override", action="append", default=[], metavar="key=value", help="a config of all nodes")
    parser.add_argument("--keep", action="store_true", help="keep the nodes' data even if no anomaly was found")


def _kinds(text: str) -> tuple[str, ...]:
    if text in (NONE, ALL):
        return tuple(FAULTS) if text == ALL else ()
    kinds = tuple(text.split(","))
    for kind in kinds:
        if kind not in FAULTS:
            raise argparse.ArgumentTypeError(f"{kind} is not one of {', '.join(FAULTS)}")
    return kinds


def run(options: argparse.Namespace) -> int:
    seed = SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    workload = WORKLOADS[options.workload]
    began = datetime.now(UTC)
    directory = options.store / f"{began:%Y%m%dT%H%M%S}-{options.workload}-{seed}"
    experiment = _experiment(options, workload, directory, seed)
    store = Store(directory)
    directory.mkdir(parents=True)
    store.write_plan(_run_plan(options, experiment, began))
    outcome = _performed(experiment)
    if outcome is None:
        return 2
    _write(store, outcome)
    verdict = judge(outcome.history, workload.checkers, workload.notes(outcome.history))
    store.write_verdict(verdict)
    write_report(store)
    print(_summary(directory, verdict))
    if verdict.is_valid and not options.keep:
        for node in outcome.nodes:
            shutil.rmtree(node.data)
    return 0 if verdict.is_valid else 1


def _experiment(options: argparse.Namespace, workload: Workload, directory: Path, seed: int) -> Experiment:
    return Experiment(
        directory.absolute(),
        workload,
        Nemesis(options.nemesis, options.fault, options.peace),
        options.time,
        options.nodes,
        options.partitions,
        workload.rate if options.rate is None else options.rate,
        seed,
        dict(pair.split("=", 1) for pair in options.override),
        options.security == _SASL_SSL,
    )


def _performed(experiment: Experiment) -> Outcome | None:
    """Perform the run. Returns its verdict, or None if a client failed, because the history is then incomplete."""
    outcome = None
    try:
        outcome = trio.run(perform, experiment)
    except* ClientFailed as group:
        for failure in _leaves(group):
            print(f"no verdict: {failure}; see {experiment.directory}", file=sys.stderr)
    return outcome


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def _run_plan(options: argparse.Namespace, experiment: Experiment, began: datetime) -> RunPlan:
    nodes = tuple(f"n{index}" for index in range(1, experiment.nodes + 1))
    command = (
        f"python -m jepsen run --workload {options.workload} --nemesis {','.join(options.nemesis) or NONE} "
        f"--time {options.time:g} --nodes {experiment.nodes} --rate {experiment.rate:g} --seed {experiment.seed} "
        f"--security {options.security}"
    )
    groups = {group.name: str(group) for group in experiment.workload.groups}
    parameters = {"partitions": str(experiment.partitions), **groups, **experiment.overrides}
    return RunPlan(
        options.workload,
        options.nemesis,
        nodes,
        experiment.seconds,
        experiment.seed,
        began.isoformat(),
        command,
        experiment.rate,
        parameters,
    )


def _write(store: Store, outcome: Outcome) -> None:
    with (store.directory / HISTORY).open("wb") as file:
        write_history(outcome.history, file)
    for path in (store.directory / CLIENTS).glob("*.jsonl"):
        path.unlink()  # the history has it all
    store.write_uptimes(_since(outcome.zero, (uptime for node in outcome.nodes for uptime in node.uptimes)))
    store.write_members(_since(outcome.zero, outcome.members))


def _since(zero: float, uptimes: Iterable[Uptime]) -> Sequence[Uptime]:
    """Convert times to seconds since the run began, which is when all nodes had been started."""

    def shifted(moment: float | None) -> float | None:
        return None if moment is None else max(0.0, moment - zero)

    return [
        attrs.evolve(
            uptime,
            began_at=max(0.0, uptime.began_at - zero),
            serving_at=shifted(uptime.serving_at),
            ended_at=shifted(uptime.ended_at),
        )
        for uptime in uptimes
    ]


def _summary(directory: Path, verdict: Verdict) -> str:
    lines = [f"{count:,} {what}" for what, count in sorted(verdict.counts.items())]
    lines += [f"{name}: {figure}" for name, figure in verdict.notes.items()]
    lines += [f"BROKEN, {each.broken} times: {each.name}" for each in verdict.promises if each.broken]
    lines += [str(anomaly) for anomaly in list(verdict.anomalies())[:_ANOMALIES_SHOWN]]
    return "\n".join([*lines, f"{'no anomaly' if verdict.is_valid else 'ANOMALIES'}; see {directory / REPORT}"])
