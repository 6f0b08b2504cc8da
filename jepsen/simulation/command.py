"""`python -m jepsen sim`: run seeds, say how they went, and how to see a failure again."""

import argparse
import time
from collections import Counter
from collections.abc import Sequence

from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario, Verdict
from jepsen.simulation.shapes import ANY, SHAPES, Shape

SECONDS = 60.0
ALL_FAULTS = "all"
NO_FAULTS = "none"
ANY_SHAPE = "any"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="the (first) seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--time", type=float, default=SECONDS, help="virtual seconds of trouble")
    parser.add_argument(
        "--faults", default=ALL_FAULTS, help=f"from which the seed chooses, with commas between: {', '.join(FAULTS)}"
    )
    parser.add_argument("--nodes", default=ANY_SHAPE, help=f"from which the seed draws one: {', '.join(SHAPES)}")
    parser.add_argument("--events", action="store_true", help="show the events of a run that failed")


def run(options: argparse.Namespace) -> int:
    """The exit status: 0 where no promise was broken."""
    faults = parse_faults(options.faults)
    started = time.process_time()
    failed, virtual_seconds, operations = 0, 0.0, 0
    for seed in range(options.seed, options.seed + options.count):
        verdict = Scenario(seed, options.time, faults, parse_shape(options.nodes)).run()
        virtual_seconds += verdict.virtual_seconds
        operations += sum(verdict.operations.values())
        if verdict.violation is not None:
            failed += 1
        if verdict.violation is not None or options.count == 1:
            print(report(verdict, options))
    cpu_seconds = time.process_time() - started
    print(
        f"{options.count} seeds, {failed} with violations; {virtual_seconds:.0f} virtual seconds, {operations} "
        f"operations, {cpu_seconds:.1f} CPU seconds"
    )
    return 1 if failed else 0


def parse_faults(text: str) -> Sequence[str]:
    """Raises SystemExit for a name that no fault has."""
    if text == ALL_FAULTS:
        return tuple(FAULTS)
    names = [] if text == NO_FAULTS else text.split(",")
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise SystemExit(f"no fault is called {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return names


def parse_shape(text: str) -> Shape:
    """Raises SystemExit for a name that no shape has."""
    if text == ANY_SHAPE:
        return ANY
    names = text.split(",")
    unknown = [name for name in names if name not in SHAPES]
    if unknown:
        raise SystemExit(f"nothing is called {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    return Shape(names)


def report(verdict: Verdict, options: argparse.Namespace) -> str:
    """What a person wants to know of one run."""
    strikes = ", ".join(f"{name} {count}" for name, count in verdict.strikes.items()) or "none"
    counts = Counter(dict(verdict.operations))
    lines = [
        f"seed {verdict.seed}, {verdict.shape}: {'no violation' if verdict.violation is None else 'VIOLATION'}",
        f"  trace hash {verdict.digest} ({verdict.steps} steps, {verdict.segments} segments)",
        f"  faults: {strikes}",
        f"  operations: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}",
    ]
    if verdict.violation is not None:
        lines += [f"  {verdict.violation}", f"  again: {replay_command(verdict.seed, options)}"]
        if options.events:
            lines += verdict.tail
    return "\n".join(lines)


def replay_command(seed: int, options: argparse.Namespace) -> str:
    return (
        f"python -m jepsen sim --seed {seed} --time {options.time:g} --faults {options.faults} "
        f"--nodes {options.nodes} --events"
    )
