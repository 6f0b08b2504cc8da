"""Runs seeds in several processes, which are forks of the present one, so that any function can be simulated."""

import os
import signal
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

from jepsen.simulation.applications.plan import SimulatedRun
from jepsen.simulation.scheduling import SIMULATION_LOCK

RunSeed = Callable[[int], SimulatedRun]
# The memory of a process grows with each run, so it is replaced after this many.
_RUNS_PER_PROCESS: Final = 100


class WorkerEnded(RuntimeError):
    """A process that ran seeds has ended before it had the result of one."""


def run_seeds(run: RunSeed, seeds: Sequence[int], jobs: int) -> Generator[SimulatedRun, None, None]:
    """The results in the order of the seeds. All processes have ended when the iterator is closed.

    With one job, the present process runs the seeds. Raises WorkerEnded.
    """
    if jobs == 1:
        yield from map(run, seeds)
        return
    at_once = jobs * _RUNS_PER_PROCESS
    for first in range(0, len(seeds), at_once):
        yield from _run_in_processes(run, seeds[first : first + at_once], jobs)


def _run_in_processes(run: RunSeed, seeds: Sequence[int], jobs: int) -> Generator[SimulatedRun, None, None]:
    with ExitStack() as stack:
        results = [stack.enter_context(_Worker(run, seeds[number::jobs])) for number in range(min(jobs, len(seeds)))]
        for at, seed in enumerate(seeds):
            yield results[at % jobs].result(seed)


class _Worker:
    """A process that runs some seeds. It is killed at the end of the block."""

    def __init__(self, run: RunSeed, seeds: Sequence[int]) -> None:
        context = get_context("fork")
        self._results, results = context.Pipe(duplex=False)
        arguments = (run, seeds, results, os.getpid())
        self._process = context.Process(target=_work, args=arguments, daemon=True)
        with SIMULATION_LOCK, warnings.catch_warnings():
            # Python warns of forks of a process with threads: a lock that another thread holds stays locked in the
            # fork. A simulation takes no lock of the threads that tests may have left, apart from the one held here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        results.close()

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.join()
        self._results.close()

    def result(self, seed: int) -> SimulatedRun:
        try:
            received: SimulatedRun | BaseException = self._results.recv()
        except EOFError:
            self._process.join()
            raise WorkerEnded(f"the process of seed {seed} has ended with status {self._process.exitcode}") from None
        if isinstance(received, BaseException):
            raise received
        return received


def _work(run: RunSeed, seeds: Sequence[int], results: Connection, parent: int) -> None:
    """Send the result of each seed. Ctrl-C is the parent's, which kills this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for seed in seeds:
        if os.getppid() != parent:
            return
        try:
            result: SimulatedRun | WorkerEnded = run(seed)
        except Exception as error:  # noqa: BLE001 - reported to the parent
            result = WorkerEnded(f"seed {seed} cannot be run: {error!r}")
        try:
            results.send(result)
        except BrokenPipeError:
            return
