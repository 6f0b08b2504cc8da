"""`python -m jepsen sim`: runs seeds, and prints their results and the commands that replay failures."""

import argparse
import gc
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import attrs

from jepsen.simulation.applications.command import OPTIONS, run_application
from jepsen.simulation.applications.faults import GROUPS
from jepsen.simulation.faults import FAULTS
from jepsen.simulation.scenario import Scenario, Verdict
from jepsen.simulation.shapes import ANY, SHAPES, Shape

SECONDS = 60.0
ALL_FAULTS = "all"
NO_FAULTS = "none"
ANY_SHAPE = "any"
# About the number of runs after which a process is replaced, because its memory grows with each run.
RUNS_PER_PROCESS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="the (first) seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, from there on")
    parser.add_argument("--time", type=float, help=f"virtual seconds with faults; default: {SECONDS:g}")
    parser.add_argument(
        "--faults",
        help=f"the seed chooses among these, separated by commas: {', '.join(FAULTS)}; with --application also "
        f"{', '.join(GROUPS)}; {NO_FAULTS}; default: {ALL_FAULTS}",
    )
    parser.add_argument(
        "--nodes",
        help=f"the seed chooses one of these: {', '.join(SHAPES)}; with --application the number of nodes; default: "
        f"{ANY_SHAPE}, with --application 3",
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the seeds")
    parser.add_argument(
        "--application",
        metavar="MODULE:FUNCTION",
        help="run these seeds of an application, or of a function that calls jepsen.testing.simulate, which has the "
        "time, the faults and the nodes then",
    )
    parser.add_argument("--events", action="store_true", help="show the events of a run that failed")


@attrs.frozen
class Plan:
    """The options of all runs."""

    seconds: float
    faults: Sequence[str]
    shape: Shape

    def run(self, seed: int) -> tuple[Verdict, float]:
        """Run a seed. Returns its verdict and the CPU seconds that it took."""
        began = time.process_time()
        verdict = Scenario(seed, self.seconds, self.faults, self.shape).run()
        gc.collect()
        return verdict, time.process_time() - began


def run(options: argparse.Namespace) -> int:
    """Run the seeds. Returns the exit status, which is 0 if all of them passed."""
    if options.application is not None:
        seeds = range(options.seed, options.seed + options.count)
        if options.events:
            raise SystemExit("--events does not apply to applications: the run of one seed (--count 1) shows all")
        given = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
        return run_application(options.application, seeds, options.jobs, given)
    options = _with_defaults(options)
    plan = Plan(options.time, parse_faults(options.faults), parse_shape(options.nodes))
    seeds = range(options.seed, options.seed + options.count)
    failed, virtual_seconds, operations, cpu_seconds = 0, 0.0, 0, 0.0
    for verdict, cpu_seconds_taken in _run_all(plan, seeds, options.jobs):
        virtual_seconds += verdict.virtual_seconds
        operations += sum(verdict.operations.values())
        cpu_seconds += cpu_seconds_taken
        failed += verdict.violation is not None
        if verdict.violation is not None or options.count == 1:
            print(report(verdict, options), flush=True)
    print(
        f"{options.count} seeds, {failed} with violations; {virtual_seconds / 3600:.2f} virtual hours, {operations} "
        f"operations, {cpu_seconds:.1f} CPU seconds"
    )
    return 1 if failed else 0


def _with_defaults(options: argparse.Namespace) -> argparse.Namespace:
    """The options of runs without an application, which have been left out or given."""
    defaults = {"time": SECONDS, "faults": ALL_FAULTS, "nodes": ANY_SHAPE}
    given = {name: value for name, value in vars(options).items() if value is not None}
    return argparse.Namespace(**{**vars(options), **defaults, **given})


def collect_between_runs() -> None:
    """Disable the garbage collector, and exclude the present objects from later collections.

    A run leaves many thousand objects, which the collector would scan several times.
    """
    gc.disable()
    gc.freeze()


def _run_all(plan: Plan, seeds: Sequence[int], jobs: int) -> Iterator[tuple[Verdict, float]]:
    """Results in the order of the seeds. Each job is a process, which is replaced from time to time.

    A new pool replaces them all. `max_tasks_per_child` would replace them one by one, but a pool with it may end up
    waiting without a process, in Python 3.11 to 3.15 (https://github.com/python/cpython/issues/115634).
    """
    if jobs == 1:
        collect_between_runs()
        yield from map(plan.run, seeds)
        return
    at_once = jobs * RUNS_PER_PROCESS
    for first in range(0, len(seeds), at_once):
        with ProcessPoolExecutor(jobs, get_context("spawn"), collect_between_runs) as pool:
            yield from pool.map(plan.run, seeds[first : first + at_once])


def parse_faults(text: str) -> Sequence[str]:
    """Parse the names of faults. Raises SystemExit for an unknown name."""
    if text == ALL_FAULTS:
        return tuple(FAULTS)
    names = [] if text == NO_FAULTS else text.split(",")
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise SystemExit(f"no fault is called {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    return names


def parse_shape(text: str) -> Shape:
    """Parse the names of shapes. Raises SystemExit for an unknown name."""
    if text == ANY_SHAPE:
        return ANY
    names = text.split(",")
    unknown = [name for name in names if name not in SHAPES]
    if unknown:
        raise SystemExit(f"no shape is called {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    return Shape(names)


def report(verdict: Verdict, options: argparse.Namespace) -> str:
    """The summary of one run."""
    strikes = ", ".join(f"{name} {count}" for name, count in verdict.strikes.items()) or "none"
    counts = Counter(dict(verdict.operations))
    lines = [
        f"seed {verdict.seed}, {verdict.shape}: {'no violation' if verdict.violation is None else 'VIOLATION'}",
        f"  trace hash {verdict.digest} ({verdict.steps} steps, {verdict.segments} segments)",
        f"  faults: {strikes}",
        f"  operations: {', '.join(f'{name} {count}' for name, count in sorted(counts.items()))}",
    ]
    if verdict.violation is not None:
        lines += [f"  {verdict.violation}", f"  again: {replay_command(verdict, options)}"]
        if options.events:
            lines += verdict.tail
    return "\n".join(lines)


def replay_command(verdict: Verdict, options: argparse.Namespace) -> str:
    return (
        f"python -m jepsen sim --seed {verdict.seed} --time {options.time:g} --faults {options.faults} "
        f"--nodes {verdict.shape} --events"
    )
