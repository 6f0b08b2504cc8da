"""The exactly-once sink under aimed kills of drivers, under replaced drivers, and with speculative tasks."""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import attrs
import pytest

from broker.client import SyncProducer
from tests.support.cluster_process import ClusterProcess
from tests.support.committed_records import committed_values
from tests.support.job_process import START_S, JobProcess, completed_batches, run_to_the_end, run_until
from tests.support.standalone_spark import standalone_spark
from tests.support.steady_load import SteadyLoad
from tests.support.stopped_sinks import COMMITS, TASKS
from tests.support.streaming_job import StreamingJob

RATE = 500


def new_job(cluster: ClusterProcess, directory: Path, *, stops_at: str = "") -> StreamingJob:
    directory.mkdir()
    return StreamingJob(
        cluster.bootstrap,
        "input",
        "output",
        str(directory),
        exactly_once=True,
        has_parquet=False,
        stops_at=stops_at,
    )


def stops(job: StreamingJob) -> int:
    return sum(1 for _ in job.stops.glob("*"))


def check_output(cluster: ClusterProcess, job: StreamingJob, output: Path) -> int:
    """Run the job to the end. Returns the number of records, each of which has been written once."""
    run_to_the_end(job, output)
    given = committed_values(cluster.bootstrap, "input")
    assert committed_values(cluster.bootstrap, "output") == given
    return len(given)


def test_batches_are_written_once_if_drivers_die_between_decisions_and_the_ends_of_transactions(
    kills: int, cluster: ClusterProcess, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    job = new_job(cluster, tmp_path / "job", stops_at=COMMITS)
    process = JobProcess(job, tmp_path / "job.out")
    began = time.monotonic()
    try:
        with SteadyLoad(cluster.bootstrap, "input", RATE):
            for number in range(kills):
                run_until(process, lambda number=number: stops(job) > number, "a decision")  # type: ignore[misc]
                process.kill()
    finally:
        process.kill()
    records = check_output(cluster, job, process.output)
    seconds = time.monotonic() - began
    figure(f"{kills} kills, {records} records in {completed_batches(job.topic_checkpoint)} batches, {seconds:.0f} s")


@pytest.mark.parametrize("stops_at", ["", COMMITS], ids=["at_any_time", "after_its_decision"])
def test_batches_are_written_once_if_a_suspended_driver_goes_on_beside_its_successor(
    kills: int, stops_at: str, cluster: ClusterProcess, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    rng = Random(1)
    job = new_job(cluster, tmp_path / "job", stops_at=stops_at)
    current = zombie = JobProcess(job, tmp_path / "job.out")
    began = time.monotonic()

    def progress() -> int:
        return stops(job) if stops_at else completed_batches(job.topic_checkpoint)

    def run_until_progress() -> None:
        before = progress()
        run_until(current, lambda: progress() > before, "a batch")

    try:
        with SteadyLoad(cluster.bootstrap, "input", RATE):
            run_until_progress()
            for _ in range(kills):
                time.sleep(0 if stops_at else rng.uniform(0, 1))
                zombie, current = current, JobProcess(job, zombie.output)
                zombie.suspend()
                run_until_progress()
                zombie.resume()
                zombie.wait(START_S)
    finally:
        zombie.kill()
        current.kill()
    records = check_output(cluster, job, current.output)
    seconds = time.monotonic() - began
    figure(f"{kills} drivers, {records} records in {completed_batches(job.topic_checkpoint)} batches, {seconds:.0f} s")


def test_batches_are_written_once_with_speculative_tasks(
    kills: int, cluster: ClusterProcess, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    with SyncProducer(cluster.bootstrap) as producer:
        for number in range(3_000):
            producer.send_soon("input", b"%d" % number, partition=number % 3)
    job = new_job(cluster, tmp_path / "job", stops_at=TASKS)
    with standalone_spark(tmp_path / "spark", workers=2) as spark:
        process = JobProcess(
            attrs.evolve(job, master=spark.url, is_speculative=True, available_now=True, rows_per_batch=1_000),
            tmp_path / "job.out",
        )
        process.start()
        assert process.wait(START_S) == 0, process.output_tail()
    repeated = list(job.stops.glob("*-0-1"))
    assert repeated, "the first task of some batch was repeated beside its first attempt"
    figure(f"{check_output(cluster, job, process.output)} records, {len(repeated)} speculative tasks")
