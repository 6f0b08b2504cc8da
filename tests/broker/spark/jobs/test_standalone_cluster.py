"""The jobs on a Spark cluster of several processes, which communicate over TCP: nothing assumes local mode."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.job_topics import JobTopics
from tests.support.source_code import ROOT
from tests.support.standalone_spark import StandaloneSpark, standalone_spark

RECORDS = 100_000
PARTITIONS = 6
# A time limit, far longer than necessary on an idle machine.
JOB_S = 300


def run_job(cluster: StandaloneSpark, *arguments: str) -> str:
    """The output of `kraft spark ...` in a process of its own, whose driver is outside the cluster."""
    configs = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]
    command = [sys.executable, "-m", "broker.cli", "spark", *arguments, "--master", cluster.url, *configs]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=JOB_S)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def loaded_values(directory: Path) -> Sequence[bytes]:
    tables = [
        pq.read_table(path, columns=["value"], partitioning=None) for path in directory.rglob("topic=*/**/*.parquet")
    ]
    return [value for table in tables for value in table.column("value").to_pylist()]


def test_load_and_stats_run_on_a_master_and_two_workers(
    topics: JobTopics, tmp_path: Path, full: bool, figure: Callable[[str], None]
) -> None:
    if not full:
        pytest.skip("`make spark-standalone`, or --full, starts a master and two workers")
    topic = topics.create("on.a.cluster", PARTITIONS)
    topics.write(topic, [{"value": b"%d" % number, "partition": number % PARTITIONS} for number in range(RECORDS)])
    files = tmp_path / "files"
    with standalone_spark(tmp_path / "spark", workers=2) as cluster:
        done = json.loads(run_job(cluster, "load", topic, "--to", str(files), "-b", topics.bootstrap, "--json"))
        assert done["records"] == RECORDS
        assert all(cluster.executors(worker) for worker in (0, 1)), "both workers took part"
        again = json.loads(run_job(cluster, "load", topic, "--to", str(files), "-b", topics.bootstrap, "--json"))
        assert again["runs"] == 0
        (stats,) = json.loads(run_job(cluster, "stats", "--files", str(files), "--json"))
        assert stats["measures"]["records"] == RECORDS
    assert sorted(map(int, loaded_values(files))) == list(range(RECORDS))
    figure(f"{RECORDS} records in {done['seconds']:.1f} s")
