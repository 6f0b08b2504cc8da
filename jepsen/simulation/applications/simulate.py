"""`simulate`: runs an application against whole clusters in virtual time, under faults, for many seeds."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from broker.client import NewTopic
from jepsen.simulation.applications.faults import DEFAULT
from jepsen.simulation.applications.machine import Application
from jepsen.simulation.applications.plan import Plan, SimulatedRun
from jepsen.simulation.applications.replay import CHOICE, chosen_seeds, replay_command
from jepsen.simulation.applications.run import ApplicationRun
from jepsen.simulation.applications.view import Check
from jepsen.simulation.applications.workers import RunSeed, run_seeds

# The entries of a timeline that a failure among many seeds shows. The run of one seed shows all.
_ENTRIES_SHOWN: Final = 100


class SimulationFailed(AssertionError):
    """A seed has failed. The message says what was wrong, what had happened, and how to run the seed again.

    `run` is the failed run, `replay` the line that runs its seed again.
    """

    def __init__(self, run: SimulatedRun, replay: str, note: str = "", *, shows_all: bool = False) -> None:
        self.run = run
        self.replay = replay
        entries = [each for each in run.timeline if shows_all or not each.is_observation]
        shown = entries if shows_all else entries[-_ENTRIES_SHOWN:]
        left_out = len(entries) - len(shown)
        super().__init__(
            "\n".join(
                [
                    f"seed {run.seed} fails after {run.virtual_seconds:.3f} virtual seconds: {run.failure}",
                    "",
                    f"What happened{f', without {left_out} earlier entries' if left_out else ''}:",
                    *map(str, shown),
                    "",
                    *([note] if note else []),
                    f"Trace digest: {run.digest}. Run this seed again:",
                    f"    {replay}",
                ]
            )
        )


@attrs.frozen
class SimulationReport:
    """The runs of all seeds, none of which has failed."""

    runs: Sequence[SimulatedRun]

    @property
    def virtual_seconds(self) -> float:
        return sum(run.virtual_seconds for run in self.runs)

    @property
    def cpu_seconds(self) -> float:
        return sum(run.cpu_seconds for run in self.runs)

    def __str__(self) -> str:
        faults = sum(sum(run.faults.values()) for run in self.runs)
        return (
            f"{len(self.runs)} seeds without a failure: {faults} faults in {self.virtual_seconds / 60:.1f} virtual "
            f"minutes, {self.cpu_seconds:.1f} s of CPU time"
        )


def simulate(
    application: Application | Mapping[str, Application] | Sequence[Application],
    *,
    nodes: int = 3,
    seeds: Iterable[int] = range(100),
    faults: Iterable[str] = DEFAULT,
    seconds: float = 60.0,
    recovery_seconds: float = 60.0,
    topics: Mapping[str, int] | Iterable[NewTopic] = (),
    always: Check | Sequence[Check] = (),
    eventually: Check | Sequence[Check] = (),
    restart_on: type[Exception] | tuple[type[Exception], ...] = (),
    config: Mapping[str, object] | None = None,
    jobs: int = 1,
    step_seconds_max: float = 20.0,
) -> SimulationReport:
    """Run a Trio program that uses `broker.client` against a cluster of `nodes` nodes, once for each seed.

    `application` is an async function that takes a `Machine`, or several: each is a process of its own, on a machine of
    its own, under its name in the mapping or the function's name. A process that a fault has killed is started again.
    One whose function returns has finished. An error ends the run as a failure, unless it is one of `restart_on`: then
    the process is started again, as by a supervisor.

    All is healthy until the nodes serve and the `topics` are created (names with numbers of partitions, or `NewTopic`).
    Then there are `faults` for `seconds` virtual seconds, or until all processes have finished; each seed chooses some
    of them. They affect nodes and the application's machines. After that nothing fails any more.

    `always` are functions that are called each virtual second and at the end, with a `SimulatedCluster`. `eventually`
    are called after the faults until they pass, for at most `recovery_seconds`. They fail by raising AssertionError, as
    `assert` does, or any other exception, or by returning False.

    `config` has configs of Kafka for all nodes. `jobs` processes share the seeds. A task that runs for
    `step_seconds_max` real seconds without awaiting anything is interrupted.

    Raises SimulationFailed for the first seed that fails, and ValueError or TypeError for arguments that cannot be.
    """
    plan = Plan(
        application,
        nodes,
        faults,
        seconds,
        recovery_seconds,
        topics,
        always,
        eventually,
        restart_on,
        config,
        step_seconds_max,
    )
    return _simulate(plan, chosen_seeds(list(seeds)), jobs)


def _simulate(plan: Plan, seeds: Sequence[int], jobs: int) -> SimulationReport:
    choice = CHOICE.get()
    jobs = jobs if choice is None or choice.jobs is None else choice.jobs
    if not seeds or type(jobs) is not int or jobs < 1:
        raise ValueError("at least one seed and one job are needed")
    runs = []
    # Jobs are killed at the end, and leave their directories.
    with tempfile.TemporaryDirectory(prefix="simulated-") as directory:
        run = partial(_run, plan, Path(directory))
        with closing(run_seeds(run, seeds, min(jobs, len(seeds)))) as results:
            for result in results:
                if result.failure is not None:
                    replay, note = replay_command(result.seed), _compared(result, run)
                    raise SimulationFailed(result, replay, note, shows_all=len(seeds) == 1)
                runs.append(result)
    report = SimulationReport(runs)
    if choice is not None:
        choice.report(report)
    return report


def _run(plan: Plan, directory: Path, seed: int) -> SimulatedRun:
    return ApplicationRun(plan, seed, directory).run()


def _compared(failed: SimulatedRun, run: RunSeed) -> str:
    """Run a failed seed again. Returns a remark if the second run differs, else an empty text."""
    again = run(failed.seed)
    if again.digest == failed.digest:
        return ""
    both = zip(failed.timeline, again.timeline, strict=False)
    differs = next((f" First:\n{one}\n{other}\n" for one, other in both if one != other), "")
    return (
        f"A second run of this seed was another one (digest {again.digest}), so the application depends on something "
        "that no seed decides: an object that runs share, the order of a set, the time of a module other than `time`."
        f"{differs}"
    )
