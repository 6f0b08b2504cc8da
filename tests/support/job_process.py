"""The process of a streaming job, with its JVM and Python workers, all or some of which a test kills."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs

from tests.support.source_code import ROOT
from tests.support.streaming_job import StreamingJob

# Time limits, far longer than necessary on an idle machine.
START_S = 300.0
_DRAIN_S = 300.0
# A start fails if a Python worker needs more than ten seconds to start, a limit that Spark does not let users
# configure.
_STARTS_MAX = 10


class JobProcess:
    """A job in its own process group. Its output goes to a file, to which each start appends."""

    def __init__(self, job: StreamingJob, output: Path) -> None:
        self.job = job
        self.output = output
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        with self.output.open("ab") as file:
            self._process = subprocess.Popen(
                self.job.command(), stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, start_new_session=True
            )

    def wait(self, timeout_s: float) -> int:
        """Wait for the job to end. Returns its exit code."""
        assert self._process is not None, "it was started"
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the job has not ended within {timeout_s} s:\n{self.output_tail()}") from None

    def kill(self) -> None:
        """Kill -9 the driver and all its descendants. The workers have a process group of their own."""
        if self._process is None:
            return
        below = list(descendants(self._process.pid))
        for pid in [self._process.pid, *below]:
            kill_process(pid)
        self._process.wait(10)

    def suspend(self) -> None:
        """Stop the driver and all its descendants, as a long pause of their machine does."""
        for pid in [self.pid, *descendants(self.pid)]:
            _send(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a suspended job go on. Its Python processes go on before those that watch them."""
        for pid in reversed([self.pid, *descendants(self.pid)]):
            _send(pid, signal.SIGCONT)

    def workers(self) -> list[int]:
        """The Python processes that run tasks: children of Spark's daemon."""
        found = []
        for pid in descendants(self.pid):
            if "pyspark.daemon" in command_line(pid):
                found += [child for child in children(pid) if "pyspark.daemon" in command_line(child)]
        return found

    def output_tail(self) -> str:
        """The last lines of the output, without those of Java's stack traces."""
        text = self.output.read_text(errors="replace") if self.output.exists() else ""
        return "\n".join([line for line in text.splitlines() if not line.startswith("\tat ")][-40:])


def completed_batches(checkpoint: Path) -> int:
    """The number of batches that a query has completed, as far as its checkpoint still has them."""
    return sum(not each.name.startswith(".") for each in (checkpoint / "commits").glob("*"))


def run_until(process: JobProcess, condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition. Restart the job whenever it has ended, as a supervisor would."""
    starts = 0

    def holds() -> bool:
        nonlocal starts
        if not process.is_running:
            assert starts < _STARTS_MAX, process.output_tail()
            process.start()
            starts += 1
        return condition()

    wait_until(holds, START_S, what)


def run_to_the_end(job: StreamingJob, output: Path) -> None:
    """Run a job that may have been killed before until it has read all present records."""
    process = JobProcess(attrs.evolve(job, available_now=True, rows_per_batch=100_000, stops_at=""), output)
    codes: list[int] = []
    try:
        while 0 not in codes and len(codes) < _STARTS_MAX:
            process.start()
            codes.append(process.wait(_DRAIN_S))
    finally:
        process.kill()
    assert codes[-1] == 0, process.output_tail()


def kill_process(pid: int) -> None:
    _send(pid, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> Iterator[int]:
    """All descendants of a process, without the process itself."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def resident_bytes(pid: int) -> int:
    """The memory of a process, or 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)
