"""`python -m jepsen fuzz`: sends hostile frames to all ports of a node and checks that it keeps serving.

python -m jepsen fuzz --frames 200000
python -m jepsen fuzz --frames 5000000 --seed 7 --ledger fuzz.json      continue after the last story of the ledger
python -m jepsen fuzz --seed 7 --first 1234 --stories 1                 repeat one story
"""

import argparse
import json
import math
import re
import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from jepsen.processes.fuzz.fuzz_run import Findings, FuzzRun, FuzzRunPlan, write_report
from jepsen.processes.fuzz.fuzzed_node import FuzzedNode
from jepsen.processes.fuzz.story_runner import PORTS

REPORT: Final = "sitting.json"
_STORIES_MAX: Final = 1 << 39
_SUSPECTS_TRIED: Final = 24
_SHOWN: Final = 12
_HOLD: Final = re.compile(r"loop_held: .* ([\d,]+) ms of them on the processor")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--frames", type=int, default=200_000, help="end after this number of frames")
    parser.add_argument("--seed", type=int, default=1, help="seed of the stories")
    parser.add_argument("--first", type=int, help="the first story; without it, the one after the ledger's last")
    parser.add_argument("--stories", type=int, default=_STORIES_MAX, help="end after this number of stories")
    parser.add_argument("--time", type=float, default=math.inf, help="end after this number of seconds")
    parser.add_argument("--ports", type=_ports, default=PORTS, help=f"some of {','.join(PORTS)}, in turns")
    parser.add_argument("--jobs", type=int, default=1, help="processes that make frames")
    parser.add_argument("--lanes", type=int, default=12, help="stories that each of them tells at a time")
    parser.add_argument("--store", type=Path, help="where the node's directory is kept; a temporary one without it")
    parser.add_argument("--ledger", type=Path, help="a file of runs, one per line, to which this run is appended")
    parser.add_argument("--override", action="append", default=[], metavar="key=value", help="a config of the node")
    parser.add_argument("--no-search", action="store_true", help="do not search for the story that causes a failure")


def _ports(text: str) -> tuple[str, ...]:
    ports = tuple(text.split(","))
    for port in ports:
        if port not in PORTS:
            raise argparse.ArgumentTypeError(f"{port} is not one of {', '.join(PORTS)}")
    return ports


def run(options: argparse.Namespace) -> int:
    """Run the fuzzer. Returns the exit status, which is 0 if no problem was found."""
    first = _first(options)
    plan = FuzzRunPlan(
        options.seed, first, options.ports, options.frames, options.stories, options.time, options.jobs, options.lanes
    )
    directory = Path(tempfile.mkdtemp(prefix="fuzz-")) if options.store is None else options.store
    directory.mkdir(parents=True, exist_ok=True)
    findings = _run_fuzz(plan, directory / "sitting", options)
    write_report(findings, plan, directory / REPORT)
    print(summary_text(plan, findings), flush=True)
    if findings.problems and not options.no_search and plan.stories > 1:
        for story in _search(plan, findings, directory, options):
            print(f"again: {replay_command(plan, story)}", flush=True)
    _add_to_ledger(options, plan, findings)
    if options.store is None and not findings.problems:
        shutil.rmtree(directory)
    else:
        print(f"see {directory}")
    return 1 if findings.problems else 0


def _run_fuzz(plan: FuzzRunPlan, directory: Path, options: argparse.Namespace) -> Findings:
    directory.mkdir()
    overrides = dict(pair.split("=", 1) for pair in options.override)
    return trio.run(FuzzRun(FuzzedNode(directory, overrides), plan).run)


def _search(plan: FuzzRunPlan, findings: Findings, directory: Path, options: argparse.Namespace) -> list[int]:
    """Replay the suspected stories, each against a new node. Returns those that cause a problem again."""
    failing = []
    for story in findings.suspects[-_SUSPECTS_TRIED:]:
        alone = attrs.evolve(plan, first=story, stories=1, jobs=1, lanes=1)
        tried = directory / f"story-{story}"
        if _run_fuzz(alone, tried, options).problems:
            failing.append(story)
        else:
            shutil.rmtree(tried)
    return failing


def replay_command(plan: FuzzRunPlan, story: int) -> str:
    return f"python -m jepsen fuzz --seed {plan.seed} --ports {','.join(plan.ports)} --first {story} --stories 1"


def summary_text(plan: FuzzRunPlan, findings: Findings) -> str:
    """The summary of a run, as text."""
    megabytes = [size / 1e6 for _, size in findings.resident_bytes] or [0.0]
    rate = findings.total / max(findings.seconds, 1e-9)
    lines = [
        f"seed {plan.seed}, stories {plan.first} to {findings.next_story}: {findings.total} frames in "
        f"{findings.seconds:.0f} s ({rate:.0f} a second), {findings.connections} connections, "
        f"{findings.authentications} authenticated",
        f"  frames: {_counted(findings.frames)}; undecodable {findings.refused_bytes}",
        f"  answered: {_counted(findings.answered)}",
        f"  connections closed for sound requests: {_counted(findings.closed)}",
        f"  without an answer in time: {_counted(findings.unanswered)}",
        f"  resident MB: first {megabytes[0]:.0f}, max {max(megabytes):.0f}, last {megabytes[-1]:.0f}; "
        f"{slope(findings.resident_bytes):+.2f} MB a minute in the last half",
        f"  node: CPU {findings.node_cpu_seconds:.0f} s, waited for a processor {findings.run_delay_seconds:.1f} s; "
        f"open files at most {findings.open_files_max}, data {findings.data_bytes_max / 1e6:.0f} MB",
        f"  healthy client: {healthy_text(findings.healthy)}",
        f"  holds of the loop that it printed: {len(findings.holds)}, the longest {longest_hold_ms(findings.holds)} ms",
        *(f"    {line[:300]}" for line in findings.holds[-_SHOWN:]),
        f"  restarts: {', '.join(f'{name} {seconds:.1f} s' for name, seconds in findings.restarts_s.items())}",
        *(f"PROBLEM: {problem[:2_000]}" for problem in findings.problems),
        *(f"{text[:4_000]}" for text in findings.tracebacks[:_SHOWN]),
    ]
    return "\n".join(lines)


def slope(samples: list[tuple[float, int]]) -> float:
    """The growth in MB per minute: the slope of a least-squares line through the second half of the samples."""
    later = samples[len(samples) // 2 :]
    if len(later) < 2:
        return 0.0
    mean_time = sum(at for at, _ in later) / len(later)
    mean_size = sum(size for _, size in later) / len(later)
    spread = sum((at - mean_time) ** 2 for at, _ in later)
    return sum((at - mean_time) * (size - mean_size) for at, size in later) / max(spread, 1e-9) * 60 / 1e6


def longest_hold_ms(lines: list[str]) -> int:
    """The longest loop hold that a node has printed, in milliseconds of its own CPU time."""
    return max((int(found[1].replace(",", "")) for line in lines if (found := _HOLD.search(line))), default=0)


def _counted(counter: Any) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in counter.most_common())
    return counts or "none"


def healthy_text(measured: dict[str, Any]) -> str:
    """The measurements of the healthy client, as text."""
    if "records" not in measured:
        return str(measured.get("error", "none"))
    shown = (
        ("writes and reads", "records", "round_trip_ms"),
        ("pings", None, "ping_ms"),
        ("logins", "logins", "login_ms"),
        ("requests after a login", None, "authenticated_ms"),
        ("connections with TLS", "handshakes", "handshake_ms"),
    )
    return "; ".join(
        f"{'' if count is None else f'{measured[count]} '}{name} p50 {measured[key]['p50']:.1f}, "
        f"p99 {measured[key]['p99']:.1f}, max {measured[key]['max']:.1f} ms"
        for name, count, key in shown
    )


def _first(options: argparse.Namespace) -> int:
    if options.first is not None:
        return int(options.first)
    runs = _ledger(options.ledger)
    return max((int(each["next_story"]) for each in runs if each["seed"] == options.seed), default=0)


def _ledger(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _add_to_ledger(options: argparse.Namespace, plan: FuzzRunPlan, findings: Findings) -> None:
    if options.ledger is None:
        return
    sizes = [size for _, size in findings.resident_bytes] or [0]
    line = {
        "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}",
        "seed": plan.seed,
        "ports": list(plan.ports),
        "first": plan.first,
        "next_story": findings.next_story,
        "total": findings.total,
        "frames": findings.frames,
        "seconds": round(findings.seconds),
        "resident_bytes_max": max(sizes),
        "resident_mb_a_minute": round(slope(findings.resident_bytes), 3),
        "longest_hold_ms": longest_hold_ms(findings.holds),
        "holds": findings.holds[-_SHOWN:],
        "healthy": findings.healthy,
        "problems": findings.problems,
    }
    with options.ledger.open("a") as ledger:
        ledger.write(json.dumps(line) + "\n")
    runs = _ledger(options.ledger)
    print(f"{sum(each['total'] for each in runs)} frames in {len(runs)} runs")
