"""Long streaming at a constant rate: the memory of all processes stays constant, and the lag bounded."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from broker.client import NewTopic, SyncAdmin
from tests.support.cluster_process import new_cluster
from tests.support.job_process import JobProcess, command_line, descendants, resident_bytes, wait_until
from tests.support.steady_load import SteadyLoad
from tests.support.streaming_job import StreamingJob

RATE = 2_000
SAMPLE_S = 5.0
MIB = 1 << 20
# The allowed growth of a process between the second quarter of the run and the last one.
GROWTH_MIB_MAX = 48
# The JVM's heap has a limit of 1 GiB, and grows up to it before it is collected.
JVM_MIB_MAX = 1_700
LAG_S_MAX = 30


def kind_of(pid: int) -> str:
    line = command_line(pid)
    if "streaming_source_runner" in line:
        return "source runners"
    if "pyspark.daemon" in line:
        return "workers"
    return "JVM" if "java" in line.split(" ")[0] else "other"


def sample(process: JobProcess) -> dict[str, float]:
    """The memory by kind of process, in MiB."""
    found = {"driver": resident_bytes(process.pid) / MIB}
    for pid in descendants(process.pid):
        kind = kind_of(pid)
        found[kind] = found.get(kind, 0.0) + resident_bytes(pid) / MIB
    return found


def lag_of(progress: Path) -> int:
    """The largest lag of a query, in records."""
    found = json.loads(progress.read_text()) if progress.exists() else {}
    metrics = [each["sources"][0]["latestOffset"]["#metrics"] for each in found.values() if each]
    return max((int(each["totalOffsetsBehindLatest"]) for each in metrics), default=0)


def test_memory_is_flat_and_lag_is_bounded_at_a_steady_rate(
    tmp_path: Path, pytestconfig: pytest.Config, full: bool, figure: Callable[[str], None]
) -> None:
    minutes = pytestconfig.getoption("--minutes") or (30 if full else 0)
    if not minutes:
        pytest.skip("run with --full or --minutes, or by `make spark-steady`")
    progress = tmp_path / "progress.json"
    with new_cluster(tmp_path) as cluster:
        cluster.start()
        with SyncAdmin(cluster.bootstrap) as admin:
            topics = [NewTopic(name, num_partitions=3, replication_factor=3) for name in ("input", "output")]
            admin.create_topics(topics).raise_first()
        job = StreamingJob(
            cluster.bootstrap,
            "input",
            "output",
            str(tmp_path / "job"),
            rows_per_batch=50_000,
            progress=str(progress),
            compiles_plans=True,
        )
        process = JobProcess(job, tmp_path / "job.out")
        samples, lags = [], []
        try:
            with SteadyLoad(cluster.bootstrap, "input", RATE):
                process.start()
                wait_until(lambda: progress.exists() or not process.is_running, 90, "progress of the job")
                end = time.monotonic() + 60 * minutes
                while time.monotonic() < end:
                    assert process.is_running, process.output_tail()
                    samples.append(sample(process))
                    lags.append(lag_of(progress))
                    time.sleep(SAMPLE_S)
        finally:
            process.kill()
    quarter = len(samples) // 4
    for kind in samples[-1]:
        second, last = (
            median(each.get(kind, 0.0) for each in part)
            for part in (samples[quarter : 2 * quarter], samples[-quarter:])
        )
        figure(f"{kind}: {second:.0f} MiB in the second quarter of {minutes:g} minutes, {last:.0f} MiB in the last one")
        if kind == "JVM":
            assert last < JVM_MIB_MAX
        else:
            assert last - second < GROWTH_MIB_MAX, f"{kind} has grown"
    figure(f"lag: median {median(lags[quarter:]):.0f} records, at most {max(lags[quarter:])}, at {RATE} records/s")
    assert max(lags[quarter:]) < LAG_S_MAX * RATE
